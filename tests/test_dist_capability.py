"""The table of gloo, cell by cell, held against gloo itself.

What the table has not may be refused, wrong, or end the process, so of that only what
raises before anything is sent is tried.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as torch_dist

from ranktable import dist
from ranktable.dist.steps import OPS, REDUCE_SCATTER
from ranktable.runtime.backends.backend import COMPLEX, backend_named
from ranktable.runtime.torch_versions import gloo_table
from tests.test_dist_plans import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ranks import Pool

pytestmark = pytest.mark.torch

GLOO = backend_named(gloo_table())
REDUCED = ["all_reduce", "reduce"]
if hasattr(torch_dist, "reduce_scatter_single"):
    REDUCED.append("reduce_scatter")  # older ones are wrong, and no plan has them
MOVING = [
    *("broadcast", "all_gather", "gather", "scatter", "all_to_all", "send", "recv"),
]
FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}


def data_of(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """Return small numbers, exact in every type; as many as there are ranks."""
    numbers = torch.arange(dist.get_world_size()) + 1 + rank
    return (numbers % 2).bool() if dtype is torch.bool else numbers.to(dtype)


def reduce_natively(operation: str, name: str, op: str) -> object:
    """Return whether torch gives what its own arithmetic does, or how it refuses."""
    dtype: torch.dtype = getattr(torch, name)
    rank, size = dist.get_rank(), dist.get_world_size()
    datas = [data_of(each, dtype) for each in range(size)]
    expected = reduce(FOLDS[op], datas)
    mine = datas[rank].clone()
    try:
        if operation == "all_reduce":
            torch_dist.all_reduce(mine, OPS[op])
        elif operation == "reduce":
            torch_dist.reduce(mine, 0, OPS[op])
            expected = expected if rank == 0 else mine
        else:
            output = mine.new_empty(1)
            REDUCE_SCATTER(output, mine, OPS[op])
            mine, expected = output, expected[rank : rank + 1]
    except (RuntimeError, ValueError) as error:
        return type(error).__name__
    return torch.equal(mine, expected)


@pytest.mark.parametrize("op", FOLDS)
@pytest.mark.parametrize("operation", REDUCED)
def test_gloo_reduces_what_its_table_says(gloo: Pool, operation: str, op: str) -> None:
    for dtype in sorted(GLOO.operations[operation].dtypes):
        if op in ("band", "bor", "bxor") and "float" in dtype:
            continue  # no function of ours asks for it
        found = gloo.returned(reduce_natively, operation, dtype, op)

        assert found == [True] * 3, (operation, dtype, op)


@pytest.mark.parametrize("operation", ["all_reduce", "reduce"])
def test_gloo_reduces_no_other_types(gloo: Pool, operation: str) -> None:
    others = sorted(set(DTYPES) - GLOO.operations[operation].dtypes)
    found = {
        dtype: gloo.call(reduce_natively, operation, dtype, "sum")
        for dtype in others
        if not dtype.startswith("complex")  # it adds them up, but knows no product
    }

    wrong = {dtype: each for dtype, each in found.items() if each == [True] * 3}
    assert not wrong


def move_natively(operation: str, name: str) -> object:
    dtype: torch.dtype = getattr(torch, name)
    rank, size = dist.get_rank(), dist.get_world_size()
    datas = [data_of(each, dtype) for each in range(size)]
    mine, found = datas[rank], [torch.zeros(size).to(dtype) for _ in range(size)]
    expected = datas
    try:
        parts = [torch.cat([each] * size).chunk(size) for each in datas]
        if operation == "broadcast":
            found, expected = [mine.clone()], datas[:1]
            torch_dist.broadcast(found[0], 0)
        elif operation == "all_gather":
            torch_dist.all_gather(found, mine)
        elif operation == "gather":
            torch_dist.gather(mine, found if rank == 0 else None, 0)
            expected = datas if rank == 0 else found
        elif operation == "scatter":
            torch_dist.scatter(found[0], datas if rank == 0 else None, 0)
            found, expected = found[:1], datas[rank : rank + 1]
        elif operation == "all_to_all":
            output = torch.empty(size * size).to(dtype)
            torch_dist.all_to_all_single(output, torch.cat(parts[rank]))
            found = list(output.chunk(size))
        elif rank == 0:
            torch_dist.send(mine, 1)
            expected = found
        elif rank == 1:
            torch_dist.recv(found[0], 0)
            found, expected = found[:1], datas[:1]
        else:
            expected = found
    except (RuntimeError, ValueError) as error:
        return type(error).__name__
    return all(
        one.view(torch.uint8).tolist() == two.view(torch.uint8).tolist()
        for one, two in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("operation", MOVING)
def test_gloo_moves_what_its_table_says(gloo: Pool, operation: str) -> None:
    for dtype in sorted(GLOO.operations[operation].dtypes):
        found = gloo.returned(move_natively, operation, dtype)

        assert found == [True] * 3, (operation, dtype)


@pytest.mark.parametrize("operation", ["broadcast", "all_gather", "scatter"])
def test_gloo_moves_no_other_types(gloo: Pool, operation: str) -> None:
    for dtype in sorted(set(DTYPES) - COMPLEX - GLOO.operations[operation].dtypes):
        if not hasattr(torch, dtype):
            continue  # torch 2.1 has no uint16
        found = gloo.returned(move_natively, operation, dtype)

        assert "RuntimeError" in found, (operation, dtype)


def exchange_unevenly() -> object:
    rank, size = dist.get_rank(), dist.get_world_size()
    sent = [rank + to for to in range(size)]
    data = torch.full((sum(sent),), rank)
    output = torch.empty(sum(sent), dtype=torch.int64)
    torch_dist.all_to_all_single(output, data, sent, sent)
    return output.tolist()


def test_gloo_exchanges_parts_of_any_size(gloo: Pool) -> None:
    expected = [
        [source for source in range(3) for _ in range(source + rank)]
        for rank in range(3)
    ]
    assert gloo.returned(exchange_unevenly) == expected
