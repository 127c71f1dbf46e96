"""Ranks that are not about to do the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import torch

from ranktable import dist
from tests.rank_worker import SOON_S, device, tensor, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def differ(what: str) -> object:
    """Do something else than the other ranks on the last one, then go on together."""
    is_last = dist.get_rank() == dist.get_world_size() - 1
    data = tensor([1.0, 2.0])
    parts = [tensor([1.0])] * dist.get_world_size()
    every = list(range(dist.get_world_size()))
    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "collective": (lambda: dist.all_reduce(data), lambda: dist.all_gather(data)),
        "barrier": (dist.barrier, lambda: dist.all_reduce(data)),
        "reduction": (
            lambda: dist.all_reduce(data),
            lambda: dist.all_reduce(data, "max"),
        ),
        "dtype": (
            lambda: dist.all_reduce(data),
            lambda: dist.all_reduce(data.half()),
        ),
        "shape": (
            lambda: dist.all_reduce(data),
            lambda: dist.all_reduce(data.view(1, 2)),
        ),
        "root": (
            lambda: dist.broadcast(data, src=0),
            lambda: dist.broadcast(data, src=1),
        ),
        "gather": (
            lambda: dist.gather(data, dst=0),
            lambda: dist.gather(data.int(), dst=0),
        ),
        "scatter": (
            lambda: dist.scatter(parts, src=0),
            lambda: dist.scatter(parts, src=1),
        ),
        "reduce_scatter": (
            lambda: dist.reduce_scatter(parts),
            lambda: dist.reduce_scatter([*parts[1:], data]),
        ),
        "all_to_all": (
            lambda: dist.all_to_all(parts),
            lambda: dist.all_to_all(torch.cat(parts)),
        ),
        "rows": (
            lambda: dist.all_to_all(torch.ones(12, 2).to(device())),
            lambda: dist.all_to_all(torch.ones(12, 3).to(device())),
        ),
        "shift": (lambda: dist.shift(data), lambda: dist.shift(data, 2)),
        "keys": (
            lambda: dist.all_reduce_dict({"a": data}),
            lambda: dist.all_reduce_dict({"b": data}),
        ),
        "parameters": (
            lambda: dist.all_reduce_params([data, data[:1]]),
            lambda: dist.all_reduce_params([data]),
        ),
        "lengths": (
            lambda: dist.broadcast_object_list([None]),
            lambda: dist.broadcast_object_list([None, None]),
        ),
        "object root": (
            lambda: dist.gather_object(1, 0),
            lambda: dist.gather_object(1, 1),
        ),
        "refusal": (
            lambda: dist.all_reduce(data),
            lambda: dist.all_reduce(data[:1].expand(2)),
        ),
        "no tensor": (
            lambda: dist.all_gather(data),
            lambda: dist.all_gather([1.0]),  # type: ignore[call-overload]
        ),
        "mean": (
            lambda: dist.all_reduce(data, "mean"),
            lambda: dist.all_reduce(data.long(), "mean"),
        ),
        "a root outside": (
            lambda: dist.broadcast(data, src=0),
            lambda: dist.broadcast(data, src=99),
        ),
        "bad op": (
            lambda: dist.all_reduce(data),
            lambda: dist.all_reduce(data, "xor"),  # type: ignore[call-overload]
        ),
        "too many dimensions": (
            lambda: dist.all_gather(data),
            lambda: dist.all_gather(data.view([1] * 16 + [2])),
        ),
        "scattered dimensions": (
            lambda: dist.scatter(None, src=dist.get_world_size() - 1),
            lambda: dist.scatter(
                [data.view([1] * 16 + [2])] * dist.get_world_size(),
                src=dist.get_world_size() - 1,
            ),
        ),
        "splits": (
            lambda: dist.all_to_all(data[:0], input_splits=[0] * len(every)),
            lambda: dist.all_to_all(data, input_splits=[1.5] * len(every)),  # type: ignore[list-item]
        ),
        "results": (
            lambda: dist.collect_results([1]),
            lambda: dist.collect_results((1,)),  # type: ignore[arg-type]
        ),
        "size": (
            lambda: dist.collect_results([1], 1),
            lambda: dist.collect_results([1], 99),
        ),
        "order": (
            lambda: dist.collect_results([1]),
            lambda: dist.collect_results([1], order="concat"),
        ),
        "timeout": (
            lambda: dist.barrier(timeout_s=20),
            lambda: dist.barrier(timeout_s=-1),
        ),
        "seed": (dist.sync_random_seed, dist.barrier),
        "objects": (
            lambda: dist.all_gather_object(1),
            lambda: dist.gather_object(1),
        ),
        "scattered objects": (
            lambda: dist.scatter_object_list(None, src=len(every) - 1),
            lambda: dist.scatter_object_list([1], src=len(every) - 1),
        ),
    }
    begin = time.monotonic()
    found = told(calls[what][1 if is_last else 0])
    time_s = time.monotonic() - begin
    again = tensor([1.0])
    dist.all_reduce(again)
    return [found, again.item(), time_s < SOON_S]


DIFFERENCES = [
    *("collective", "barrier", "reduction", "dtype", "shape", "root", "gather"),
    *("scatter", "reduce_scatter", "all_to_all", "rows", "shift", "keys"),
    *("parameters", "lengths", "object root", "refusal", "no tensor", "mean"),
    *("a root outside", "bad op", "too many dimensions", "scattered dimensions"),
    *("splits", "results", "size", "order", "timeout", "seed", "objects"),
    "scattered objects",
]


@pytest.mark.parametrize("what", DIFFERENCES)
@pytest.mark.parametrize("mode", ["first", "always"])
def test_all_ranks_raise_the_same_error_and_continue(
    trio: Pool, what: str, mode: str
) -> None:
    found = trio.returned(differ, what, env={"RANKTABLE_DIST_CHECK": mode})

    [said] = {each[0] for each in found}
    assert said[0] == "MismatchError"
    assert said[1].startswith("the ranks differ in collective ")
    assert "  ranks 0, 1  " in said[1]
    assert "\n  rank 2      " in said[1]
    assert [again for _, again, _ in found] == [3, 3, 3]
    assert all(is_soon for _, _, is_soon in found)


def differ_in_a_table() -> str:
    shape = [(2,), (2,), (3, 1)][dist.get_rank()]
    return told(lambda: dist.all_reduce(torch.ones(shape).to(device())))[1]


def test_the_message_is_a_table_with_the_place_of_each_call(trio: Pool) -> None:
    found = trio.returned(differ_in_a_table)[0].splitlines()

    assert found[0].startswith("the ranks differ in collective ")
    assert found[0].endswith(" of the default group:")
    place = "at tests/test_dist_agreement.py:"
    first, second = (line.partition(place)[0] for line in found[1:])
    assert first == "  ranks 0, 1  all_reduce of shape (2,) float32 (sum)  "
    assert second == "  rank 2      all_reduce of shape (3, 1) float32 (sum)  "


def differ_in_the_order_of_groups() -> object:
    every = list(range(dist.get_world_size()))
    first = dist.new_group(every, timeout_s=3)
    second = dist.new_group(every[:2], timeout_s=3)
    data = tensor([1.0])
    if dist.get_rank() >= 2:
        return told(dist.all_reduce, data, group=first)
    order = [first, second] if dist.get_rank() == 0 else [second, first]
    for group in order:
        found = told(dist.all_reduce, data, group=group)
        if found[0]:
            return found
    return None


def test_groups_in_another_order_end_with_where_the_ranks_are(trio: Pool) -> None:
    env = {"RANKTABLE_DIST_CHECK": "always"}
    found = trio.returned(differ_in_the_order_of_groups, env=env, is_last=True)

    assert [kind for kind, _ in found] == ["DistError"] * 3
    [said] = {said for _, said in (found[0], found[2])}
    assert said.startswith("rank 1 did not reach collective 1 of the group of ranks ")
    assert (
        "; rank 1 waits in all_reduce of shape (1,) float32 (sum), collective 1 of the "
        "group of ranks 0, 1" in said
    )
    assert found[1][1].startswith("rank 0 did not reach collective 1 of ")


def compare_nothing() -> object:
    data = tensor([float(dist.get_rank())])
    return told(dist.all_reduce, data, "max" if dist.get_rank() else "sum")


def test_off_compares_nothing(gloo: Pool) -> None:
    env = {"RANKTABLE_DIST_CHECK": "off"}
    found = gloo.returned(compare_nothing, env=env, is_last=True)

    assert found == [("", "")] * 3


def refuse_alone() -> object:
    begin = time.monotonic()
    found = told(dist.all_reduce, tensor([1.0]), "xor")
    return [found[0], time.monotonic() - begin < 1]


@pytest.mark.deadline
@pytest.mark.parametrize("mode", ["off", "first", "always"])
def test_call_that_no_rank_can_do_is_refused_at_once(pair: Pool, mode: str) -> None:
    env = {"RANKTABLE_DIST_CHECK": mode}
    found = pair.returned(refuse_alone, env=env)

    kind = "ValueError" if mode == "off" else found[0][0]
    assert found == [[kind, True]] * 2
    assert kind in ("ValueError", "MismatchError")


def set_another_mode() -> tuple[str, str]:
    return told(dist.all_reduce, tensor([1.0]))


def test_an_unknown_mode_is_refused(pair: Pool) -> None:
    env = {"RANKTABLE_DIST_CHECK": "sometimes"}
    found = pair.returned(set_another_mode, env=env, is_last=True)

    kind, said = found[0]
    assert kind == "ValueError"
    assert "'sometimes', not one of off, first and always" in said


def go_different_ways() -> object:
    """Do something else from call sites that all ranks have seen."""
    data = torch.ones(1 << 16)

    def reduce() -> None:
        dist.all_reduce(data)

    def gather() -> None:
        dist.all_gather(data)

    def broadcast() -> None:
        dist.broadcast(data)

    for each in (reduce, gather, broadcast, reduce):
        each()
    begin = time.monotonic()
    found = told(gather if dist.get_rank() else reduce)
    if not found[0]:
        time.sleep(SOON_S)  # so that the others are not told by its end
    return [found, time.monotonic() - begin]


@pytest.mark.parametrize("ranks", ["gloo-2", "gloo-3"], indirect=True)
def test_ranks_that_differ_later_get_an_error_while_they_wait(ranks: Pool) -> None:
    found = ranks.returned(go_different_ways, is_last=True)

    for (kind, said), time_s in found:
        assert kind == "MismatchError"
        assert "rank 0 " in said
        assert "all_gather" in said
        assert time_s < SOON_S


def stay_away() -> object:
    begin = time.monotonic()
    if dist.get_rank() == dist.get_world_size() - 1:
        return None
    return [told(dist.barrier, timeout_s=1.5), time.monotonic() - begin]


def test_rank_that_does_not_reach_a_barrier_is_named(ranks: Pool) -> None:
    found = ranks.returned(stay_away, is_last=True)

    last = ranks.world_size - 1
    assert found.pop() is None
    for (kind, said), time_s in found:
        assert kind == "DistError"
        assert said.startswith(f"rank {last} did not reach collective ")
        assert said.endswith("within 1.5 s; the others call barrier")
        assert time_s < SOON_S


def come_late() -> object:
    if dist.get_rank() == 0:
        time.sleep(2)
    found = told(dist.barrier, timeout_s=1)
    dist.barrier(timeout_s=20)
    return found


def test_late_rank_gets_the_same_error(pair: Pool) -> None:
    first, second = pair.returned(come_late)

    assert first == second
    assert first[0] == "DistError"
    assert first[1].startswith("rank 0 did not reach ")


def miss_a_collective() -> object:
    group = dist.new_group(range(dist.get_world_size()), timeout_s=2)
    if dist.get_rank() == 1:
        return None
    return told(dist.all_reduce, tensor([1.0]), group=group)


@pytest.mark.parametrize("mode", ["first", "always"])
def test_rank_that_does_not_reach_a_collective_is_named(trio: Pool, mode: str) -> None:
    env = {"RANKTABLE_DIST_CHECK": mode}
    missing = "rank 1 did not reach collective 1"
    others = "the others call all_reduce of shape (1,) float32 (sum)"
    first, nothing, second = trio.returned(miss_a_collective, env=env)

    assert nothing is None
    assert first == second
    assert first == (
        "DistError",
        f"{missing} of the group of ranks 0-2 within 2 s; {others}",
    )


def take_turns() -> object:
    """Send from a call of its own, as scripts do: places are new at other times."""
    found = []
    for src in range(dist.get_world_size()):
        begin = time.monotonic()
        if dist.get_rank() == src:
            data = tensor([float(src)])
            dist.broadcast(data, src)
        else:
            data = tensor([-1.0])
            dist.broadcast(data, src)
        found.append([data.item(), time.monotonic() - begin < SOON_S])
    return found


@pytest.mark.parametrize("mode", ["off", "first", "always"])
def test_ranks_may_call_from_different_places(ranks: Pool, mode: str) -> None:
    found = ranks.returned(take_turns, env={"RANKTABLE_DIST_CHECK": mode})

    expected = [[float(src), True] for src in range(ranks.world_size)]
    assert found == [expected] * ranks.world_size


def alternate() -> object:
    """Call from a place that all have seen on one rank, on others from a new one."""
    found = []
    for turn in range(4):
        data = tensor([1.0])
        begin = time.monotonic()
        if turn < 2 or dist.get_rank() == 0:
            dist.all_reduce(data)
        else:
            dist.all_reduce(data)
        found.append([data.item(), time.monotonic() - begin < SOON_S])
    return found


@pytest.mark.parametrize("mode", ["off", "first", "always"])
def test_ranks_may_differ_in_source_locations_only(ranks: Pool, mode: str) -> None:
    found = ranks.returned(alternate, env={"RANKTABLE_DIST_CHECK": mode})

    expected = [[float(ranks.world_size), True]] * 4
    assert found == [expected] * ranks.world_size
