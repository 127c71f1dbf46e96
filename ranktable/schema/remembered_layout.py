"""The layout that a table remembers, as text: ``tp=8 pp=4 order=tp-cp-ep-dp-pp``."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZES = ("tp", "cp", "pp", "dp", "ep", "etp", "dp_replicate", "dcp")
TEXTS = ("order", "ep_style")
OWN_AXIS = "scaletorch"
"""The ``ep_style`` whose experts multiply the number of ranks."""

_DIGITS = 9


class LayoutTextError(ValueError):
    """A text that is not a layout."""


@lru_cache(maxsize=64)
def parse_layout(text: str) -> Mapping[str, int | str]:
    """Return the sizes and the texts of a layout by their name.

    Raises:
        LayoutTextError: It is spelt in another way.
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
    return given


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
