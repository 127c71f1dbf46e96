"""Rank tables, or parts of one, as nodes that are to be merged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.file_findings import FileFindings, InputFile
from ranktable.cluster.merging.merge_checks import (
    check_duplicate_files,
    check_duplicate_nodes,
    check_formats,
    check_sizes,
    check_tops,
)
from ranktable.cluster.merging.merge_nodes import FileNode, Merged, merge_nodes
from ranktable.schema.diagnostic import Severity
from ranktable.schema.formats import by_name
from ranktable.schema.model import RankTable
from ranktable.schema.rules.ranks import NOT_FROM_ZERO, RANK_GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.merge_nodes import MergeOptions
    from ranktable.schema.check_report import Report
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
    reports: Sequence[Report], paths: Sequence[str | None], options: MergeOptions
) -> Merged:
    """Return one table of the nodes of several.

    Args:
        reports: What was found in each file. A file may be a part of a table, whose
            ranks do not begin at 0 or have gaps.
        paths: The real path of each file, None for standard input.
        options: Order of the nodes and numbering of the ranks.

    Raises:
        ArgumentError: The nodes cannot be put in the order that is asked for.
    """
    unsound = [_as_part(report) for report in reports if not is_part(report)]
    if unsound:
        return Merged(reports=tuple(unsound))
    files = [
        InputFile(file=report.file, text=report.text, format=report.format, path=path)
        for report, path in zip(reports, paths, strict=True)
    ]
    columns = [_columns(report) for report in reports]
    tables = [RankTable.from_columns(item) for item in columns]
    findings = FileFindings(files, options.limit)
    check_duplicate_files(findings)
    format_ = check_formats([item.format for item in columns], findings)
    tops = [{"version": table.version, **table.extra} for table in tables]
    extra = check_tops(tops, findings)
    extra.pop("version", None)
    nodes = [
        FileNode(
            node=node,
            file=index,
            file_name=files[index].file,
            path=(by_name(table.format).nodes_key, place),
        )
        for index, table in enumerate(tables)
        for place, node in enumerate(table.nodes)
    ]
    if not findings.has_errors:
        check_duplicate_nodes(nodes, format_, findings, with_addresses=options.renumber)
        check_sizes(nodes, findings)
    # The table is spelt as the first file is.
    top = tables[0].with_changes(nodes=(), extra=extra)
    return merge_nodes(nodes, top, format_, options, findings)


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
    by_severity = dict(report.by_severity)
    for code in OF_A_PART:
        by_severity[Severity.ERROR] -= report.totals.get(code, 0)
    return replace(
        report,
        diagnostics=tuple(diagnostic for diagnostic, _ in pairs),
        findings=tuple(finding for _, finding in pairs),
        totals={k: v for k, v in report.totals.items() if k not in OF_A_PART},
        by_severity=by_severity,
    )
