"""The order of the axes: ``tp-cp-ep-dp-pp``, the fastest first."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENS = ("tp", "cp", "ep", "dp", "pp")
"""Axes that an order may name: tensor, context, expert, data, pipeline parallel."""

_ALL = ", ".join(TOKENS)


def parse_order(order: str) -> tuple[str, ...]:
    """Return the tokens of an order.

    Raises:
        LayoutError: A token is unknown, spelt in another way or given twice.
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
    """Return the tokens of an order with the axes of size 1 that it leaves out.

    Raises:
        LayoutError: It is not an order, or leaves out an axis that has a size.
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
