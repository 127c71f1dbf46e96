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
_SPLIT_AS_TP = ("deepspeed", "scaletorch")
"""Styles that split an expert as tp; other styles except Megatron do not split it."""
_DIGITS = 9


class LayoutTextError(ValueError):
    """A text is not a valid layout."""


@lru_cache(maxsize=64)
def parse_layout(text: str) -> Mapping[str, int | str]:
    """Return the sizes and other values of a layout by name.

    Raises:
        LayoutTextError: It has another form, or its order, its ep_style or its experts
            are not valid.
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
    _check_experts(given)
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


def _check_experts(given: Mapping[str, int | str]) -> None:
    """Raise LayoutTextError if the experts do not fit the grid of their style.

    The rules are those of ``ranktable.layout``, whose messages also name sizes that
    fit.
    """
    style = str(given.get("ep_style", EP_STYLES[0]))
    tp, ep = size_of(given, "tp"), size_of(given, "ep")
    copies = size_of(given, "dp_replicate")
    shard = size_of(given, "dp") // copies
    stage, whose = tp * size_of(given, "cp") * shard, " of a copy" * (copies > 1)
    if style == "megatron":
        _check_second_grid(given, stage * copies)
        return
    etp = tp if style in _SPLIT_AS_TP else 1
    if int(given.get("etp", etp)) != etp:
        raise LayoutTextError(f"etp is {etp} with ep_style {style}, not {given['etp']}")
    if style == "vllm" and int(given.get("ep", stage)) != stage:
        raise LayoutTextError(f"ep is all {stage} ranks of a stage{whose}, not {ep}")
    if style == "deepspeed" and shard % ep:
        raise LayoutTextError(f"ep {ep} does not divide dp{whose} = {shard}")
    if style == "torchtitan" and stage % ep:
        raise LayoutTextError(f"ep {ep} does not divide tp x cp x dp{whose} = {stage}")
    if style == "torchtitan" and ep > 1:
        _check_is_one_run(given)


def _check_second_grid(given: Mapping[str, int | str], stage: int) -> None:
    """Raise LayoutTextError unless Megatron's two grids have the same stages."""
    tp, cp, pp, dp, ep = (size_of(given, n) for n in ("tp", "cp", "pp", "dp", "ep"))
    etp = int(given.get("etp", tp))
    if stage % (ep * etp):
        raise LayoutTextError(
            f"ep {ep} x etp {etp} does not divide tp x cp x dp = {stage}"
        )
    faster = _order(given).split("-pp", maxsplit=1)[0].split("-")
    dense = {"tp": tp, "cp": cp, "dp": dp}
    experts = {"tp": etp, "ep": ep, "dp": stage // (ep * etp)}
    steps = [prod(grid.get(n, 1) for n in faster) for grid in (dense, experts)]
    if pp > 1 and (ep, etp) != (1, tp) and steps[0] != steps[1]:
        raise LayoutTextError(
            f"a step of pp is {steps[1]} ranks for the experts, and {steps[0]} for the "
            "others"
        )


def _check_is_one_run(given: Mapping[str, int | str]) -> None:
    """Raise LayoutTextError unless the ranks that torchtitan folds are consecutive."""
    copies = size_of(given, "dp_replicate")
    sizes = {name: size_of(given, name) for name in ("tp", "cp", "pp")}
    sizes |= {"shard": size_of(given, "dp") // copies, "copies": copies}
    axes = _order(given).replace("dp", "shard-copies").split("-")
    kinds = [name in ("pp", "copies") for name in axes if sizes.get(name, 1) > 1]
    first, last = kinds.index(False), len(kinds) - kinds[::-1].index(False)
    if any(kinds[first:last]):
        raise LayoutTextError("pp or dp_replicate lies between the ranks that ep folds")


def _order(given: Mapping[str, int | str]) -> str:
    """Return the order with the missing axes of size 1."""
    named = str(given.get("order", "-".join(TOKENS))).split("-")
    return "-".join([*named, *(name for name in TOKENS if name not in named)])


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
