"""Laws of collectives: exact arithmetic, and every bit in its place."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ranktable import dist
from tests import effort
from tests.rank_worker import device, group_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ranks import Pool

pytestmark = pytest.mark.torch

INTEGERS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOATS_8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *FLOATS_8, *COMPLEX]
LAYOUTS = ["plain", "reversed", "stepped", "behind"]
BITWISE = {"band": operator.and_, "bor": operator.or_, "bxor": operator.xor}
FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "mean": operator.add,
    "product": operator.mul,
    "min": min,
    "max": max,
    **BITWISE,
}
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)

law = settings(
    effort.law(50),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def ops_of(dtype: str) -> list[str]:
    """Return the reductions that values of a type have."""
    if dtype in COMPLEX:
        return ["sum", "mean", "product"]
    if dtype.startswith(("float", "bfloat")):
        return ["sum", "mean", "product", "min", "max"]
    ordered = [] if dtype == "uint64" else ["min", "max"]  # torch does not order these
    return ["sum", "product", *ordered, *BITWISE]


def values_of(dtype: str) -> st.SearchStrategy[Any]:
    """Return values with which sums and products of four floats are exact."""
    if dtype == "bool":
        return st.booleans()
    if dtype in INTEGERS:
        limits = torch.iinfo(getattr(torch, dtype))
        return st.integers(limits.min, limits.max)
    if dtype in COMPLEX:
        return st.builds(complex, st.integers(-8, 8), st.integers(-8, 8))
    # Backends round after each step, so half types need small numbers.
    return st.integers(-2, 2) if dtype in FLOATS[:2] else st.integers(-8, 8)


def laid_out(data: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a tensor on the device of this rank, with other strides."""
    if layout == "reversed":
        order = list(range(data.dim()))[::-1]
        return data.permute(order).contiguous().to(device()).permute(order)
    if layout == "stepped":
        wide = data.new_zeros((*data.shape, 2))
        wide[..., 1] = data
        return wide.to(device())[..., 1]
    if layout == "behind":
        longer = torch.cat([data.new_zeros(3), data.reshape(-1)]).to(device())
        return longer[3:].view(data.shape)
    return data.to(device())


def made(
    values: list[Any], dtype: str, shape: tuple[int, ...], layout: str
) -> torch.Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    if dtype in FLOATS_8:
        return laid_out(
            torch.tensor(values, dtype=torch.float32).view(shape), layout
        ).to(kind)
    return laid_out(torch.tensor(values, dtype=kind).view(shape), layout)


def plain(data: torch.Tensor) -> list[Any]:
    """Return values in one dimension, as Python has them."""
    data = data.cpu().reshape(-1)
    is_small = data.dtype.itemsize < 4 and data.dtype.is_floating_point
    found: list[Any] = (data.double() if is_small else data).tolist()
    return ["nan" if each != each else each for each in found]  # noqa: PLR0124 - a NaN


def exact(values: list[Any], dtype: str, op: str) -> object:
    """Return what some values become, as exact arithmetic has it."""
    found = reduce(FOLDS[op], values)
    if dtype == "bool":
        return found > 0 if op == "sum" else bool(found)
    if dtype in INTEGERS:
        limits = torch.iinfo(getattr(torch, dtype))
        return (found - limits.min) % 2**limits.bits + limits.min
    if dtype in COMPLEX:
        parts = [int(found.real), int(found.imag)]
        of_parts = "float32" if dtype == "complex64" else "float64"
        wide = torch.tensor(parts, dtype=getattr(torch, of_parts))
        return complex(*(wide / (len(values) if op == "mean" else 1)).tolist())
    kind: torch.dtype = getattr(torch, dtype)
    wide_kind = torch.float64 if dtype == "float64" else torch.float32
    wide = torch.tensor(float(Fraction(found)), dtype=wide_kind)
    if op == "mean":
        wide = wide / len(values)
    rounded = wide.to(kind).double().item()
    return "nan" if math.isnan(rounded) else rounded


def reduce_all_ways(
    ranks: list[int],
    values: list[list[Any]],
    dtype: str,
    op: dist.Reduction,
    shape: tuple[int, ...],
    layouts: list[str],
    root: int,
) -> object:
    """Reduce what this rank has to all, to one, and scattered."""
    group, rank = group_of(*ranks), dist.get_rank()
    if rank not in ranks:
        return None
    member = ranks.index(rank)
    own, layout = values[member], layouts[member]
    count = prod(shape)
    to_all, to_one = (made(own[:count], dtype, shape, layout) for _ in range(2))
    strides = to_all.stride()
    parts = [made(own[:count], dtype, shape, layout) for _ in ranks]
    whole = made(own[: len(ranks)], dtype, (len(ranks),), layout)
    dist.all_reduce(to_all, op, group)
    dist.reduce(to_one, ranks[root], op, group)
    return [
        plain(to_all),
        plain(to_one),
        plain(dist.reduce_scatter(parts, op, group)),
        plain(dist.reduce_scatter(whole, op, group)),
        [str(to_all.dtype), to_all.stride() == strides],
    ]


