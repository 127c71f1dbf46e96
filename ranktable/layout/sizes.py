"""Sizes that multiply to the world, one of them inferred; strict about all of them."""

from __future__ import annotations

from math import isqrt, prod
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INFERRED = -1
"""Given for one size, it stands for what the others leave of the world."""


def check_size(name: str, value: object, *, may_be_inferred: bool = True) -> None:
    """Raise LayoutError for a size that is not an integer of at least 1."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer and value == INFERRED and may_be_inferred:
        return
    if not isinstance(value, int) or not is_integer or value < 1:
        or_inferred = ", or -1 for one of them" if may_be_inferred else ""
        raise LayoutError(
            f"{name} is {value!r}; a size is an integer of at least 1{or_inferred}"
        )


def resolve_sizes(given: Mapping[str, int], world_size: int | None) -> dict[str, int]:
    """Return the sizes with the one that is -1 inferred.

    Args:
        given: Every factor of the world; at most one is -1.
        world_size: Number of ranks, None for the product of the factors.

    Raises:
        LayoutError: The product is another one, or nothing can be inferred.
    """
    inferred = [name for name, size in given.items() if size == INFERRED]
    known = {name: size for name, size in given.items() if size != INFERRED}
    if len(inferred) > 1:
        names = " and ".join(inferred)
        raise LayoutError(
            f"{names} are -1 beside {factors(known)}; only one size can be inferred"
        )
    product = prod(known.values())
    if not inferred:
        if world_size not in (None, product):
            raise LayoutError(_mismatch(known, world_size or 0))
        return known
    name = inferred[0]
    if world_size is None:
        raise LayoutError(
            f"{name} is -1 beside {factors(known)}; it can be inferred when world_size "
            "is given, a multiple of that"
        )
    if world_size % product:
        raise LayoutError(_no_divisor(known, world_size, name))
    return {key: world_size // product if key == name else given[key] for key in given}


def factors(sizes: Mapping[str, int]) -> str:
    """Return every factor and the product: ``tp 4 x dp 2 = 8``."""
    product = prod(sizes.values())
    named = " x ".join(f"{name} {size}" for name, size in sizes.items())
    return f"{named} = {product}" if len(sizes) > 1 else named


def _mismatch(known: Mapping[str, int], world_size: int) -> str:
    product = prod(known.values())
    choices = [
        f"{name}={world_size // (product // size)}"
        for name, size in known.items()
        if world_size % (product // size) == 0
    ]
    listed = either([*choices, f"world_size={product}"])
    return f"{factors(known)}, but world_size is {world_size}; nearest: {listed}"


def _no_divisor(known: Mapping[str, int], world_size: int, name: str) -> str:
    product = prod(known.values())
    choices = []
    for key, size in known.items():
        rest = product // size
        if world_size % rest == 0:
            fitting = nearest(size, divisors(world_size // rest))
            choices += [f"{key}={choice}" for choice in fitting]
    below = world_size // product * product
    worlds = [world for world in (below, below + product) if world]
    choices += [f"world_size={world}" for world in worlds]
    return (
        f"{factors(known)} does not divide world_size {world_size}, so {name} cannot "
        f"be inferred; nearest: {either(choices)}"
    )


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number in increasing order."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def nearest(value: int, choices: Iterable[int]) -> list[int]:
    """Return the largest choice up to a value and the smallest one above it."""
    ordered = sorted(choices)
    below = [choice for choice in ordered if choice <= value]
    above = [choice for choice in ordered if choice > value]
    return below[-1:] + above[:1]


def either(choices: Iterable[object]) -> str:
    """Return ``a``, ``a or b``, ``a, b or c``."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last
