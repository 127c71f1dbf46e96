"""RT508, RT509 and RT511: the layout and the chips that a table stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.format import LAYOUT_KEY, TOPOLOGY_KEY
from ranktable.schema.remembered_layout import (
    LayoutTextError,
    parse_layout,
    size_of,
    world_size_of,
)
from ranktable.schema.rules.examples import device, one_node
from ranktable.schema.rules.placement import layout_of
from ranktable.schema.rules.ranks import is_permutation
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.report import Options

_EXAMPLE = "tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp"
_READERS = {"torch_tpu": "ignores the key", "SCCL": "ignores the key"}


def _bad_layout(columns: Columns, _: Options) -> Iterator[Finding]:
    text = columns.top.get(LAYOUT_KEY)
    try:
        if isinstance(text, str):
            parse_layout(text)
    except LayoutTextError as error:
        yield _finding(
            BAD_LAYOUT,
            LAYOUT_KEY,
            f"{LAYOUT_KEY} is {quoted(text)}, which is not a layout: {error}",
            f"write sizes and an order, {_EXAMPLE}, or leave the key out",
        )


def _other_size(columns: Columns, _: Options) -> Iterator[Finding]:
    layout = layout_of(columns)
    if layout is None or world_size_of(layout) == columns.num_devices:
        return
    if is_permutation(columns.ranks):  # a part of a table, or gaps, are not judged
        yield _finding(
            OTHER_SIZE,
            LAYOUT_KEY,
            f"{LAYOUT_KEY} is for {counted(world_size_of(layout), 'rank')}, but the "
            f"table has {columns.num_devices}",
            "write the sizes of the job, or leave the key out",
        )


def _contradictions(columns: Columns, options: Options) -> Iterator[Finding]:
    layout, links = layout_of(columns), options.topology
    said = []
    if layout is not None and options.tp not in (None, size_of(layout, "tp")):
        said.append((LAYOUT_KEY, f"--tp {options.tp}"))
    if links is not None and columns.top.get(TOPOLOGY_KEY) not in (None, links.name):
        said.append((TOPOLOGY_KEY, f"--topology {links.name}"))
    for key, option in said:
        yield _finding(
            CONTRADICTION,
            key,
            f"{option} contradicts the table, which remembers {columns.top[key]}",
            f"leave the option out, or change {key}",
        )


def _finding(rule: Rule, key: str, message: str, hint: str) -> Finding:
    return rule.finding(SourceSpan((key,)), message, hint=hint)


def _pair(layout: str) -> bytes:
    head = f'"version":"1.0","layout":"{layout}",'
    return one_node(device(0, 0), device(1, 1), head=head)


BAD_LAYOUT = Rule(
    code="RT508",
    name="bad-layout",
    severity=Severity.WARNING,
    summary="the layout that the table remembers is not valid",
    why=(
        "mesh, plan, diff and the commands that change a table read the sizes and the "
        "order of the parallel groups from the key layout, and refuse another "
        "spelling."
    ),
    fix=f"Write sizes and an order, {_EXAMPLE}, or leave the key out.",
    readers=_READERS,
    bad=_pair("tp2"),
    good=_pair("tp=2"),
    find=_bad_layout,
)
OTHER_SIZE = Rule(
    code="RT509",
    name="layout-of-another-size",
    severity=Severity.WARNING,
    summary="the layout that the table remembers has another number of ranks",
    why=(
        "The sizes of a layout multiply to the number of ranks. If only the table was "
        "changed by hand, the groups would be those of another job."
    ),
    fix="Write the sizes of the job, or leave the key out.",
    readers=_READERS,
    bad=_pair("tp=2 dp=2"),
    good=_pair("tp=2"),
    find=_other_size,
)
CONTRADICTION = Rule(
    code="RT511",
    name="contradicts-the-table",
    summary="an option contradicts what the table remembers",
    why=(
        "A table may remember its layout or the links of its chips, and is checked "
        "with them. If an option says something else, the option or the table is "
        "wrong."
    ),
    fix="Leave the option out, or change the key.",
    readers=_READERS,
    bad=_pair("tp=2"),
    good=_pair("dp=2"),
    options={"tp": "1"},
    find=_contradictions,
)

RULES = (BAD_LAYOUT, OTHER_SIZE, CONTRADICTION)
