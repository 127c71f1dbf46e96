"""Collectives and programs beside plain torch: the same values."""

from __future__ import annotations

import time
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as plain
from torch.utils.checkpoint import checkpoint

from ranktable import dist
from ranktable.runtime.backends.backend import backend_named
from ranktable.runtime.torch_versions import reduce_scatter_single
from tests.rank_worker import device, tensor
from tests.ranks import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.ranks import Pool

pytestmark = pytest.mark.torch

WHOSE: dict[str, Any] = {"torch": plain, "ours": dist}
OPS = {
    "sum": plain.ReduceOp.SUM,
    "mean": plain.ReduceOp.AVG,
    "product": plain.ReduceOp.PRODUCT,
    "min": plain.ReduceOp.MIN,
    "max": plain.ReduceOp.MAX,
    "band": plain.ReduceOp.BAND,
    "bor": plain.ReduceOp.BOR,
    "bxor": plain.ReduceOp.BXOR,
}
DTYPES = (
    *("float32", "float16", "bfloat16", "float64", "complex64"),
    *("int8", "uint8", "int16", "int32", "int64", "bool"),
)
Case = tuple[str, "Callable[[], object]", "Callable[[], object]"]


def values(dtype: str, count: int = 4) -> torch.Tensor:
    """Return a tensor of this rank: what is rounded, large and no number."""
    own = torch.arange(count) + 3 * dist.get_rank()
    if dtype.startswith(("float", "bfloat")):
        own = own * 0.7
        own[0] = (1e4, float("nan"))[dist.get_rank() % 2]
    return own.to(getattr(torch, dtype)).to(device())


def in_place(function: Callable[..., Any], data: torch.Tensor, *given: Any) -> Any:
    function(data, *given)
    return data


def reduced(dtype: str, op: str, how: str) -> torch.Tensor:
    data = values(dtype, 8).view(4, 2)
    if how == "torch":
        return in_place(plain.all_reduce, data[:, 1].contiguous(), OPS[op])  # type: ignore[no-any-return]
    if how == "column":
        return in_place(dist.all_reduce, data[:, 1], op).contiguous()  # type: ignore[no-any-return]
    if how == "plain":
        return in_place(dist.all_reduce, data[:, 1].contiguous(), op)  # type: ignore[no-any-return]
    given: dist.Reduction = op  # type: ignore[assignment]
    work = dist.all_reduce(data[:, 1].contiguous(), given, async_op=True)
    return work.wait()  # type: ignore[no-any-return]


def reducing_cases() -> Iterator[Case]:
    for dtype in DTYPES:
        for op in OPS:
            if op == "mean" and ("int" in dtype or dtype == "bool"):
                continue  # refused here; NCCL rounds it
            for how in ("plain", "column", "work"):
                name = f"all_reduce {dtype} {op} {how}"
                theirs = partial(reduced, dtype, op, "torch")
                yield name, partial(reduced, dtype, op, how), theirs


def one_each(data: torch.Tensor) -> list[torch.Tensor]:
    return [(data + i).to(data.dtype) for i in range(dist.get_world_size())]


def moving_cases() -> Iterator[Case]:
    size, rank = dist.get_world_size(), dist.get_rank()
    last = size - 1

    def lists(data: torch.Tensor) -> list[torch.Tensor]:
        return [torch.empty_like(data) for _ in range(size)]

    def all_gather(data: torch.Tensor) -> object:
        found = lists(data)
        plain.all_gather(found, data)
        return found

    def gather(data: torch.Tensor) -> object:
        found = lists(data) if rank == last else None
        plain.gather(data, found, last)
        return found or []

    def scatter(data: torch.Tensor) -> object:
        output = torch.empty_like(data)
        parts = one_each(data) if rank == last else None
        plain.scatter(output, parts, last)
        return output

    def all_to_all(data: torch.Tensor) -> object:
        output = torch.empty_like(data)
        plain.all_to_all_single(output, data)
        return output

    def scattered(data: torch.Tensor) -> object:
        return dist.scatter(one_each(data), last)

    pairs: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
        "all_gather": (dist.all_gather, all_gather),
        "gather": (lambda data: dist.gather(data, last), gather),
        "scatter": (scattered, scatter),
        "all_to_all": (dist.all_to_all, all_to_all),
        "broadcast": (
            lambda data: in_place(dist.broadcast, data, last),
            lambda data: in_place(plain.broadcast, data, last),
        ),
        "reduce": (
            lambda data: (
                in_place(dist.reduce, data, last)
                if rank == last
                else dist.reduce(data, last)
            ),
            lambda data: (
                in_place(plain.reduce, data, last)
                if rank == last
                else plain.reduce(data, last)
            ),
        ),
        "reduce_scatter": (dist.reduce_scatter, reduce_scatter),
    }
    for name, (ours, theirs) in pairs.items():
        for dtype in DTYPES:
            given = partial(values, dtype, 2 * size)
            yield (
                f"{name} {dtype}",
                partial(called, ours, given),
                partial(called, theirs, given),
            )
            if ours in (dist.all_gather, dist.all_to_all, dist.reduce_scatter):
                later = partial(called, ours, given, async_op=True)
                yield f"{name} {dtype} later", later, partial(called, theirs, given)


