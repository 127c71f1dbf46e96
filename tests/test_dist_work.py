"""Work that several threads wait for, or that is dropped."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ranktable import dist
from ranktable.dist.collective_plan import make_plan
from ranktable.dist.steps import _native
from ranktable.dist.tensors import DTYPES
from ranktable.dist.wire import REDUCTIONS
from ranktable.runtime.backends.backend import TABLES, backend_named
from tests.rank_worker import tensor, told
from tests.ranks import run_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ranks import Pool

pytestmark = pytest.mark.torch


def wait_in_threads() -> object:
    sys.setswitchinterval(1e-6)
    found = set()
    for _ in range(20):
        work = dist.all_reduce(tensor([1.0] * 1000), "mean", async_op=True)
        with ThreadPoolExecutor(4) as threads:
            heard = threads.map(lambda each: float(each.wait()[0]), [work] * 4)
        found.add(tuple(heard))
    sys.setswitchinterval(0.005)
    return found


def test_threads_that_wait_for_the_same_get_the_same(pair: Pool) -> None:
    assert pair.returned(wait_in_threads) == [{(1.0,) * 4}] * 2


def every_kind(*, is_gapped: bool, async_op: bool) -> list[Any]:
    """Return work, or results, of collectives that torch may take as they are."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def made(*values: float) -> Any:
        data = tensor([[each, -1.0] for each in values])[:, 0]
        return data if is_gapped else data.contiguous()

    summed, mean, sent = made(1.0 + rank), made(1.0 + rank), made(5.0 + rank)
    rows = made(*(10.0 * rank + each for each in range(size)))
    given: dict[str, Any] = {"async_op": async_op}
    return [
        dist.all_reduce(summed, **given) or summed,
        dist.all_reduce(mean, "mean", **given) or mean,
        dist.broadcast(sent, 1, **given) or sent,
        dist.all_gather(made(7.0 + rank), even=True, **given),
        dist.all_to_all(rows, even=True, **given),
        dist.reduce_scatter(rows, **given),
        dist.reduce_scatter(rows, "mean", **given),
    ]


def numbers(result: Any) -> Any:
    if type(result) is list:
        return [each.tolist() for each in result]
    return result.tolist()


def do_every_kind(check: str) -> tuple[list[object], ...]:
    """Return what every kind gives in every way.

    Where the ranks compare, some of them go another way than the others.
    """
    os.environ["RANKTABLE_DIST_CHECK"] = check
    is_gapped = check == "always" and dist.get_rank() == 0
    waited = every_kind(is_gapped=is_gapped, async_op=False)
    for work in every_kind(is_gapped=is_gapped, async_op=True):
        work.wait()  # what is new the ranks compare first
    works = every_kind(is_gapped=is_gapped, async_op=True)
    for work in works:
        while not work.is_completed():
            time.sleep(0.001)
    later = [work.wait() for work in works]
    return [numbers(each) for each in waited], [numbers(each) for each in later]


@pytest.mark.parametrize("check", ["first", "always", "off"])
def test_what_torch_does_alone_is_what_others_get(pair: Pool, check: str) -> None:
    for rank, (waited, later) in enumerate(pair.returned(do_every_kind, check)):
        assert waited == later
        assert waited == [
            [3.0],
            [1.5],
            [6.0],
            [[7.0], [8.0]],
            [0.0 + rank, 10.0 + rank],
            [10.0 + 2 * rank],
            [5.0 + rank],
        ]


@pytest.mark.parametrize("table", TABLES)
def test_direct_calls_are_those_that_the_plan_leaves_unchanged(table: str) -> None:
    is_exact = backend_named(table).serves_cpu
    for dtype, reduction in product(DTYPES, REDUCTIONS):
        for operation in ("all_reduce", "reduce_scatter"):
            try:
                name = str(dtype).removeprefix("torch.")
                plan = make_plan(table, operation, name, reduction, is_exact=is_exact)
            except (ValueError, RuntimeError):
                goes = False
            else:
                assert plan.wire is not None
                is_itself = plan.wire.encoding == "itself"
                goes = is_itself and plan.recipe == "native" and not dtype.is_complex
            found = _native(table, operation, dtype, reduction, (1,), None)

            assert (found is not None) == goes, (dtype, reduction)


def drop_collectives() -> object:
    for _ in range(20):
        dist.all_reduce(tensor([1.0] * 1000), "mean", async_op=True)
        dist.all_gather(tensor([1.0] * 1000), even=True, async_op=True)
    dist.barrier()
    data = tensor([2.0])
    dist.all_reduce(data)
    return float(data)


