"""The layout that a table stores, as text: ``tp=8 pp=4 order=tp-cp-ep-dp-pp``."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZES = ("tp", "cp", "pp", "dp", "ep", "etp", "dp_replicate")
TEXTS = ("order", "ep_style")
TOKENS = ("tp", "cp", "ep", "dp", "pp")
"""Axes of an order: tensor, context, expert, data and pipeline parallel."""
EP_STYLES = ("megatron", "torchtitan", "deepspeed", "scaletorch", "vllm")
"""Libraries, each with its own meaning of ep."""
OWN_AXIS = "scaletorch"
"""The ``ep_style`` in which the number of ranks is a multiple of ep."""

_WITHOUT_EP = ("torchtitan", "vllm")
"""Styles whose order does not have to name ep."""
_DIGITS = 9


class LayoutTextError(ValueError):
    """A text is not a valid layout."""


@lru_cache(maxsize=64)
def parse_layout(text: str) -> Mapping[str, int | str]:
    """Return the sizes and other values of a layout by name.

    Raises:
        LayoutTextError: It has another form, or its order or its ep_style is not
            valid. Whether experts fit is judged where a layout is used.
    """
    given: dict[str, int | str] = {}
    for item in text.split() or [text]:
        name, _, value = item.partition("=")
        if name in given:
            raise LayoutTextError(f"{quoted(name)} is given twice")
        if name in SIZES and _is_size(value):
            given[name] = int(value)
        elif name in TEXTS and value:
            given[name] = value
        else:
            raise LayoutTextError(f"{quoted(item)} is not a size or an order")
    _check_style(given)
    _check_order(given)
    _check_parts(given)
    return given


def _check_style(given: Mapping[str, int | str]) -> None:
    style = given.get("ep_style", EP_STYLES[0])
    if style not in EP_STYLES:
        known = ", ".join(EP_STYLES)
        raise LayoutTextError(f"ep_style {quoted(style)} is not one of {known}")


def _check_order(given: Mapping[str, int | str]) -> None:
    """Raise LayoutTextError unless an order names every axis with a size, once."""
    order = str(given.get("order", "-".join(TOKENS)))
    named = order.split("-")
    for name in named:
        if name not in TOKENS:
            known = ", ".join(TOKENS)
            raise LayoutTextError(
                f"the order has {quoted(name)}, which is not one of {known}"
            )
        if named.count(name) > 1:
            raise LayoutTextError(f"the order names {name} twice")
    for name in TOKENS:
        is_axis = name != "ep" or given.get("ep_style") not in _WITHOUT_EP
        if is_axis and name not in named and size_of(given, name) > 1:
            raise LayoutTextError(f"{name} has a size and is not in the order")


def _check_parts(given: Mapping[str, int | str]) -> None:
    """Raise LayoutTextError if a size does not divide the size that it is a part of."""
    copies, dp = size_of(given, "dp_replicate"), size_of(given, "dp")
    if dp % copies:
        raise LayoutTextError(f"dp_replicate {copies} does not divide dp {dp}")


def _is_size(value: str) -> bool:
    is_short = value.isascii() and value.isdecimal() and len(value) <= _DIGITS
    return is_short and int(value) > 0


def size_of(given: Mapping[str, int | str], name: str) -> int:
    """Return a size; a missing one is 1."""
    return int(given.get(name, 1))


def world_size_of(given: Mapping[str, int | str]) -> int:
    """Return the number of ranks of a layout."""
    names = ["tp", "cp", "pp", "dp"]
    if given.get("ep_style") == OWN_AXIS:
        names.append("ep")
    return prod(size_of(given, name) for name in names)


def neighbouring_tp(given: Mapping[str, int | str]) -> int:
    """Return the size of tensor parallel groups of consecutive ranks, otherwise 1."""
    order = str(given.get("order", "tp")).split("-")
    faster = order[: order.index("tp")] if "tp" in order else order
    own = given.get("ep_style") == OWN_AXIS
    sizes = [size_of(given, name) for name in faster if name != "ep" or own]
    return size_of(given, "tp") if prod(sizes) == 1 else 1
