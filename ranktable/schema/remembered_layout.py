"""The layout that a table remembers, as text: ``tp=8 pp=4 order=tp-cp-ep-dp-pp``."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZES = ("tp", "cp", "pp", "dp", "ep", "etp", "dp_replicate", "dcp")
TEXTS = ("order", "ep_style")
TOKENS = ("tp", "cp", "ep", "dp", "pp")
"""Axes that an order may name: tensor, context, expert, data, pipeline parallel."""
EP_STYLES = ("megatron", "torchtitan", "deepspeed", "scaletorch", "vllm")
"""Libraries whose meaning ep may have."""
OWN_AXIS = "scaletorch"
"""The ``ep_style`` whose experts multiply the number of ranks."""

_WITHOUT_EP = ("torchtitan", "vllm")
"""Styles whose order need not name ep."""
_DIGITS = 9


class LayoutTextError(ValueError):
    """A text that is not a layout."""


@lru_cache(maxsize=64)
def parse_layout(text: str) -> Mapping[str, int | str]:
    """Return the sizes and the texts of a layout by their name.

    Raises:
        LayoutTextError: It is spelt in another way, or its order, its ep_style or its
            experts are such that no layout has them.
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
    _check_experts(given)
    return given


def _check_style(given: Mapping[str, int | str]) -> None:
    style = given.get("ep_style", EP_STYLES[0])
    if style not in EP_STYLES:
        known = ", ".join(EP_STYLES)
        raise LayoutTextError(f"ep_style {quoted(style)} is not one of {known}")


def _check_order(given: Mapping[str, int | str]) -> None:
    """Raise LayoutTextError unless an order names every axis that has a size, once."""
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


def _check_experts(given: Mapping[str, int | str]) -> None:
    """Raise LayoutTextError where Megatron's experts do not divide a stage."""
    if given.get("ep_style", EP_STYLES[0]) != EP_STYLES[0]:
        return  # the other styles have rules of their own
    tp, ep = size_of(given, "tp"), size_of(given, "ep")
    etp = int(given.get("etp", tp))
    stage = tp * size_of(given, "cp") * size_of(given, "dp")
    if stage % (ep * etp):
        raise LayoutTextError(
            f"ep {ep} x etp {etp} does not divide tp x cp x dp = {stage}"
        )


def _is_size(value: str) -> bool:
    is_short = value.isascii() and value.isdecimal() and len(value) <= _DIGITS
    return is_short and int(value) > 0


def size_of(given: Mapping[str, int | str], name: str) -> int:
    """Return a size; what is not said is 1."""
    return int(given.get(name, 1))


def world_size_of(given: Mapping[str, int | str]) -> int:
    """Return the number of ranks of a layout."""
    names = ["tp", "cp", "pp", "dp"]
    if given.get("ep_style") == OWN_AXIS:
        names.append("ep")
    return prod(size_of(given, name) for name in names)


def neighbouring_tp(given: Mapping[str, int | str]) -> int:
    """Return the size of tensor parallel groups of consecutive ranks, 1 for others."""
    order = str(given.get("order", "tp")).split("-")
    faster = order[: order.index("tp")] if "tp" in order else order
    own = given.get("ep_style") == OWN_AXIS
    sizes = [size_of(given, name) for name in faster if name != "ep" or own]
    return size_of(given, "tp") if prod(sizes) == 1 else 1
