"""Sizes, the order of their axes, and the presets of libraries."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from math import isqrt, prod
from typing import TYPE_CHECKING

from ranktable.layout.layout_errors import LayoutError
from ranktable.schema.remembered_layout import TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INFERRED = -1
"""As the value of one size: it becomes world_size divided by the other sizes."""


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
    """Return the sizes; the one that is -1 is computed.

    Args:
        given: Every factor of the world size; at most one is -1.
        world_size: Number of ranks, None for the product of the factors.

    Raises:
        LayoutError: The product is not world_size, or no size fits for -1.
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
        raise LayoutError(_not_inferred(known, world_size, name))
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


def _not_inferred(known: Mapping[str, int], world_size: int, name: str) -> str:
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
    """Return the largest choice that is at most a value, and the smallest above it."""
    ordered = sorted(choices)
    below = [choice for choice in ordered if choice <= value]
    above = [choice for choice in ordered if choice > value]
    return below[-1:] + above[:1]


def either(choices: Iterable[object]) -> str:
    """Return choices as text: ``a``, ``a or b``, ``a, b or c``."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last


_ALL = ", ".join(TOKENS)


def parse_order(order: str) -> tuple[str, ...]:
    """Return the axes of an order.

    Raises:
        LayoutError: A name is unknown, written in another way or given twice.
    """
    tokens = tuple(order.split("-"))
    for token in tokens:
        if token not in TOKENS:
            raise LayoutError(
                f"the order {order!r} has {token!r}, which is not one of {_ALL}"
                f"{did_you_mean(token, TOKENS)}"
            )
    for token in tokens:
        if tokens.count(token) > 1:
            raise LayoutError(
                f"the order {order!r} names {token} twice; each of {_ALL} may stand in "
                "it once"
            )
    return tokens


def complete_order(order: str, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the axes of an order, with the missing axes of size 1.

    Raises:
        LayoutError: It is not an order, or an axis with a size above 1 is missing.
    """
    tokens = parse_order(order)
    missing = [name for name in TOKENS if name not in tokens]
    for name in missing:
        if sizes[name] != 1:
            raise LayoutError(
                f"{name} is {sizes[name]} and the order {order!r} has no {name}; "
                f"{order}-{name} would have it as the slowest"
            )
    return (*tokens, *missing)


def did_you_mean(word: str, known: tuple[str, ...]) -> str:
    """Return the end of a sentence that names the nearest of the known words."""
    plain = word.strip().lower()
    near = get_close_matches(plain, known, n=1 if plain in known else 2, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


@dataclass(frozen=True, slots=True)
class Preset:
    """How a library numbers its ranks.

    Attributes:
        order: Its axes, the fastest first.
        ep_style: What it means by ep.
    ep_style: The meaning of ep.
    """

    order: str
    ep_style: str


# Sources: RankGenerator's default order in Megatron-Core; the axes pipe, data, model of
# DeepSpeed's PipeModelDataParallelTopology; ParallelDims of torchtitan; the grid DP,
# PP, CP, EP, TP of ScaleTorch; the shape (dp, pp, pcp, tp) of vLLM. JAX names no axes;
# these are MaxText's, data, stage, context, tensor, expert. The others are written with
# the slowest first, and are read backwards here.
PRESETS: Mapping[str, Preset] = {
    "megatron": Preset("tp-cp-ep-dp-pp", "megatron"),
    "deepspeed": Preset("tp-cp-ep-dp-pp", "deepspeed"),
    "torchtitan": Preset("tp-cp-dp-pp", "torchtitan"),
    "scaletorch": Preset("tp-ep-cp-pp-dp", "scaletorch"),
    "vllm": Preset("tp-cp-pp-dp", "vllm"),
    "jax": Preset("ep-tp-cp-pp-dp", "scaletorch"),
}


def find_preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        LayoutError: There is no such preset.
    """
    if name not in PRESETS:
        raise LayoutError(
            f"{name!r} is not a preset; the presets are {', '.join(PRESETS)}"
            f"{did_you_mean(name, tuple(PRESETS))}"
        )
    return PRESETS[name]