@pytest.mark.parametrize("op", FOLDS)
@law
@given(data=st.data())
def test_reductions_are_exact(ranks: Pool, op: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([each for each in DTYPES if op in ops_of(each)]))
    shape = data.draw(SHAPES)
    size = ranks.world_size
    members = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    length = max(prod(shape), size)
    one = st.lists(values_of(dtype), min_size=length, max_size=length)
    values = [data.draw(one) for _ in members]
    layouts = [data.draw(st.sampled_from(LAYOUTS)) for _ in members]
    root = data.draw(st.integers(0, len(members) - 1))
    arguments = (members, values, dtype, op, shape, layouts, root)

    found = ranks.returned(reduce_all_ways, *arguments)

    columns = [list(column) for column in zip(*values, strict=True)]
    total = [exact(column, dtype, op) for column in columns]
    for rank, answer in enumerate(found):
        if rank not in members:
            assert answer is None
            continue
        member, count = members.index(rank), prod(shape)
        kept = plain(made(values[member][:count], dtype, shape, "plain"))
        assert answer == [
            total[:count],
            total[:count] if member == root else kept,
            total[:count],
            [total[member]],
            [f"torch.{dtype}", True],
        ]


def as_bits(data: torch.Tensor) -> tuple[tuple[int, ...], str, list[int]]:
    own = data.cpu().clone(memory_format=torch.contiguous_format)
    flat = own.reshape(-1).view(torch.uint8)
    return tuple(data.shape), str(data.dtype), flat.tolist()


def of_bits(seed: int, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor of any bits, which may be no number at all."""
    kind: torch.dtype = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(seed)
    limit = 2 if dtype == "bool" else 256
    count = prod(shape) * kind.itemsize
    drawn = torch.randint(limit, (count,), generator=generator, dtype=torch.uint8)
    return drawn.view(kind).view(shape)


def move_all_ways(
    ranks: list[int],
    seed: int,
    dtype: str,
    shapes: list[tuple[int, ...]],
    layout: str,
    root: int,
) -> object:
    """Move tensors by every collective that moves; that of i for j has seed i, j."""
    group, rank = group_of(*ranks), dist.get_rank()
    if rank not in ranks:
        return None
    member, source = ranks.index(rank), ranks[root]

    def given_to(other: int) -> torch.Tensor:
        data = of_bits(seed + 10 * member + other, dtype, shapes[other])
        return laid_out(data, layout)

    own = laid_out(of_bits(seed + member, dtype, shapes[member]), layout)
    same = laid_out(of_bits(seed + member, dtype, shapes[0]), layout)
    even = same.clone()
    parts = [given_to(other) for other in range(len(ranks))]
    dist.broadcast(same, source, group)
    return [
        [as_bits(each) for each in dist.all_gather(own, group, uneven=True)],
        [as_bits(each) for each in dist.gather(own, source, group, uneven=True)],
        as_bits(dist.scatter(parts if member == root else None, source, group)),
        [as_bits(each) for each in dist.all_to_all(parts, group)],
        as_bits(dist.shift(even, 1, group)),
        as_bits(same),
    ]


@law
@given(data=st.data())
def test_every_bit_arrives(ranks: Pool, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([*DTYPES, "float8_e8m0fnu"]))
    size = ranks.world_size
    members = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    count = len(members)
    shapes = [data.draw(SHAPES) for _ in members]
    if data.draw(st.booleans()):
        shapes = [shapes[0]] * count
    seed, layout = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from(LAYOUTS))
    root = data.draw(st.integers(0, count - 1))

    found = ranks.returned(move_all_ways, members, seed, dtype, shapes, layout, root)

    owns = [as_bits(of_bits(seed + each, dtype, shapes[each])) for each in range(count)]

    def sent(source: int, target: int) -> object:
        return as_bits(of_bits(seed + 10 * source + target, dtype, shapes[target]))

    for rank, answer in enumerate(found):
        if rank not in members:
            assert answer is None
            continue
        member = members.index(rank)
        assert answer == [
            owns,
            owns if member == root else [],
            sent(root, member),
            [sent(source, member) for source in range(count)],
            as_bits(of_bits(seed + (member - 1) % count, dtype, shapes[0])),
            as_bits(of_bits(seed + root, dtype, shapes[0])),
        ]
