"""RT285 to RT287: what only some generations of Ascend's chips require."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.options import Options

EQUAL_SERVERS = ("910", "310P")
LEGAL_FOURS = [
    frozenset(map(int, chips))
    for chips in ("0123", "4567", "0145", "0246", "0347", "1256", "1357", "2367")
]
"""Sets of four chips of a server of the first 910 that are linked."""

_CHIPS = 8


def _unequal_servers(columns: Columns, options: Options) -> Iterable[int]:
    return unequal_nodes(columns) if options.npu in EQUAL_SERVERS else ()


def unequal_nodes(columns: Columns) -> list[int]:
    """Return the nodes that have another number of devices than the first one."""
    sizes = columns.sizes
    return [node for node, size in enumerate(sizes) if size != sizes[0]]


def _unequal_server(columns: Columns, node: int) -> Finding:
    needs = f"servers of {' and '.join(EQUAL_SERVERS)} must have the same number"
    return unequal_node(UNEQUAL_SERVERS, columns, node, needs)


def unequal_node(rule: Rule, columns: Columns, node: int, needs: str) -> Finding:
    """Return the finding of a node with another number of devices than node 0."""
    sizes = columns.sizes
    return rule.finding(
        columns.devices_span(node),
        f"node {node} has {counted(sizes[node], 'device')} and node 0 has {sizes[0]}; "
        f"{needs}",
        related=(columns.devices_span(0),),
    )


def _illegal_sets(columns: Columns, options: Options) -> Iterable[int]:
    """Yield the nodes whose chips HCCL does not use together.

    Chips that do not exist are RT208. A node without readable chips is left to the
    finding that says why.
    """
    for node, start, end in columns.nodes() if options.npu == "910" else ():
        listed = columns.device_ids[start:end]
        chips = {chip for chip in listed if chip is not None and chip < _CHIPS}
        is_legal = len(chips) in (1, 2, _CHIPS) or chips in LEGAL_FOURS
        if not is_legal and chips.issuperset(listed) and chips:
            yield node


def _illegal_set(columns: Columns, node: int) -> Finding:
    start, end = columns.starts[node : node + 2]
    chips = sorted(chip for chip in columns.device_ids[start:end] if chip is not None)
    linked = ", ".join("".join(map(str, sorted(four))) for four in LEGAL_FOURS)
    return ILLEGAL_CHIP_SET.finding(
        columns.devices_span(node),
        f"node {node} has the chips {folded(chips)}; on 910 they are 1, 2, 8, or 4 "
        "that are linked",
        hint=f"four that are linked are {linked}",
    )


def _wrong_generation(columns: Columns, options: Options) -> Iterator[Finding]:
    """Yield RT287 for a table of 1.x on A5, and for one of 2.0 on anything else."""
    if options.npu is None:
        return
    is_2_0 = "2.0" in columns.format.versions
    if is_2_0 == (options.npu == "A5"):
        return
    wanted = "2.0" if options.npu == "A5" else "1.0, or 1.2 on A3"
    is_given = "version" in columns.top or columns.document.has("version")
    version = columns.top.get("version") if is_given else "none"
    yield WRONG_GENERATION.finding(
        SourceSpan(("version",) if is_given else ()),
        f"the version of the table is {version}; HCCL of {options.npu} reads {wanted}",
        hint="generate the table again for the chips of this cluster",
    )


UNEQUAL_SERVERS = Rule(
    code="RT285",
    name="unequal-servers",
    summary="servers of 910 or 310P have different numbers of devices",
    fix="Use the same number of devices on every server.",
    find=_unequal_servers,
    tell=_unequal_server,
)
ILLEGAL_CHIP_SET = Rule(
    code="RT286",
    name="illegal-chip-set",
    summary="chips of a server of 910 that HCCL does not use together",
    fix="Use one of these sets.",
    find=_illegal_sets,
    tell=_illegal_set,
)
WRONG_GENERATION = Rule(
    code="RT287",
    name="wrong-generation",
    summary="a table of another generation of chips",
    fix="Generate the table again for the chips of this cluster.",
    find=_wrong_generation,
)

RULES = (UNEQUAL_SERVERS, ILLEGAL_CHIP_SET, WRONG_GENERATION)