def test_collectives_that_nobody_waits_for_end_all_the_same(pair: Pool) -> None:
    assert pair.returned(drop_collectives) == [4.0] * 2


def drop_transfers() -> object:
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    for _ in range(20):
        dist.shift(tensor([1.0]), async_op=True)
    sent, arrived = tensor([2.0 + rank]), tensor([0.0])
    if dist.get_backend() == "nccl" and rank == 1:
        # NCCL connects a pair by the first transfer, which has two sides.
        dist.irecv(arrived, other)
        dist.isend(sent, other)
    else:
        dist.isend(sent, other)
        dist.irecv(arrived, other)
    dist.barrier()
    return float(dist.shift(tensor([5.0 + rank])))


def test_transfers_that_nobody_waits_for_end_all_the_same(pair: Pool) -> None:
    assert pair.returned(drop_transfers) == [6.0, 5.0]


WAIT_AFTER_THE_END = """
from ranktable import dist
dist.init_dist(backend="gloo")
work = dist.all_reduce(torch.ones(3), async_op=True)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
say(work.is_completed(), work.wait().tolist())
"""


def test_work_has_its_result_after_its_group_was_destroyed() -> None:
    for done in run_code(WAIT_AFTER_THE_END, 2):
        assert done.status == 0, done.err
        assert done.out == "[true, [2.0, 2.0, 2.0]]\n"


def drop_what_the_other_reads_later() -> list[float]:
    if dist.get_rank() == 0:
        for value in range(100):
            dist.isend(tensor([float(value)]), 1)
        dist.barrier()
        return []
    parts = [tensor([-1.0]) for _ in range(100)]
    works = [dist.irecv(part, 0) for part in parts]
    dist.barrier()
    return [float(work.wait()) for work in works]


def test_dropped_sends_do_not_wait_for_a_rank_that_reads_later(pair: Pool) -> None:
    values = [float(value) for value in range(100)]
    assert pair.returned(drop_what_the_other_reads_later) == [[], values]


def reduce_what_was_saved() -> tuple[str, str]:
    leaf = torch.ones(3, requires_grad=True)
    saved = leaf.exp()
    dist.all_reduce(saved)
    return told(saved.sum().backward)


def reduce_later_what_was_saved() -> tuple[str, str]:
    for _ in range(2):  # what is known torch does alone
        leaf = torch.ones(3, requires_grad=True)
        saved = leaf.exp()
        dist.all_reduce(saved.detach(), async_op=True).wait()
    return told(saved.sum().backward)


def reduce_an_input() -> tuple[str, str]:
    weight = torch.ones(3, requires_grad=True)
    data = torch.ones(3)  # needs no gradient, but that of the weight needs it
    result = (data * weight).sum()
    dist.all_reduce(data)
    return told(result.backward)


def reduce_what_is_saved_meanwhile() -> tuple[str, str]:
    for _ in range(2):  # what is known torch does alone
        weight = torch.ones(3, requires_grad=True)
        data = torch.ones(3)
        work = dist.all_reduce(data, async_op=True)
        result = (data * weight).sum()
        work.wait()
    return told(result.backward)


def go_back_before_the_end(how: str) -> tuple[str, str]:
    """Go back while a tensor that the forward has saved is being written to."""
    for _ in range(2):  # what is known begins at once
        weight = torch.ones(3, requires_grad=True)
        data = torch.ones(3)
        result = (data * weight).sum()
        if how == "reduced":
            work = dist.all_reduce(data, async_op=True)
        elif how == "reduced in steps":
            work = dist.all_reduce(data, exact=True, async_op=True)
        else:
            peer = 1 - dist.get_rank()
            sent = dist.isend(torch.ones(3), peer)
            work = dist.irecv(data, peer)
            sent.wait()
        found = told(result.backward)
        work.wait()
    return found


@pytest.mark.parametrize("how", ["reduced", "reduced in steps", "received"])
def test_a_backward_does_not_use_what_is_being_written(pair: Pool, how: str) -> None:
    for kind, message in pair.returned(go_back_before_the_end, how):
        assert kind == "RuntimeError"
        assert "modified by an inplace operation" in message


