"""The table that a command reads, or that of a spec.

FILE is a path, ``-`` for standard input, else ``$RANK_TABLE_FILE``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    show_findings,
)
from ranktable.cli.sources import check_file, named_file, read_input
from ranktable.cluster.host_lists import fold_hosts
from ranktable.schema.finding import RankTableError
from ranktable.schema.model import RankTable
from ranktable.schema.report import Options
from ranktable.schema.rules.ranks import WRONG_LOCAL_RANK
from ranktable.schema.rules.shape import no_ranks_yet
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.specs.spec import ClusterSpec
    from ranktable.schema.columns import Columns
    from ranktable.schema.file_kind import Source
    from ranktable.schema.report import Report


class TableFile(NamedTuple):
    """A table and the file from which it was read.

    Attributes:
        name: Name of its file.
        table: The table.
        data: The bytes of the file; before it is replaced, they are compared again.
        key: Key of the ConfigMap in which the table is, which is not replaced.
        is_in_file: Whether the file is one that readers of tables read as this table.
    """

    name: str
    table: RankTable
    data: bytes
    key: str = ""
    is_in_file: bool = True


def sound_table(file: str | None) -> TableFile:
    """Return a file and its table.

    Args:
        file: Name of the file, ``-`` or None.

    Raises:
        CommandError: The table has errors, which the message lists, or is not there
            yet.
    """
    report = check_file(named_file(file), Options(limit=5, is_table_wanted=True))
    table, data, key = table_in(report), report.data or b"", report.key
    return TableFile(report.file, table, data, key, is_in_file=not key)


def table_in(report: Report) -> RankTable:
    """Return the table of a report.

    Raises:
        CommandError: It has errors, which the message lists, or is not there yet.
    """
    if report.is_placeholder:
        finding = no_ranks_yet()
        raise CommandError(f"{report.file}: {finding.message}\nhelp: {finding.hint}")
    try:
        return report.sound_table()
    except RankTableError as error:
        if report.is_unreadable:
            raise CommandError(f"the table cannot be read\n{error}") from None
        raise CommandError(f"the table is not sound\n{error}", DEFECTS_FOUND) from None


def part_of(report: Report, also: Sequence[str] = ()) -> RankTable | None:
    """Return a table whose ranks may have gaps, None if it has other errors.

    Args:
        report: The report of its file.
        also: Codes of other errors that do not matter.
    """
    if report.table is not None:
        return report.table
    if report.is_unreadable or report.columns is None:
        return None
    from ranktable.cluster import merge as merging

    if not merging.is_part(report, also):
        return None
    return RankTable.from_columns(report.columns)


def table_with_gaps(file: str) -> TableFile:
    """Return a table whose ranks may have gaps.

    Raises:
        CommandError: It has other errors, or is not there yet.
    """
    report = check_file(file, Options(limit=5, is_table_wanted=True))
    # A node from which chips were removed also has gaps in its local ranks.
    also = [WRONG_LOCAL_RANK.code] if _count_up(report.columns) else []
    table = part_of(report, also)
    if table is None:
        table = table_in(report)
    return TableFile(report.file, table, report.data or b"", report.key)


def _count_up(columns: Columns | None) -> bool:
    """Whether the local ranks of every node increase, with or without gaps."""
    if columns is None:
        return False
    nodes = [columns.local_ranks[start:end] for _, start, end in columns.nodes()]
    written = [[rank for rank in node if rank is not None] for node in nodes]
    return all(ranks == sorted(set(ranks)) for ranks in written)


def table_of_spec(file: str, *, is_emulated: bool) -> tuple[RankTable, str | None]:
    """Return the table of a cluster spec with its spares, and the links of its rings.

    The spares are printed.

    Raises:
        CommandError: The spec cannot be read, or has defects, which are printed.
    """
    from ranktable.cluster.specs.spec import spare_nodes, table_from_spec

    spec = sound_spec(file)
    if is_emulated and spec.addresses is None:
        raise CommandError("--emulator needs the addresses: add them to the spec")
    spares = spare_nodes(spec, is_emulated=is_emulated)
    if spares:
        hosts = fold_hosts(str(node.host) for node in spares)
        sys.stderr.write(f"spares: {printable(hosts)}\n")
    table = table_from_spec(spec, is_emulated=is_emulated)
    return table.with_changes(spares=spares), spec.ring


def sound_spec(file: str) -> ClusterSpec:
    """Return a cluster spec.

    Raises:
        CommandError: It cannot be read, or has defects, which are printed.
    """
    from ranktable.cluster.specs.read_spec import MAX_SIZE_BYTES

    return spec_in(read_input(file, MAX_SIZE_BYTES))


def spec_in(source: Source) -> ClusterSpec:
    """Return the cluster spec in a file that was read.

    Raises:
        CommandError: It has defects, which are printed.
    """
    from ranktable.cluster.specs.read_spec import read_spec

    name, data = source
    reading = read_spec(data, file=name)
    if reading.report.totals:
        show_findings([reading.report], "full", Color.AUTO, aside=True)
    if reading.spec is None:
        raise CommandError(f"{name} is not a sound cluster spec", DEFECTS_FOUND)
    return reading.spec
