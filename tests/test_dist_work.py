"""Work that several threads wait for, or nobody."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import torch

from ranktable import dist
from tests.rank_worker import tensor, told

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


def drop_transfers() -> object:
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    for _ in range(20):
        dist.shift(tensor([1.0]), async_op=True)
    arrived = tensor([0.0])
    dist.isend(tensor([2.0 + rank]), other)
    dist.irecv(arrived, other)
    dist.barrier()
    return float(dist.shift(tensor([5.0 + rank])))


def test_transfers_that_nobody_waits_for_end_all_the_same(pair: Pool) -> None:
    assert pair.returned(drop_transfers) == [6.0, 5.0]


def reduce_what_was_saved() -> tuple[str, str]:
    leaf = torch.ones(3, requires_grad=True)
    saved = leaf.exp()
    dist.all_reduce(saved)
    return told(saved.sum().backward)


def reduce_an_input() -> tuple[str, str]:
    weight = torch.ones(3, requires_grad=True)
    data = torch.ones(3)  # needs no gradient, but that of the weight needs it
    result = (data * weight).sum()
    dist.all_reduce(data)
    return told(result.backward)


@pytest.mark.parametrize("reduce", [reduce_what_was_saved, reduce_an_input])
def test_a_backward_does_not_use_what_was_reduced_since(
    gloo: Pool, reduce: Callable[[], tuple[str, str]]
) -> None:
    for kind, message in gloo.returned(reduce):
        assert kind == "RuntimeError"
        assert "modified by an inplace operation" in message