@pytest.mark.parametrize(
    "reduce",
    [
        reduce_what_was_saved,
        reduce_later_what_was_saved,
        reduce_an_input,
        reduce_what_is_saved_meanwhile,
    ],
)
def test_a_backward_does_not_use_what_was_reduced_since(
    gloo: Pool, reduce: Callable[[], tuple[str, str]]
) -> None:
    for kind, message in gloo.returned(reduce):
        assert kind == "RuntimeError"
        assert "modified by an inplace operation" in message


def write_a_part(how: str) -> list[list[float]]:
    """Write to one part of a buffer whose other part a forward has saved."""
    gradients = []
    for is_late in (False, True):
        weight = torch.ones(3, requires_grad=True)
        buffer = torch.ones(3, 2) if how == "strided" else torch.ones(2, 3)
        saved, part = buffer.unbind(1 if how == "strided" else 0)
        result = (saved * weight).sum()
        if how == "received":
            peer = 1 - dist.get_rank()
            sent = dist.isend(torch.ones(3), peer)
            work = dist.irecv(part, peer)
            sent.wait()
        else:
            exact = True if how == "in steps" else None
            op = "mean" if how == "averaged" else "sum"
            work = dist.all_reduce(part, op, exact=exact, async_op=True)
        if is_late:
            work.wait()
        result.backward()  # type: ignore[no-untyped-call]
        work.wait()
        dist.broadcast(part, 0)
        assert weight.grad is not None
        gradients.append(weight.grad.tolist())
    return gradients


@pytest.mark.parametrize(
    "how", ["reduced", "averaged", "in steps", "strided", "received"]
)
def test_a_backward_may_use_another_part_of_a_buffer(pair: Pool, how: str) -> None:
    assert pair.returned(write_a_part, how) == [[[1.0] * 3] * 2] * 2


def wait_twice() -> list[float]:
    for _ in range(2):  # what is known torch does alone
        weight = torch.ones(3, requires_grad=True)
        data = torch.ones(3)
        work = dist.all_reduce(data, async_op=True)
        work.wait()
        result = (data * weight).sum()
        work.wait()
        told(result.backward)
    assert weight.grad is not None
    return weight.grad.tolist()


def test_a_second_wait_writes_nothing(pair: Pool) -> None:
    assert pair.returned(wait_twice) == [[2.0] * 3] * 2


GATHERS_IN_INFERENCE_MODE = (2, 8)
"""From here on gloo's threads may write to what was made in inference mode.

2.1 and 2.4 refuse it; what is between these and 2.8 was not run.
"""


def is_gather_refused(pool: Pool) -> bool:
    release = tuple(map(int, torch.__version__.split(".")[:2]))
    return pool.backend == "gloo" and release < GATHERS_IN_INFERENCE_MODE


def wait_outside_of_inference_mode(is_gathered: bool) -> list[Any]:
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(2):  # what is known torch does alone
        with torch.inference_mode():
            column = tensor([[1.0 + rank, 9.0]])[:, 0]
            works: list[Any] = [
                dist.all_reduce(tensor([1.0 + rank]), "mean", async_op=True),
                dist.all_reduce(column, "mean", async_op=True),
                dist.reduce_scatter(tensor([1.0 + rank] * size), "mean", async_op=True),
            ]
            if is_gathered:
                works.append(dist.all_gather(tensor([1.0 + rank]), async_op=True))
        found = [numbers(work.wait()) for work in works]
    return found


def test_work_of_inference_mode_can_be_waited_for_outside(pair: Pool) -> None:
    is_gathered = not is_gather_refused(pair)
    expected: list[Any] = [[1.5]] * 3

    if is_gathered:
        expected.append([[1.0], [2.0]])
    assert pair.returned(wait_outside_of_inference_mode, is_gathered) == [expected] * 2


def gather_in_inference_mode() -> list[Any]:
    """Return what all_gather of torch gives, or its refusal; the same of ours."""
    with torch.inference_mode():
        own, given = [tensor([0.0]) for _ in range(2)], tensor([1.0 + dist.get_rank()])
        refusal = told(torch.distributed.all_gather, own, given)[1]
        ours = told(dist.all_gather, given)[1] or numbers(dist.all_gather(given))
    return [refusal or numbers(own), ours]


def test_a_gather_in_inference_mode_gives_what_torchs_own_gives(pair: Pool) -> None:
    is_refused = is_gather_refused(pair)

    for found in pair.returned(gather_in_inference_mode, is_last=is_refused):
        if is_refused:
            sentence = "Inplace update to inference tensor"
            assert [sentence in str(each) for each in found] == [True, True], found
        else:
            assert found == [[[1.0], [2.0]]] * 2
