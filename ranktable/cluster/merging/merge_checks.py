"""RT230 to RT235: duplicates and differences between the files of one table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.probes.probe_rules import (
    CHIPS,
    FIRST,
    MIXED_CHIPS,
    SECOND,
    line,
    lines,
)
from ranktable.schema.diagnostic import (
    Rule,
    Severity,
    counted,
    named_ranks,
    printable,
    quoted,
)
from ranktable.schema.document import SourceSpan
from ranktable.schema.rules.examples import (
    PAIR,
    device,
    hccl_server,
    hccl_table,
    one_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.cluster.file_findings import FileFindings, FileSpan
    from ranktable.cluster.merging.merge_nodes import FileNode
    from ranktable.schema.declare import Format
    from ranktable.schema.document import Path

    Part = tuple[int, Path, Mapping[str, object]]
    """Index of a file, the path of something in it, and its plain data."""

    Owners = dict[int, tuple[FileNode, int]]
    """The user of a rank: the node, and the index of the device in it."""

_OTHER_FILE = "the other file"


def check_duplicate_files(findings: FileFindings) -> None:
    """Report every file that is given twice (RT230)."""
    first_use: dict[str, int] = {}
    for index, file in enumerate(findings.files):
        first = index if file.path is None else first_use.setdefault(file.path, index)
        if first != index:
            findings.report(
                REPEATED_NODE,
                (index, None),
                "the file is given twice, the first time as "
                f"{findings.files[first].file}",
            )


def check_duplicate_nodes(
    nodes: Sequence[FileNode],
    format_: Format,
    findings: FileFindings,
    *,
    with_addresses: bool = False,
) -> None:
    """Report every node that is the same as an earlier one (RT230).

    Args:
        nodes: The nodes.
        format_: Their format.
        findings: The findings so far, to which these are added.
        with_addresses: Whether an address identifies a node without a host. It does if
            every node has made its own file, but not for parts of one table.
    """
    first_use: dict[tuple[str, str], FileNode] = {}
    for node in nodes:
        for kind, name in _names(node, with_addresses=with_addresses):
            first = first_use.setdefault((kind, name), node)
            if first is not node and _are_one(kind, first, node):
                steps = (format_.host_key,) if kind == "host" else ()
                findings.report(
                    REPEATED_NODE,
                    node.at(*steps),
                    f"the {kind} {quoted(name)} is also in {first.origin(node)}",
                    hint="run probe once per node: srun --ntasks-per-node=1 "
                    "ranktable probe"
                    if node.source is None
                    else "leave one of the two out",
                    related=(first.at(*steps, label="the earlier node"),),
                )
                break


def _names(node: FileNode, *, with_addresses: bool) -> Iterator[tuple[str, str]]:
    """Yield values that only one node can have, with the kind of each."""
    if node.host is not None:
        yield "host", node.host
    for identifier in sorted(node.identifiers):
        yield "chip", identifier
    for member in node.node.devices if with_addresses else ():
        address = member.address
        if address and not member.is_emulated and not _is_loopback(address):
            yield "address", address


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _are_one(kind: str, first: FileNode, other: FileNode) -> bool:
    """Whether a shared value means that two nodes are the same.

    Nodes of one table may share an address, and two different host names are trusted.
    """
    if kind != "address":
        return True
    return first.file != other.file and None in (first.host, other.host)


def check_sizes(nodes: Sequence[FileNode], findings: FileFindings) -> None:
    """Report every node whose number of devices is not the usual one (RT232)."""
    sizes = Counter(len(node.node.devices) for node in nodes)
    usual = max(sizes, key=lambda size: (sizes[size], size))
    for node in nodes:
        size = len(node.node.devices)
        if size != usual:
            findings.report(
                UNEQUAL_NODES,
                node.at(),
                f"{node.host or 'this node'} has {counted(size, 'device')}; "
                f"{sizes[usual]} of {len(nodes)} nodes have {usual}",
            )


def check_models(nodes: Sequence[FileNode], findings: FileFindings) -> None:
    """Report every node with other chips than the first one (RT144)."""
    first = nodes[0]
    known = next((node for node in nodes if node.model), first)
    for node in nodes:
        other = first if node.vendor != first.vendor else known
        if node.vendor != first.vendor or node.model not in (None, known.model):
            findings.report(
                MIXED_CHIPS,
                node.at(),
                f"{printable(str(node.host))} has chips of {_make(node)}, "
                f"{printable(str(other.host))} has chips of {_make(other)}",
                related=(other.at(label="the other node"),),
            )


def _make(node: FileNode) -> str:
    make = " ".join(filter(None, (node.vendor or "unknown make", node.model)))
    return printable(make)  # a line of probe may contain any text


def check_formats(formats: Sequence[Format], findings: FileFindings) -> Format:
    """Return the format of the first file; RT233 for each file of another format."""
    first = formats[0]
    for index, format_ in enumerate(formats):
        if format_ is not first:
            findings.report(
                PARTS_DISAGREE,
                (index, SourceSpan((format_.nodes_key,), "key")),
                f"the format is {format_.name}, and {first.name} in "
                f"{findings.files[0].file}",
                related=(
                    (0, SourceSpan((first.nodes_key,), "key", label=_OTHER_FILE)),
                ),
            )
    return first


def agreed_keys(
    parts: Iterable[Part], findings: FileFindings, of: str = ""
) -> dict[str, object]:
    """Return the keys of one thing; RT233 if two files have different values.

    Args:
        parts: The thing in each file: index of the file, path there, and plain data.
        findings: The findings so far, to which these are added.
        of: Its name after that of a key, in messages; none for the whole table.
    """
    agreed: dict[str, tuple[int, SourceSpan, object]] = {}
    for file, path, members in parts:
        for key, value in members.items():
            span = SourceSpan((*path, key))
            first, there, other = agreed.setdefault(key, (file, span, value))
            if other != value:
                findings.report(
                    PARTS_DISAGREE,
                    (file, span),
                    f"{key}{of} is {quoted(value)}, and {quoted(other)} in "
                    f"{findings.files[first].file}",
                    related=((first, replace(there, label=_OTHER_FILE)),),
                )
    return {key: value for key, (_, _, value) in agreed.items()}


def check_ranks(nodes: Sequence[FileNode], findings: FileFindings) -> None:
    """Report ranks that two nodes have (RT231) and ranks that are missing (RT234)."""
    owners: Owners = {}
    for node in nodes:
        clashes = [
            index
            for index, device in enumerate(node.node.devices)
            if owners.setdefault(device.rank, (node, index))[0] is not node
        ]
        if clashes:
            _report_clash(node, clashes, owners, findings)
    if sum(len(node.node.devices) for node in nodes) == len(owners):
        _check_gaps(owners, findings)


def _report_clash(
    node: FileNode,
    clashes: list[int],
    owners: Owners,
    findings: FileFindings,
) -> None:
    devices = node.node.devices
    ranks = sorted(devices[index].rank for index in clashes)
    verb = "is" if len(ranks) == 1 else "are"
    first, first_index = owners[devices[clashes[0]].rank]
    findings.report(
        RANK_CLASH,
        _rank_at(node, clashes[0]),
        f"{named_ranks(ranks)} {verb} also in {first.origin(node)}",
        hint="--renumber counts the ranks anew, in the order of the nodes",
        related=(_rank_at(first, first_index, label="first use"),),
    )


def _check_gaps(owners: Owners, findings: FileFindings) -> None:
    size = len(owners)
    free = [rank for rank in range(size) if rank not in owners]
    if not free:
        return
    beyond = min(rank for rank in owners if rank > free[0])
    findings.report(
        MISSING_RANKS,
        _rank_at(*owners[beyond]),
        f"no file has {named_ranks(free)}: {counted(size, 'device')} need the ranks "
        f"0 to {size - 1}",
        hint="give the file that is missing, or count anew with --renumber",
    )


def _rank_at(node: FileNode, index: int, label: str | None = None) -> FileSpan:
    assert node.source is not None
    return node.file, node.source.rank_span(node.places[index], label)


_UPPER = one_node(device(0, 2), device(1, 3))

REPEATED_NODE = Rule(
    code="RT230",
    name="repeated-node",
    summary="one node is in two files, or in two lines",
    why=(
        "Each of its chips would be given to two processes. Nodes are compared by "
        "host, by the UUID or serial number of a chip and, with --renumber and without "
        "hosts, by the address of a chip. A file that is given twice has the same "
        "nodes too."
    ),
    fix="Leave one of the two out.",
    command="merge",
    bad=lines(FIRST, FIRST),
    good=lines(FIRST, SECOND),
)
RANK_CLASH = Rule(
    code="RT231",
    name="rank-clash",
    summary="two files give the same ranks",
    why=(
        "Every file that was made on its own node begins at rank 0. Only you know "
        "which one comes first."
    ),
    fix="Give the files in the order that you want, and add --renumber.",
    command="merge",
    beside=PAIR,
    bad=PAIR,
    good=_UPPER,
)
UNEQUAL_NODES = Rule(
    code="RT232",
    name="unequal-nodes",
    severity=Severity.WARNING,
    summary="a node has another number of devices than most",
    why=(
        "Often a chip has failed, or was not given to the container. Several launchers "
        "and vendor libraries need the same number of processes on every node."
    ),
    fix="Check the node, or go on if this is intended; --strict refuses it.",
    command="merge",
    bad=lines(FIRST, SECOND, line("n3", CHIPS[0])),
    good=lines(FIRST, SECOND, line("n3", *CHIPS)),
)
PARTS_DISAGREE = Rule(
    code="RT233",
    name="parts-disagree",
    summary="two files differ in format, version or a key for the whole table",
    why="A table has one format and one version. merge does not convert files.",
    fix="Make the files alike, then merge them.",
    command="merge",
    beside=PAIR,
    bad=hccl_table(hccl_server("n2", (0, 2, "10.20.0.6"))),
    good=_UPPER,
)
MISSING_RANKS = Rule(
    code="RT234",
    name="missing-ranks",
    summary="together the files lack a rank",
    why="The file of some node is missing, or belongs to another job.",
    fix="Give the missing file too, or use --renumber to count the ranks anew.",
    command="merge",
    beside=PAIR,
    bad=one_node(device(0, 4), device(1, 5)),
    good=_UPPER,
)
NOT_AS_LISTED = Rule(
    code="RT235",
    name="nodes-not-as-listed",
    summary="the nodes are not those of --hosts",
    why=(
        "The list says which nodes the job has, and in which order. A node that sent "
        "nothing has failed. A node that is not in the list belongs to another job."
    ),
    fix="Run ranktable probe on the missing node, or correct the list.",
    command="merge",
    options={"hosts": "n[1-3]"},
    bad=lines(FIRST, SECOND),
    good=lines(FIRST, SECOND, line("n3", *CHIPS)),
)

RULES = (
    REPEATED_NODE,
    RANK_CLASH,
    UNEQUAL_NODES,
    PARTS_DISAGREE,
    MISSING_RANKS,
    NOT_AS_LISTED,
)
