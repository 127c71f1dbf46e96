"""The layout that a table remembers, as text: ``tp=8 pp=4 order=tp-cp-ep-dp-pp``.

Its rules are RT508, RT509 and RT511, of what a table remembers of its layout and chips.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Rule, Severity, counted, quoted
from ranktable.schema.document import SourceSpan
from ranktable.schema.format import LAYOUT_KEY, TOPOLOGY_KEY
from ranktable.schema.rules.examples import device, one_node
from ranktable.schema.rules.ranks import is_permutation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Finding, Options

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


def layout_of(columns: Columns) -> Mapping[str, int | str] | None:
    """Return the layout that a table remembers, None if there is none or a bad one."""
    text = columns.top.get(LAYOUT_KEY)
    try:
        return parse_layout(text) if isinstance(text, str) else None
    except LayoutTextError:
        return None


_EXAMPLE = "tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp"


def _bad_layout(columns: Columns, _: Options) -> Iterator[Finding]:
    text = columns.top.get(LAYOUT_KEY)
    try:
        if isinstance(text, str):
            parse_layout(text)
    except LayoutTextError as error:
        yield BAD_LAYOUT.finding(
            SourceSpan((LAYOUT_KEY,)),
            f"{LAYOUT_KEY} is {quoted(text)}, which is not a layout: {error}",
            hint=f"write sizes and an order, {_EXAMPLE}, or leave the key out",
        )


def _other_size(columns: Columns, _: Options) -> Iterator[Finding]:
    layout = layout_of(columns)
    if layout is None or world_size_of(layout) == columns.num_devices:
        return
    if not is_permutation(columns.ranks):
        return  # a part of a table, or one with gaps
    yield OTHER_SIZE.finding(
        SourceSpan((LAYOUT_KEY,)),
        f"{LAYOUT_KEY} is one of {counted(world_size_of(layout), 'rank')}, and the "
        f"table has {columns.num_devices}",
        hint="write the sizes of the job, or leave the key out",
    )


def _contradictions(columns: Columns, options: Options) -> Iterator[Finding]:
    layout = layout_of(columns)
    if layout is not None and options.tp not in (None, size_of(layout, "tp")):
        yield CONTRADICTION.finding(
            SourceSpan((LAYOUT_KEY,)),
            f"--tp {options.tp} contradicts the table, which remembers "
            f"{columns.top[LAYOUT_KEY]}",
            hint=f"leave the option out, or change {LAYOUT_KEY}",
        )
    topology, named = options.topology, columns.top.get(TOPOLOGY_KEY)
    if topology is not None and named not in (None, topology.name):
        yield CONTRADICTION.finding(
            SourceSpan((TOPOLOGY_KEY,)),
            f"--topology {topology.name} contradicts the table, which remembers "
            f"{named}",
            hint=f"leave the option out, or change {TOPOLOGY_KEY}",
        )


def _pair(layout: str) -> bytes:
    head = f'"version":"1.0","layout":"{layout}",'
    return one_node(device(0, 0), device(1, 1), head=head)


BAD_LAYOUT = Rule(
    code="RT508",
    name="bad-layout",
    severity=Severity.WARNING,
    summary="the layout that the table remembers is not one",
    why=(
        "mesh, plan, diff and the commands that change a table take the sizes and the "
        "order of the parallel groups from the key layout, and refuse another spelling."
    ),
    fix=f"Write sizes and an order, {_EXAMPLE}, or leave the key out.",
    readers={"torch_tpu": "ignores the key", "SCCL": "ignores the key"},
    bad=_pair("tp2"),
    good=_pair("tp=2"),
    keys=(LAYOUT_KEY,),
    check=_bad_layout,
)
OTHER_SIZE = Rule(
    code="RT509",
    name="layout-of-another-size",
    severity=Severity.WARNING,
    summary="the layout that the table remembers has another number of ranks",
    why=(
        "The sizes of a layout multiply to the number of ranks. Where a table was "
        "changed by hand and its layout was not, groups would be those of another job."
    ),
    fix="Write the sizes of the job, or leave the key out.",
    readers={"torch_tpu": "ignores the key", "SCCL": "ignores the key"},
    bad=_pair("tp=2 dp=2"),
    good=_pair("tp=2"),
    keys=(LAYOUT_KEY,),
    check=_other_size,
)
CONTRADICTION = Rule(
    code="RT511",
    name="contradicts-the-table",
    summary="an option contradicts what the table remembers",
    why=(
        "A table that remembers its layout or the links of its chips is judged by "
        "them. An option that says something else is a slip, or the key is out of date."
    ),
    fix="Leave the option out, or change the key.",
    readers={"torch_tpu": "ignores the key", "SCCL": "ignores the key"},
    bad=_pair("tp=2"),
    good=_pair("dp=2"),
    options={"tp": "1"},
    keys=(LAYOUT_KEY, TOPOLOGY_KEY),
    check=_contradictions,
)

RULES = (BAD_LAYOUT, OTHER_SIZE, CONTRADICTION)
