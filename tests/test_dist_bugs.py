"""What other libraries of this kind get wrong, each as it was measured with gloo."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ranktable import dist
from tests.rank_worker import device, group_of, tensor, told

if TYPE_CHECKING:
    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def column(*values: float) -> torch.Tensor:
    """Return a column of a matrix, which has gaps, with these values."""
    matrix = torch.full((len(values), 2), -1.0)
    matrix[:, 0] = torch.tensor(values)
    return matrix.to(device())[:, 0]


def neighbours(data: torch.Tensor) -> list[float]:
    """Return what lies between the values of a column."""
    found: list[float] = data.as_strided((len(data),), (2,), 1).tolist()
    return found


def use_columns() -> object:
    rank = dist.get_rank()
    values = [[1.0, 10.0], [2.0, 20.0]][rank]
    reduced, to_one, sent, params = (column(*values) for _ in range(4))
    dist.all_reduce(reduced)
    dist.reduce(to_one, dst=0)
    dist.broadcast(sent, src=1)
    dist.all_reduce_params([params], coalesce=False)
    parts = [column(5.0, 6.0), column(90.0, 91.0)] if rank == 0 else None
    scattered = dist.scatter(parts, src=0)
    summed = dist.reduce_scatter([column(*values), column(*values)])
    in_place = [reduced, to_one, sent, params]
    kept = {tuple(neighbours(each)) for each in in_place}
    strides = {each.stride() for each in in_place}
    return [
        [each.tolist() for each in (*in_place, scattered, summed)],
        kept == {(-1.0, -1.0)},
        strides == {(2,)},
    ]


def test_b1_columns_of_a_matrix_are_reduced_and_sent_as_they_are(pair: Pool) -> None:
    total, second = [3, 30], [2, 20]
    assert pair.returned(use_columns) == [
        [[total, total, second, total, [5, 6], total], True, True],
        [[total, second, second, total, [90, 91], total], True, True],
    ]


def reduce_matrices_of_two_orders() -> object:
    data = torch.arange(6.0).view(2, 3)
    data = data.to(device()) if dist.get_rank() == 0 else data.t().contiguous().t()
    data = data.to(device())
    dist.all_reduce(data)
    return [data.tolist(), data.stride()]


def test_b1_ranks_may_have_different_strides(pair: Pool) -> None:
    first, second = pair.returned(reduce_matrices_of_two_orders)

    total = [[0, 2, 4], [6, 8, 10]]
    assert first == [total, (3, 1)]
    assert second == [total, (1, 2)]


def reduce_an_expanded_view() -> object:
    data = tensor([1.0, 2.0, 3.0, 4.0])
    found = told(dist.all_reduce, data[:1].expand(3))
    return [data.tolist(), found]


def test_b1_an_expanded_destination_is_refused(pair: Pool) -> None:
    found = pair.returned(reduce_an_expanded_view)

    assert [data for data, _ in found] == [[1, 2, 3, 4]] * 2
    assert all("pass data.clone()" in said for _, (_, said) in found)


def use_a_group_of_the_last_two() -> object:
    size, rank = dist.get_world_size(), dist.get_rank()
    ranks = (size - 2, size - 1)
    group = group_of(*ranks)
    if rank not in ranks:
        return None
    found: list[object] = []
    for root in ranks:
        data = tensor([rank])
        parts = [tensor([100 + each]) for each in ranks] if rank == root else None
        found += [
            [each.item() for each in dist.gather(data, root, group)],
            dist.gather_object(rank, root, group),
            dist.scatter(parts, root, group).item(),
        ]
    found.append(told(dist.gather, tensor([rank]), 0, group)[0])
    return [found, dist.sync_random_seed(group)]


def test_b2_roots_are_global_ranks_in_any_group(trio: Pool) -> None:
    outsider, first, second = trio.returned(use_a_group_of_the_last_two)

    assert outsider is None
    refused = "NotMemberError"
    assert first[0] == [[1, 2], [1, 2], 101, [], None, 101, refused]
    assert second[0] == [[], None, 102, [1, 2], [1, 2], 102, refused]
    assert first[1] == second[1]


def make_a_group_in_reverse() -> object:
    group = group_of(1, 0)
    return [
        dist.get_rank(group),
        [each.item() for each in dist.all_gather(tensor(dist.get_rank()), group)],
    ]


def test_b2_a_group_is_in_the_order_of_its_ranks(pair: Pool) -> None:
    assert pair.returned(make_a_group_in_reverse) == [[0, [0, 1]], [1, [0, 1]]]


def reduce_to_the_first() -> object:
    rank = dist.get_rank()
    data = tensor([[1.0, 0.0], [2.0, 10.0], [3.0, 20.0], [4.0, 30.0]][rank])
    dist.reduce(data, dst=0)
    return data.tolist()


def test_b3_reduce_leaves_other_ranks_alone(quartet: Pool) -> None:
    found = quartet.returned(reduce_to_the_first)

    assert found == [[10, 60], [2, 10], [3, 20], [4, 30]]


def average_in_a_group() -> object:
    rank, group = dist.get_rank(), group_of(1, 2)
    if rank == 0:
        return None
    data, kept = tensor([3.0, 4.0][rank - 1]), tensor([2.0, 3.0][rank - 1])
    dist.reduce(data, 1, "mean", group)
    work = dist.all_reduce(kept, "mean", group, async_op=True)
    return [data.item(), work.wait().item()]


def test_b4_the_mean_of_a_group_is_that_of_its_ranks(trio: Pool) -> None:
    assert trio.returned(average_in_a_group) == [None, [3.5, 2.5], [4, 2.5]]


def reduce_dictionaries_of_many_types() -> object:
    data = {
        "n": tensor(2**24 + 1),
        "loss": tensor(0.5),
        "half": tensor([70000.0, 1.0]),
        "brain": tensor(257.0).to(torch.bfloat16),
        "flag": tensor([True, False]),
        "count": tensor(70000, torch.int32),
        "f16": tensor([1.0, 2.0], torch.float16),
    }
    aliases = dict(data)
    dist.all_reduce_dict(data)
    return [
        {name: [str(each.dtype), each.tolist()] for name, each in data.items()},
        all(data[name] is aliases[name] for name in data),
        told(dist.all_reduce_dict, {}),
    ]


def test_b5_a_dictionary_keeps_types_and_tensors(pair: Pool) -> None:
    found = pair.returned(reduce_dictionaries_of_many_types)

    types = {
        "n": ["torch.int64", 33554434],
        "loss": ["torch.float32", 1],
        "half": ["torch.float32", [140000, 2]],
        "brain": ["torch.bfloat16", 512.0],
        "flag": ["torch.bool", [True, False]],
        "count": ["torch.int32", 140000],
        "f16": ["torch.float16", [2, 4]],
    }
    assert found == [[types, True, ("", "")]] * 2


def reduce_parameters_of_two_types() -> object:
    floats, integers = tensor([0.5]), tensor([2**24 + 1])
    tied = nn.Parameter(tensor([1.0, 2.0]))
    dist.all_reduce_params([floats, integers, tied, tied], bucket_size_mb=1)
    norm = nn.BatchNorm1d(2).to(device())
    refused = told(dist.all_reduce_params, norm.buffers(), op="mean")
    unchanged = [each.tolist() for each in norm.buffers()]
    floating = [each for each in norm.buffers() if each.is_floating_point()]
    dist.all_reduce_params(floating, op="mean")
    dist.all_reduce_params(norm.buffers())
    return [
        floats.item(),
        integers.item(),
        tied.tolist(),
        refused,
        unchanged,
        [each.tolist() for each in norm.buffers()],
    ]


def test_b6_parameters_keep_their_types_and_tied_ones_count_once(pair: Pool) -> None:
    for found in pair.returned(reduce_parameters_of_two_types):
        floats, integers, tied, (kind, said), unchanged, reduced = found

        assert [floats, integers, tied] == [1, 33554434, [2, 4]]
        assert kind == "UnsupportedError"
        assert said.startswith("parameter 2: the mean of int64")
        assert unchanged == [[0, 0], [1, 1], 0]
        assert reduced == [[0, 0], [2, 2], 0]


def collect_what_is_none() -> object:
    results = [[0, None], [None, 3]][dist.get_rank()]
    return [dist.collect_results(results, 4), dist.collect_results(results, 3)]


def test_b7_none_is_a_result(pair: Pool) -> None:
    first, second = pair.returned(collect_what_is_none)

    assert first == [[0, None, None, 3], [0, None, None]]
    assert second == [None, None]


def collect_too_few() -> object:
    return told(dist.collect_results, [1], 3)


def collect_what_cannot_be_pickled() -> object:
    results = [1] if dist.get_rank() == 0 else [lambda: 1]
    return [told(dist.collect_results, results, 2), dist.all_gather_object(None)]


def test_b7_results_that_cannot_be_collected_are_refused_alike(pair: Pool) -> None:
    first, second = pair.returned(collect_too_few)
    assert first == second
    assert first == (
        "DistError",
        "size is 3, but there are 2 results: 1, 1 on the ranks",
    )
    first, second = pair.returned(collect_what_cannot_be_pickled)
    assert first == second
    assert first[0][0] == "DistError"
    assert "rank 1 cannot be pickled" in first[0][1]


def collect_by_files(folder: str) -> object:
    os.chdir(Path(folder) / str(dist.get_rank()))
    try:
        found = dist.collect_results([dist.get_rank()], 2, tmpdir=f"{folder}/shared")
        return [found, dist.collect_results([dist.get_rank()], 2)]
    finally:
        os.chdir("/")


def test_b7_only_own_files_are_removed(pair: Pool, tmp_path: Path) -> None:
    for name in ("0", "1", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "shared" / "of_the_user").write_text("kept")

    found = pair.returned(collect_by_files, str(tmp_path))

    assert found == [[[0, 1], [0, 1]], [None, None]]
    assert sorted(each.name for each in tmp_path.rglob("*")) == [
        "0",
        "1",
        "of_the_user",
        "shared",
    ]


def gather_two_shapes() -> object:
    shape = (3, 2) if dist.get_rank() == 0 else (2, 3)
    return [
        list(each.shape)
        for each in dist.all_gather(torch.ones(shape).to(device()), uneven=True)
    ]


def test_b8_gathered_tensors_have_their_own_shapes(pair: Pool) -> None:
    assert pair.returned(gather_two_shapes) == [[[3, 2], [2, 3]]] * 2


def average_integers() -> object:
    rank = dist.get_rank()
    integers, flags = tensor([-3, -4][rank]), tensor([True, rank == 0])
    return [
        told(dist.all_reduce, integers, "mean")[0],
        told(dist.all_reduce, flags, "mean")[0],
        integers.item() == [-3, -4][rank],
    ]


def test_b9_a_mean_of_integers_is_refused(pair: Pool) -> None:
    refused = "UnsupportedError"
    assert pair.returned(average_integers) == [[refused, refused, True]] * 2


def ask_for_the_backend() -> object:
    return dist.get_backend()


def test_b10_a_job_has_the_backend_that_was_asked_for(ranks: Pool) -> None:
    assert ranks.returned(ask_for_the_backend) == [ranks.backend] * ranks.world_size


def broadcast_to_a_column_in_a_group() -> object:
    rank, group = dist.get_rank(), group_of(1, 2)
    if rank == 0:
        return None
    data = column(10.0, 11.0) if rank == 1 else column(20.0, 21.0)
    dist.broadcast(data, src=1, group=group)
    return data.tolist()


def test_b14_a_group_broadcasts_to_a_column(trio: Pool) -> None:
    assert trio.returned(broadcast_to_a_column_in_a_group) == [None, [10, 11], [10, 11]]


def draw_seeds_beside_the_own() -> object:
    random.seed(1)
    torch.manual_seed(1)
    before = random.getstate(), torch.get_rng_state().tolist()
    dist.sync_random_seed()
    return before == (random.getstate(), torch.get_rng_state().tolist())


def test_a_seed_leaves_the_generators_of_the_script_alone(pair: Pool) -> None:
    assert pair.returned(draw_seeds_beside_the_own) == [True, True]


def write_where_elements_share_memory() -> object:
    base = torch.arange(8.0).to(device())
    apart = base.as_strided((2, 2), (2, 3))
    dist.all_reduce(apart)
    overlapping = base.as_strided((3, 2), (1, 1))
    return apart.tolist(), told(dist.all_reduce, overlapping)[0]


def test_elements_that_share_memory_are_refused_and_others_are_not(pair: Pool) -> None:
    expected = ([[0.0, 6.0], [4.0, 10.0]], "UnsupportedError")
    assert pair.returned(write_where_elements_share_memory) == [expected] * 2


def reduce_by_torchs_object() -> object:
    data = tensor([1.0, 2.0])
    op: Any = torch.distributed.ReduceOp(torch.distributed.ReduceOp.MAX)
    dist.all_reduce(data, op)
    return data.tolist()


def test_a_reduction_may_be_an_object_of_torch(pair: Pool) -> None:
    assert pair.returned(reduce_by_torchs_object) == [[1.0, 2.0]] * 2


def take_the_mean_of_large_halves() -> object:
    data = tensor([40000.0, -1.0], torch.float16)
    dist.all_reduce(data, "mean")
    parts = dist.reduce_scatter(tensor([60000.0, 60000.0], torch.float16), "mean")
    return data.tolist(), parts.tolist()


def test_the_mean_of_large_halves_does_not_overflow(pair: Pool) -> None:
    rounded = torch.tensor(60000.0, dtype=torch.float16).item()
    expected = ([40000.0, -1.0], [rounded])
    assert pair.returned(take_the_mean_of_large_halves) == [expected] * 2


def run_out_of_memory() -> object:
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    whole = torch.distributed.all_reduce
    torch.distributed.all_reduce = fail
    try:
        return told(dist.all_reduce, tensor([1.0]))
    finally:
        torch.distributed.all_reduce = whole


def test_memory_that_runs_out_is_told_as_torch_tells_it(pair: Pool) -> None:
    expected = ("OutOfMemoryError", "CUDA out of memory")
    assert pair.returned(run_out_of_memory) == [expected] * 2


def send_another_thing_than_an_object() -> object:
    if dist.get_rank() == 1:
        zero = torch.zeros(1, dtype=torch.int64)
        torch.distributed.all_gather([zero.clone(), zero.clone()], zero)
        return ("", "")
    return told(dist.all_gather_object, "x")


def test_a_peer_in_another_call_is_not_said_to_have_a_bad_object(pair: Pool) -> None:
    if pair.backend != "gloo":
        pytest.skip("the other call is one of gloo")
    (kind, text), _ = pair.returned(send_another_thing_than_an_object, is_last=True)

    assert kind == "DistError"
    assert text.startswith("what came from rank 1 is no object")


def come_late_to_a_barrier() -> object:
    first = second = ("", "")
    if dist.get_rank() == 0:
        first = told(dist.barrier, timeout_s=0.5)
        dist.barrier()
    else:
        dist.barrier()
        first = told(dist.barrier, timeout_s=0.5)
    second = told(dist.barrier, timeout_s=20)
    return first[0], second


def test_a_barrier_with_a_time_out_can_be_used_after_one_late_rank(pair: Pool) -> None:
    assert pair.returned(come_late_to_a_barrier) == [("DistError", ("", ""))] * 2


def reduce_often() -> object:
    """Use the same types again and again, among them those that are no plain tensor."""
    found: list[object] = []
    for _ in range(3):
        data = tensor([1.0, 2.0])
        dist.all_reduce(data)
        found.append(data.tolist())
        imaginary = torch.ones(2, dtype=torch.complex64).to(device()).conj().imag
        dist.all_reduce(imaginary)
        param = nn.Parameter(tensor([3.0]))
        dist.all_reduce(param)
        dist.broadcast(param, 1)
        found += [imaginary.tolist(), param.tolist()]
        found.append([each.tolist() for each in dist.all_gather(data)])
        found.append(dist.reduce_scatter(data).tolist())
        found.append(told(dist.reduce_scatter, tensor([1.0, 2.0, 3.0]))[0])
    return found[:6] == found[6:12] == found[12:], found[:6]


def test_the_next_calls_give_what_the_first_one_gives(pair: Pool) -> None:
    for rank, answer in enumerate(pair.returned(reduce_often)):
        assert answer == (
            True,
            [
                [2.0, 4.0],
                [0.0, 0.0],
                [6.0],
                [[2.0, 4.0], [2.0, 4.0]],
                [[4.0], [8.0]][rank],
                "ValueError",
            ],
        )
