"""Tensors of any look: uneven, empty, with gaps, conjugated, with a gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.rank_worker import device, tensor
from tests.rank_worker import fully as dist

if TYPE_CHECKING:
    from tests.ranks import Pool

pytestmark = pytest.mark.torch

SHAPES: dict[str, list[tuple[int, ...]]] = {
    "even": [(2, 3)] * 4,
    "uneven": [(1, 3), (4, 3), (2, 3), (3, 3)],
    "some empty": [(0, 3), (2, 3), (0, 3), (1, 3)],
    "all empty": [(0, 3)] * 4,
    "other dimensions": [(), (2, 2), (5,), (1, 0, 2)],
    "permuted": [(2, 3), (3, 2), (6,), (1, 6)],
}


def numbered(shape: tuple[int, ...], begin: int) -> torch.Tensor:
    """Return consecutive numbers, transposed twice so that there are gaps."""
    count = torch.Size(shape).numel()
    data = torch.arange(begin, begin + count).reshape(shape)
    wide = torch.stack([data, -data], -1).to(device())
    return wide[..., 0]


def value(shape: tuple[int, ...], begin: int) -> object:
    count = torch.Size(shape).numel()
    return torch.arange(begin, begin + count).reshape(shape).tolist()


def move_everything(what: str) -> dict[str, object]:
    shapes, rank, size = SHAPES[what], dist.get_rank(), dist.get_world_size()
    own = numbered(shapes[rank], 100 * rank)
    mine = [numbered(shapes[to], 100 * rank + 10 * to) for to in range(size)]
    from_last = dist.scatter(mine if rank == size - 1 else None, src=size - 1)
    exchanged = dist.all_to_all(
        [
            numbered(shapes[(rank + to) % size], 100 * rank + 10 * to)
            for to in range(size)
        ]
    )
    return {
        "all_gather": [each.tolist() for each in dist.all_gather(own)],
        "gather": [each.tolist() for each in dist.gather(own, dst=size - 1)],
        "scatter": from_last.tolist(),
        "shift": dist.shift(own).tolist(),
        "shift back": dist.shift(own, -2).tolist(),
        "reduce_scatter": dist.reduce_scatter(mine, "max").tolist(),
        "all_to_all": [each.tolist() for each in exchanged],
        "types": {str(each.dtype) for each in exchanged} | {str(from_last.dtype)},
    }


def expected_moves(what: str, rank: int, size: int) -> dict[str, object]:
    shapes = SHAPES[what]
    owns = [value(shapes[each], 100 * each) for each in range(size)]
    last = size - 1
    return {
        "all_gather": owns,
        "gather": owns if rank == last else [],
        "scatter": value(shapes[rank], 100 * last + 10 * rank),
        "shift": owns[(rank - 1) % size],
        "shift back": owns[(rank + 2) % size],
        "reduce_scatter": value(shapes[rank], 100 * last + 10 * rank),
        "all_to_all": [
            value(shapes[(each + rank) % size], 100 * each + 10 * rank)
            for each in range(size)
        ],
        "types": {"torch.int64"},
    }


@pytest.mark.parametrize("what", SHAPES)
def test_tensors_of_any_shapes_move_as_they_are(ranks: Pool, what: str) -> None:
    size = ranks.world_size
    found = ranks.returned(move_everything, what)

    assert found == [expected_moves(what, rank, size) for rank in range(size)]


def exchange_splits() -> list[object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    splits = [(rank + to) % 3 for to in range(size)]
    data = torch.arange(2 * sum(splits)).view(-1, 2).to(device()) + 100 * rank
    found = dist.all_to_all(data, input_splits=splits)
    even = torch.full((size, 2), rank).to(device())
    return [
        found.tolist(),
        dist.all_to_all(even, even=True).tolist(),
        dist.all_to_all(even).tolist(),
    ]


def test_parts_of_any_size_are_exchanged(ranks: Pool) -> None:
    size = ranks.world_size
    found = ranks.returned(exchange_splits)

    for rank, (uneven, *evens) in enumerate(found):
        expected = []
        for source in range(size):
            splits = [(source + to) % 3 for to in range(size)]
            rows = torch.arange(2 * sum(splits)).view(-1, 2) + 100 * source
            expected += torch.split(rows, splits)[rank].tolist()
        assert uneven == expected
        assert evens == [[[source] * 2 for source in range(size)]] * 2


def promise_even() -> list[object]:
    rank = dist.get_rank()
    data = tensor([rank, rank + 1])
    return [
        [each.tolist() for each in dist.all_gather(data, even=True)],
        [each.tolist() for each in dist.gather(data, even=True)],
        dist.shift(data, even=True).tolist(),
    ]


def test_a_promise_of_even_shapes_changes_no_result(ranks: Pool) -> None:
    size = ranks.world_size
    found = ranks.returned(promise_even)

    everything = [[rank, rank + 1] for rank in range(size)]
    assert found == [
        [everything, everything if rank == 0 else [], everything[rank - 1]]
        for rank in range(size)
    ]


def reduce_odd_looks() -> list[object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    scalar = tensor(float(rank + 1))
    empty = torch.empty(0, 3).to(device())
    leaf = tensor([1.0, 2.0]).requires_grad_()
    big = torch.zeros(3, 4, 5).to(device())
    inner = big[::2, 1:3, ::3]
    inner += rank
    for each in (scalar, empty, leaf, inner):
        dist.all_reduce(each)
    dist.reduce(empty)
    dist.broadcast(empty)
    dist.broadcast(leaf, src=size - 1)
    return [
        scalar.item(),
        list(empty.shape),
        [leaf.tolist(), leaf.is_leaf, leaf.requires_grad, leaf.grad_fn is None],
        [inner.unique().tolist(), big.sum().item()],  # type: ignore[no-untyped-call]
        list(dist.reduce_scatter(torch.empty(0, 3).to(device())).shape),
    ]


def test_tensors_of_any_look_are_reduced_in_place(ranks: Pool) -> None:
    size = ranks.world_size
    total = size * (size - 1) // 2
    found = ranks.returned(reduce_odd_looks)

    assert (
        found
        == [
            [
                size * (size + 1) / 2,
                [0, 3],
                [[size, 2 * size], True, True, True],
                [[total], total * 8],
                [0, 3],
            ]
        ]
        * size
    )


def use_conjugates() -> list[object]:
    rank = dist.get_rank()
    base = torch.tensor([1 + 1j, 2 - rank * 1j])
    if device().type != "cpu":
        return []
    summed, sent = base.clone().conj(), base.clone().conj()
    negative = base.clone().conj().imag
    dist.all_reduce(summed)
    dist.broadcast(sent, src=1)
    dist.all_reduce(negative)
    gathered = dist.all_gather(base.conj())
    return [
        summed.tolist(),
        sent.tolist(),
        negative.tolist(),
        [each.tolist() for each in gathered],
        summed.is_conj(),
    ]


@pytest.mark.parametrize("ranks", ["gloo-2"], indirect=True)
def test_conjugated_views_are_what_they_look_like(ranks: Pool) -> None:
    found = ranks.returned(use_conjugates)

    first, second = [1 - 1j, 2 + 0j], [1 - 1j, 2 + 1j]
    assert found == [[[2 - 2j, 4 + 1j], second, [-2, 1], [first, second], True]] * 2


def keep_what_was_given() -> list[bool]:
    """Look whether functions that return tensors leave their arguments alone."""
    rank, size = dist.get_rank(), dist.get_world_size()
    data = torch.arange(2.0 * size).to(device()) + rank
    before = data.clone()
    parts = list(data.chunk(size))
    found = [
        *dist.all_gather(data),
        *dist.gather(data),
        dist.scatter(parts if rank == 0 else None),
        dist.reduce_scatter(parts),
        dist.reduce_scatter(data),
        dist.all_to_all(data),
        *dist.all_to_all(parts),
        dist.shift(data, size),
    ]
    for each in found:
        each.fill_(-1)
    return [torch.equal(data, before)]


def test_results_have_memory_of_their_own(ranks: Pool) -> None:
    assert ranks.returned(keep_what_was_given) == [[True]] * ranks.world_size


def start_everything() -> list[object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    data = torch.arange(float(size)).to(device()) + rank
    wide = torch.zeros(size, 2).to(device())
    wide[:, 0] = data
    reduced, mean, to_one, sent = (wide.clone()[:, 0] for _ in range(4))
    halves = data.half()
    parts = list(data.chunk(size))
    works: list[Any] = [
        dist.all_reduce(reduced, async_op=True),
        dist.all_reduce(mean, "mean", async_op=True),
        dist.all_reduce(halves, "max", async_op=True),
        dist.reduce(to_one, op="product", async_op=True),
        dist.broadcast(sent, src=1, async_op=True),
        dist.all_gather(data, async_op=True),
        dist.gather(data[: rank + 1], async_op=True),
        dist.scatter(parts if rank == 0 else None, async_op=True),
        dist.reduce_scatter(parts, "mean", async_op=True),
        dist.all_to_all(data, async_op=True),
        dist.all_to_all(parts, async_op=True),
        dist.shift(data, async_op=True),
    ]
    found = [work.wait() for work in reversed(works)][::-1]
    again = [work.wait() for work in works]
    is_same = all(one is two for one, two in zip(found, again, strict=True))
    in_place = [found[0] is reduced, found[1] is mean, found[4] is sent]
    plain = [
        each.tolist() if isinstance(each, torch.Tensor) else [x.tolist() for x in each]
        for each in found
        if isinstance(each, (torch.Tensor, list))
    ]
    return [plain, is_same, all(in_place), all(work.is_completed() for work in works)]


def test_work_returns_what_the_call_would(ranks: Pool) -> None:
    size = ranks.world_size
    found = ranks.returned(start_everything)

    datas = [torch.arange(float(size)) + rank for rank in range(size)]
    total = torch.stack(datas).sum(0)
    for rank, (plain, is_same, is_in_place, are_done) in enumerate(found):
        product = torch.stack(datas).prod(0) if rank == 0 else datas[rank]
        gathered = [datas[each][: each + 1].tolist() for each in range(size)]
        column = [data[rank].item() for data in datas]
        assert plain == [
            total.tolist(),
            (total / size).tolist(),
            datas[-1].tolist(),
            product.tolist(),
            datas[1].tolist(),
            [data.tolist() for data in datas],
            gathered if rank == 0 else [],
            [float(rank)],
            [total[rank].item() / size],
            column,
            [[each] for each in column],
            datas[rank - 1].tolist(),
        ]
        assert [is_same, is_in_place, are_done] == [True, True, True]


def move_single_elements() -> list[object]:
    wide = torch.tensor([[1, 2]]).to(device())
    single = wide[:, 1]
    parts = [single] * dist.get_world_size()
    found = [
        *dist.all_gather(single),
        *dist.gather(single),
        *dist.all_to_all(parts),
        dist.scatter(parts),
        dist.shift(single),
        dist.reduce_scatter(parts, "max"),
    ]
    return [single.stride(), {each.stride() for each in found}]


def test_single_elements_arrive_with_plain_strides(ranks: Pool) -> None:
    found = ranks.returned(move_single_elements)

    assert found == [[(2,), {(1,)}]] * ranks.world_size


def send_a_single_element_as_bytes() -> object:
    wide = torch.tensor([[1, 2]], dtype=torch.int16).to(device())
    dist.broadcast(wide[:, 1])
    return [each.tolist() for each in dist.all_gather(wide[:, 1])]


def test_single_elements_with_a_stride_move_as_bytes(ranks: Pool) -> None:
    size = ranks.world_size
    assert ranks.returned(send_a_single_element_as_bytes) == [[[2]] * size] * size


def move_halves_and_complex() -> list[object]:
    size = dist.get_world_size()
    found: list[object] = []
    for dtype in (torch.bfloat16, torch.complex64):
        data = (torch.arange(size) + dist.get_rank()).to(device(), dtype)
        sent = data.clone()
        dist.broadcast(sent, src=1)
        moved = [
            sent,
            *dist.all_gather(data),
            *dist.gather(data, dst=0),
            dist.scatter(list(data.chunk(size))),
            dist.all_to_all(data),
            dist.shift(data),
            dist.all_gather(data, async_op=True).wait()[-1],
        ]
        found.append([each.real.tolist() for each in moved])
    half = torch.full((2,), 1.5, dtype=torch.bfloat16, device=device())
    for exact in (True, False):
        total = half.clone()
        dist.all_reduce(total, exact=exact)
        found.append(total.tolist())
    return found


def test_types_that_old_backends_lack_arrive(ranks: Pool) -> None:
    size = ranks.world_size
    datas = [[float(rank + n) for n in range(size)] for rank in range(size)]

    for rank, (halves, pairs, *sums) in enumerate(
        ranks.returned(move_halves_and_complex)
    ):
        expected = [
            datas[1],
            *datas,
            *(datas if rank == 0 else []),
            datas[0][rank : rank + 1],
            [data[rank] for data in datas],
            datas[rank - 1],
            datas[-1],
        ]
        assert [halves, pairs] == [expected] * 2
        assert sums == [[1.5 * size] * 2] * 2
