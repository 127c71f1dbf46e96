"""Groups of some ranks: their roots, and who is not in them."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ranktable import dist
from tests.rank_worker import device, group_of, tensor, told

if TYPE_CHECKING:
    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def use_roots() -> object:
    """Use the last rank of a group without rank 0 as the root of everything."""
    group, rank = group_of(1, 2), dist.get_rank()
    if rank == 0:
        return None
    reduced, sent = tensor([rank]), tensor([rank])
    objects = [rank]
    parts = [tensor([10]), tensor([20])] if rank == 2 else None
    dist.reduce(reduced, group=group, dst=2)
    dist.broadcast(sent, group=group, src=2)
    dist.broadcast_object_list(objects, group=group, src=2)
    gathered = dist.gather(tensor([rank]), group=group, dst=2)
    return [
        reduced.item(),
        sent.item(),
        objects,
        [each.item() for each in gathered],
        dist.gather_object(rank, group=group, dst=2),
        dist.scatter(parts, group=group, src=2).item(),
        dist.scatter_object_list(["a", "b"] if rank == 2 else None, group=group, src=2),
        [dist.get_rank(group), dist.get_world_size(group), dist.is_main_process(group)],
    ]


def test_roots_are_global_ranks(trio: Pool) -> None:
    assert trio.returned(use_roots) == [
        None,
        [1, 2, [2], [], None, 10, "a", [0, 2, True]],
        [3, 2, [2], [1, 2], [1, 2], 20, "b", [1, 2, False]],
    ]


def name_wrong_roots() -> object:
    group, rank = group_of(0, 1), dist.get_rank()
    if rank == 2:
        return None
    data = tensor([1.0])
    return [
        told(dist.broadcast, data, 2, group),
        told(dist.broadcast, data, "0", group),
        told(dist.reduce, data, 2, group=group),
        told(dist.gather, data, 2, group),
        told(dist.scatter, [data, data], 2, group),
        told(dist.gather_object, 1, 2, group),
        told(dist.scatter_object_list, [1, 2], 2, group),
        told(dist.broadcast_object_list, [1], 2, group),
        told(dist.send, data, 2, group),
        told(dist.recv, data, 2, group),
        told(dist.send, data, rank, group),
    ]


def test_wrong_roots_are_named(trio: Pool) -> None:
    first, second, nothing = trio.returned(name_wrong_roots)

    assert nothing is None
    assert [kind for kind, _ in first] == [kind for kind, _ in second]
    collective = [kind for kind, _ in first[:8]]
    outside = "NotMemberError"
    assert collective == [outside, "TypeError"] + [outside] * 6
    assert [kind for kind, _ in first[8:]] == [outside, outside, "ValueError"]
    assert "2, a global rank that is not in the group of ranks 0, 1" in first[0][1]


def call_from_outside() -> object:
    group = group_of(1, 2)
    if dist.get_rank() != 0:
        return None
    data = tensor([1.0])
    calls = {
        "all_reduce": lambda: dist.all_reduce(data, group=group),
        "reduce": lambda: dist.reduce(data, 1, group=group),
        "broadcast": lambda: dist.broadcast(data, 1, group),
        "all_gather": lambda: dist.all_gather(data, group),
        "gather": lambda: dist.gather(data, 1, group),
        "scatter": lambda: dist.scatter(None, 1, group),
        "reduce_scatter": lambda: dist.reduce_scatter(
            torch.cat([data] * 2), "sum", group
        ),
        "all_to_all": lambda: dist.all_to_all(torch.cat([data] * 2), group),
        "shift": lambda: dist.shift(data, 1, group),
        "send": lambda: dist.send(data, 1, group),
        "recv": lambda: dist.recv(data, 1, group),
        "isend": lambda: dist.isend(data, 1, group),
        "irecv": lambda: dist.irecv(data, 1, group),
        "batch": lambda: dist.batch_isend_irecv([dist.P2POp("isend", data, 1, group)]),
        "barrier": lambda: dist.barrier(group),
        "barrier with a time": lambda: dist.barrier(group, timeout_s=1),
        "all_gather_object": lambda: dist.all_gather_object(1, group),
        "gather_object": lambda: dist.gather_object(1, 1, group),
        "broadcast_object_list": lambda: dist.broadcast_object_list([1], 1, group),
        "scatter_object_list": lambda: dist.scatter_object_list(None, 1, group),
        "all_reduce_dict": lambda: dist.all_reduce_dict({"a": data}, "sum", group),
        "all_reduce_params": lambda: dist.all_reduce_params([data], group=group),
        "collect_results": lambda: dist.collect_results([1], 1, group=group),
        "sync_random_seed": lambda: dist.sync_random_seed(group),
        "get_rank": lambda: dist.get_rank(group),
        "get_world_size": lambda: dist.get_world_size(group),
        "get_backend": lambda: dist.get_backend(group),
        "get_dist_info": lambda: dist.get_dist_info(group),
        "is_main_process": lambda: dist.is_main_process(group),
    }
    return {name: told(call) for name, call in calls.items()}


def test_every_function_refuses_a_rank_that_is_not_a_member(trio: Pool) -> None:
    found = trio.returned(call_from_outside)[0]

    said = "rank 0 is not in this group; call it only on the ranks that new_group was"
    assert len(found) == 29
    assert found == dict.fromkeys(found, ("NotMemberError", f"{said} given"))


def give_no_group() -> object:
    return told(dist.all_reduce, tensor([1.0]), group="world")


def test_what_is_no_group_is_refused(pair: Pool) -> None:
    found = pair.returned(give_no_group)

    form = "write all_reduce(data, op='sum', group=None, *, async_op=False)"
    said = f"group is str, not a process group; {form}"
    assert found == [("TypeError", said)] * 2


def make_wrong_groups() -> object:
    return [told(dist.new_group, each)[0] for each in ([], [0, 0], [0, 9], [-1])]


def test_groups_need_distinct_ranks_of_the_job(pair: Pool) -> None:
    assert pair.returned(make_wrong_groups) == [["ValueError"] * 4] * 2


def use_two_groups_at_once() -> object:
    """Reduce in two groups that have a rank in common, in one order everywhere."""
    rank = dist.get_rank()
    groups = {ranks: group_of(*ranks) for ranks in [(0, 1), (1, 2), (2,)]}
    found = []
    for ranks, group in groups.items():
        if rank in ranks:
            data = torch.tensor([float(rank)]).to(device())
            dist.all_reduce(data, "mean", group)
            found.append(data.item())
    return found


def test_groups_that_share_ranks_are_apart(trio: Pool) -> None:
    assert trio.returned(use_two_groups_at_once) == [[0.5], [0.5, 1.5], [1.5, 2]]


def make_and_end_groups() -> int:
    kept = list[weakref.ref[Any]]()
    for _ in range(3):
        group = torch.distributed.new_group([0, 1])
        dist.all_reduce(tensor([1.0]), group=group)
        kept.append(weakref.ref(group))
        torch.distributed.destroy_process_group(group)
        del group
    gc.collect()
    return sum(each() is not None for each in kept)


def test_a_group_that_has_ended_is_not_kept(pair: Pool) -> None:
    assert pair.returned(make_and_end_groups) == [0, 0]