def called(
    function: Callable[..., object], given: Callable[[], torch.Tensor], **named: object
) -> object:
    found = function(given(), **named)
    return found.wait() if isinstance(found, dist.Work) else found


def reduce_scatter(data: torch.Tensor) -> object:
    output = data.new_empty(len(data) // dist.get_world_size())
    reduce_scatter_single()(output, data)
    return output


def compare() -> tuple[int, list[str]]:
    """Return how many cases torch has, and those in which ours differ.

    A type that NCCL does not have is refused on some ranks only, which leaves torch out
    of step: it is not called with one.
    """
    count, wrong = 0, list[str]()
    table = backend_named(plain.get_backend())
    for name, ours, theirs in (*reducing_cases(), *moving_cases()):
        if table.name == "nccl" and name.split()[1] not in table.moves:
            continue
        try:
            expected = theirs()
        except (RuntimeError, ValueError, TypeError):
            continue  # this backend does not have it
        found = ours()
        count += 1
        if not is_same(found, expected, is_rounded="float16 mean" in name):
            wrong.append(f"{name}: {found} is not {expected}")
    return count, wrong


def is_same(found: object, expected: object, *, is_rounded: bool) -> bool:
    """Whether values are equal; a mean of 16 bits may be rounded in one step."""
    if is_rounded:
        return torch.allclose(found, expected, rtol=1e-2, equal_nan=True)  # type: ignore[arg-type]
    return repr(found) == repr(expected)


CASES = {"gloo": 270, "sccl": 169}
"""How many of the cases torch has."""


def test_every_collective_gives_what_torch_gives(ranks: Pool) -> None:
    for count, wrong in ranks.returned(compare):
        assert wrong == []
        assert count == CASES.get(ranks.backend, count)


def numbers(data: torch.Tensor | None) -> list[float]:
    assert data is not None
    return [float(each) for each in data.detach().cpu()]


def groups(count: int) -> list[Any]:
    return [plain.new_group([0, 1]) for _ in range(count)]


LATE_S = 0.5


def two_threads(whose: str) -> list[float]:
    """Reduce in the world group, and in a group of a thread that saves checkpoints."""
    of = WHOSE[whose]
    [saving] = groups(1)
    first, second = torch.ones(1), torch.ones(2)

    def save() -> None:
        time.sleep(LATE_S if plain.get_rank() == 0 else 0)
        of.all_reduce(second, group=saving)

    thread = Thread(target=save)
    thread.start()
    time.sleep(LATE_S if plain.get_rank() == 1 else 0)
    of.all_reduce(first)
    thread.join()
    return [first.item(), second.sum().item()]


def opposite_orders(whose: str) -> list[float]:
    """Begin in one group without waiting, then call in another; the peer vice versa."""
    of = WHOSE[whose]
    both = groups(2)
    order = both if plain.get_rank() == 0 else both[::-1]
    begun, waited = torch.ones(3), torch.ones(3)
    work = of.all_reduce(begun, group=order[0], async_op=True)
    time.sleep(LATE_S)
    of.all_reduce(waited, group=order[1])
    work.wait()
    return [begun.sum().item(), waited.sum().item()]


def begin_then_send(whose: str) -> list[float]:
    """Begin on one rank and send before waiting; the other waits, then receives."""
    of = WHOSE[whose]
    found = []
    for size in (4, 4, 5):
        reduced, sent = torch.ones(size), torch.ones(1 << 20)
        if plain.get_rank() == 0:
            work = of.all_reduce(reduced, async_op=True)
            of.send(sent, dst=1)
            work.wait()
        else:
            of.all_reduce(reduced)
            of.recv(sent.zero_(), src=0)
        found += [reduced.sum().item(), sent[-1].item()]
    return found


def wait_on_one_rank_only(whose: str) -> list[float]:
    """Begin what is new, and let only one rank wait before the next call of it."""
    of = WHOSE[whose]
    first, second = torch.ones(6), torch.ones(6)
    work = of.all_reduce(first, async_op=True)
    if plain.get_rank() == 0:
        work.wait()
    of.all_reduce(second)
    work.wait()
    return [first.sum().item(), second.sum().item()]


def begin_two_then_send(whose: str) -> list[float]:
    """Begin two new ones and send; the other needs that before it begins."""
    of = WHOSE[whose]
    first, second, sent = torch.ones(7), torch.ones(8), torch.ones(1)
    if plain.get_rank() == 1:
        of.recv(sent.zero_(), src=0)
    works = [of.all_reduce(each, async_op=True) for each in (first, second)]
    if plain.get_rank() == 0:
        of.send(sent, dst=1)
    for work in reversed(works):
        work.wait()
    return [first.sum().item(), second.sum().item(), sent.item()]


def gather_then_send(whose: str) -> list[float]:
    """Begin to gather and send; the other waits for what is gathered, then receives."""
    of = WHOSE[whose]
    own, sent = torch.full((2,), 1.0 + plain.get_rank()), torch.ones(1 << 20)
    parts = [torch.empty(2), torch.empty(2)]
    if whose == "torch":
        work = of.all_gather(parts, own, async_op=True)
    else:
        work = of.all_gather(own, async_op=True)
    if plain.get_rank() == 0:
        of.send(sent, dst=1)
        found = work.wait()
    else:
        found = work.wait()
        of.recv(sent.zero_(), src=0)
    found = parts if whose == "torch" else found
    return [each.sum().item() for each in found] + [sent[-1].item()]


PROGRAMS: dict[Callable[[str], object], object] = {
    two_threads: [[2, 4]] * 2,
    opposite_orders: [[6, 6]] * 2,
    begin_then_send: [[8, 1, 8, 1, 10, 1]] * 2,
    wait_on_one_rank_only: [[12, 12]] * 2,
    begin_two_then_send: [[14, 16, 1]] * 2,
    gather_then_send: [[2, 4, 1]] * 2,
}
"""Programs on CPUs, and what both ranks get."""


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_what_torch_finishes_is_finished(
    fresh: Pool, program: Callable[[str], object], whose: str
) -> None:
    assert fresh.returned(program, whose, timeout_s=60) == PROGRAMS[program]


def reduce_in_hooks(whose: str) -> list[list[float]]:
    """Reduce gradients while the backward pass goes on."""
    of, works = WHOSE[whose], list[Any]()
    weights = [torch.nn.Parameter(tensor([1.0, 2.0])) for _ in range(3)]

    def reduce(weight: torch.Tensor) -> None:
        works.append(of.all_reduce(weight.grad, async_op=True))

    for weight in weights:
        weight.register_post_accumulate_grad_hook(reduce)  # type: ignore[no-untyped-call]
    product = weights[0] * weights[1] * weights[2]
    loss = (product * (1 + plain.get_rank())).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    for work in works:
        work.wait()
    return [numbers(weight.grad) for weight in weights]


def reduce_in_a_layer_that_is_computed_again(whose: str) -> list[float]:
    """Reduce in a forward, in the same forward again, and in its backward."""
    of = WHOSE[whose]

    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(_context: object, data: torch.Tensor) -> torch.Tensor:
            summed = data.clone()
            of.all_reduce(summed)
            return summed

        @staticmethod
        def backward(_context: object, *gradients: torch.Tensor) -> torch.Tensor:
            summed = gradients[0].clone()
            of.all_reduce(summed)
            return summed

    def layer(data: torch.Tensor) -> Any:
        return Summed.apply(data * data) * data  # type: ignore[no-untyped-call]

    data = tensor([1.0 + plain.get_rank()]).requires_grad_()
    checkpoint(layer, data, use_reentrant=False).sum().backward()
    return numbers(data.grad)


def reduce_halves_of_one_tensor(whose: str) -> list[float]:
    """Begin both halves, and change each as soon as it was waited for."""
    of, whole = WHOSE[whose], tensor([1.0, 2.0, 3.0, 4.0])
    first = of.all_reduce(whole[:2], async_op=True)
    second = of.all_reduce(whole[2:], async_op=True)
    second.wait()
    whole[2:] *= 2
    first.wait()
    whole[:2] += 1
    return numbers(whole)


def reduce_a_parameter_itself(whose: str) -> list[float]:
    """Write to a leaf that requires a gradient, and use it in a backward pass."""
    of, weight = WHOSE[whose], torch.nn.Parameter(tensor([1.0]))
    with torch.no_grad():
        of.all_reduce(weight)
        of.broadcast(weight, 1)
        weight.add_(1)
    (weight * weight).sum().backward()  # type: ignore[no-untyped-call]
    return numbers(weight) + numbers(weight.grad)


def mix_with_torch_in_one_group(whose: str) -> list[float]:
    of, several = WHOSE[whose], [tensor([float(each)]) for each in range(1, 4)]
    works = [plain.all_reduce(several[0], async_op=True)]
    works.append(of.all_reduce(several[1], async_op=True))
    plain.all_reduce(several[2])
    for work in reversed(works):
        work.wait()
    return [each.item() for each in several]


TRAINING = (
    reduce_in_hooks,
    reduce_in_a_layer_that_is_computed_again,
    reduce_halves_of_one_tensor,
    reduce_a_parameter_itself,
    mix_with_torch_in_one_group,
)
"""What training scripts do; ``tests/test_dist_training.py`` has whole programs."""


@pytest.mark.parametrize("program", TRAINING, ids=lambda each: each.__name__)
def test_what_training_scripts_do_gives_the_same(
    pair: Pool, program: Callable[[str], object]
) -> None:
    expected = named("gloo-2").returned(program, "torch")

    assert pair.returned(program, "ours") == expected


def ask_whether_it_is_written() -> object:
    """Look at the values as soon as the work says that it is done."""
    found = []
    for op in ("mean", "max"):
        for dtype in (torch.float32, torch.bfloat16):
            data = torch.full((1000,), 1.0 + plain.get_rank(), dtype=dtype)
            work = dist.all_reduce(data, op, async_op=True)
            while not work.is_completed():
                time.sleep(0.001)
            found.append(data[-1].item())
    return found


def test_work_is_completed_once_values_are_written(fresh: Pool) -> None:
    assert fresh.returned(ask_whether_it_is_written) == [[1.5, 1.5, 2.0, 2.0]] * 2


def reduce_complex() -> list[tuple[str, bool]]:
    """Compare with torch, which reduces the parts of complex numbers."""
    size, found = dist.get_world_size(), []
    generator = torch.Generator().manual_seed(dist.get_rank())
    for dtype in (torch.complex64, torch.complex128):
        data = torch.randn(3 * size, dtype=dtype, generator=generator)
        total, own = data.clone(), data.clone()
        plain.all_reduce(total)
        dist.all_reduce(own)
        found.append((f"all_reduce {dtype}", torch.equal(own, total)))
        part = torch.empty(3, dtype=dtype)
        reduce_scatter_single()(part, data)
        found.append((f"part {dtype}", torch.equal(dist.reduce_scatter(data), part)))
        mean = dist.all_reduce(data, "mean", async_op=True).wait()
        divided = torch.view_as_complex(torch.view_as_real(total) / size)
        found.append((f"mean {dtype}", torch.equal(mean, divided)))
        table = torch.randn(2, 3, dtype=dtype, generator=generator).t()
        at_one, sums = table.clone(), table.contiguous()
        plain.all_reduce(sums)
        dist.reduce(at_one, 1)
        expected = sums if dist.get_rank() == 1 else table
        found.append((f"reduce {dtype}", torch.equal(at_one, expected)))
        dist.all_reduce_params([table, own.conj()])
        found.append((f"params {dtype}", torch.allclose(table, sums)))
        empty = torch.empty(3, 0, dtype=dtype)
        dist.all_reduce(empty, "mean")
        mine = dist.reduce_scatter([sums * i for i in range(size)], "mean")
        scaled = sums * dist.get_rank()
        found.append((f"list {dtype}", torch.allclose(mine, scaled)))
    return found


def test_complex_numbers_are_added_as_torch_adds_them(trio: Pool) -> None:
    if trio.backend != "gloo":
        pytest.skip("torch adds no complex numbers there")
    for found in trio.returned(reduce_complex):
        assert [name for name, is_equal in found if not is_equal] == []


def call_in_another_form() -> tuple[list[str], float]:
    """Call as torch is called."""
    data, both = tensor([1.0]), [tensor([1.0])] * 2
    ours: Any = dist
    calls = [
        lambda: ours.all_reduce(tensor=data),
        lambda: ours.all_reduce(data, "avg"),
        lambda: ours.all_gather(both, data),
        lambda: ours.gather(data, both),
        lambda: ours.scatter(data, both),
        lambda: ours.reduce_scatter(data, both),
        lambda: ours.all_to_all(both, both),
        lambda: ours.all_gather_object([None], 1),
        lambda: ours.gather_object(1, [None]),
        lambda: ours.new_group([0, 1], backend="gloo"),
    ]
    found = []
    for call in calls:
        with pytest.raises((TypeError, ValueError)) as raised:
            call()  # type: ignore[no-untyped-call]
        found.append(str(raised.value))
    ours.all_reduce(data, op=plain.ReduceOp.SUM)
    if dist.get_rank() == 0:
        ours.send(tensor=data, dst=1)
    else:
        ours.recv(tensor=data, src=0)
    return found, data.item()


def test_what_torch_takes_is_taken_or_answered_with_the_form_to_write(
    pair: Pool,
) -> None:
    for (keyword, average, *others), total in pair.returned(call_in_another_form):
        assert keyword.endswith(
            "; write all_reduce(data, op='sum', group=None, *, async_op=False)"
        )
        assert '"mean" is torch\'s AVG' in average
        assert all("; write " in each for each in others)
        assert total == 2
