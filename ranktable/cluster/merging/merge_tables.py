"""Rank tables, or parts of one, as nodes that are to be merged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.file_findings import Remarks, Source
from ranktable.cluster.merging.merge_checks import (
    check_files,
    check_formats,
    check_nodes,
    check_sizes,
    check_tops,
)
from ranktable.cluster.merging.merge_nodes import Draft, Member, Merged, finish
from ranktable.schema.build import build_table
from ranktable.schema.diagnostic import Severity
from ranktable.schema.formats.detect import by_name
from ranktable.schema.model import RankTable
from ranktable.schema.rules.ranks import NOT_FROM_ZERO, RANK_GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.merge_nodes import Wishes
    from ranktable.schema.check import Report
    from ranktable.schema.columns import Columns

OF_A_PART = (RANK_GAP.code, NOT_FROM_ZERO.code)
"""What a part of a table may lack: its ranks need not begin at 0."""


def is_part(report: Report, also: Sequence[str] = ()) -> bool:
    """Whether a file is a sound table, but for ranks that other files may have.

    Args:
        report: What was found in it.
        also: Codes of other errors that do not matter.
    """
    errors = report.count(Severity.ERROR)
    return errors == sum(report.totals.get(code, 0) for code in (*OF_A_PART, *also))


def merge_tables(
    reports: Sequence[Report], paths: Sequence[str | None], wishes: Wishes
) -> Merged:
    """Return one table of the nodes of several.

    Args:
        reports: What was found in each file. A file may be a part of a table, whose
            ranks do not begin at 0 or have gaps.
        paths: The real path of each file, None for standard input.
        wishes: Order of the nodes and numbering of the ranks.

    Raises:
        ArgumentError: The nodes cannot be put in the order that is wished for.
    """
    unsound = [_as_part(report) for report in reports if not is_part(report)]
    if unsound:
        return Merged(reports=tuple(unsound))
    sources = [
        Source(file=report.file, text=report.text, format=report.format, path=path)
        for report, path in zip(reports, paths, strict=True)
    ]
    columns = [_columns(report) for report in reports]
    tables = [build_table(item) for item in columns]
    remarks = Remarks(wishes.limit)
    check_files(sources, remarks)
    format_ = check_formats(
        [(index, item.format) for index, item in enumerate(columns)], sources, remarks
    )
    agreed = check_tops(
        [
            (index, {"version": table.version, **table.extra})
            for index, table in enumerate(tables)
        ],
        sources,
        remarks,
    )
    draft = Draft(
        sources=sources,
        members=[
            member
            for index, table in enumerate(tables)
            for member in _nodes(index, sources[index].file, table)
        ],
        format=format_,
        top=_top(tables[0], agreed),
    )
    if not remarks.has_errors:
        check_nodes(draft.members, format_, remarks, with_addresses=wishes.renumber)
        check_sizes(draft.members, remarks)
    return finish(draft, wishes, remarks)


def _nodes(source: int, file: str, table: RankTable) -> list[Member]:
    key = by_name(table.format).nodes_key
    return [
        Member(node=node, source=source, file=file, path=(key, place))
        for place, node in enumerate(table.nodes)
    ]


def _top(first: RankTable, agreed: dict[str, object]) -> RankTable:
    """Return the table that the nodes go into; it is spelt as the first file is."""
    extra = {key: value for key, value in agreed.items() if key != "version"}
    return RankTable(
        nodes=(),
        version=first.version,
        format=first.format,
        extra=extra,
        layout=first.layout,
    )


def _columns(report: Report) -> Columns:
    assert report.columns is not None  # noqa: S101 - the file has no other error
    return report.columns


def _as_part(report: Report) -> Report:
    """Return a report without what a part may lack."""
    pairs = [
        pair
        for pair in zip(report.diagnostics, report.findings, strict=True)
        if pair[0].code not in OF_A_PART
    ]
    weights = dict(report.by_severity)
    for code in OF_A_PART:
        weights[Severity.ERROR] -= report.totals.get(code, 0)
    return replace(
        report,
        diagnostics=tuple(diagnostic for diagnostic, _ in pairs),
        findings=tuple(finding for _, finding in pairs),
        totals={k: v for k, v in report.totals.items() if k not in OF_A_PART},
        by_severity=weights,
    )
