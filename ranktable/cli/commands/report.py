"""``ranktable report``: one page with the cluster, its groups, changes and findings."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.app import with_options
from ranktable.cli.options import CostOptions, LayoutOptions
from ranktable.cli.output import (
    DEFECTS_FOUND,
    SOMETHING_ELSE,
    CommandError,
    put_text,
)
from ranktable.cli.parameters import (
    FileArgument,
    OutputOption,
    ReplaceFileOption,
    flag,
    valued,
)
from ranktable.cli.sources import check_file, named_file, read_input
from ranktable.cli.table_input import sound_table, table_in
from ranktable.cluster.discovery.device_nodes import vendor_of_node
from ranktable.layout.change.comparison import difference
from ranktable.layout.change.nodes import node_names
from ranktable.layout.parallel import remembered
from ranktable.report.html_page import MARK, render_html, render_picture
from ranktable.report.markdown_summary import render_markdown
from ranktable.report.page_data import ReportFacts, make_cluster
from ranktable.report.pinned_findings import (
    FindingsError,
    Pins,
    of_diagnostics,
    read_findings,
)
from ranktable.schema.finding import Severity
from ranktable.schema.report import Options
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import RankTable
    from ranktable.schema.report import Report

MAX_FINDINGS_BYTES = 256 * 1024 * 1024


@with_options(layout_options=LayoutOptions, costs=CostOptions)
def report(
    *,
    file: FileArgument = None,
    output: OutputOption = None,
    against: Annotated[
        str | None, valued("OLD", "Show what has changed since this table.")
    ] = None,
    findings: Annotated[
        list[str] | None,
        valued("FILE", "Show these findings on their chips: doctor.json, check.json."),
    ] = None,
    markdown: Annotated[
        bool, flag("Write Markdown for a pull request or a run.", "--markdown")
    ] = False,
    svg: Annotated[
        bool, flag("Write the picture alone, for a document.", "--svg")
    ] = False,
    layout_options: LayoutOptions,
    costs: CostOptions,
    force: ReplaceFileOption = False,
) -> None:
    """Draw a table as one page: racks, chips, changes and findings.

    The page is one HTML file that needs no network; on a terminal it needs -o. Findings
    come from doctor, check or validate with --format json.

    Exit status: 0 the table is sound, 1 it has errors, which the page shows, 2 could
    not judge.

    Example: ranktable report sccl_rank_table.json -o report.html
    """
    if markdown and svg:
        raise CommandError("--markdown and --svg are two outputs; give one of them")
    if output is None and not markdown and sys.stdout.isatty():
        name = "picture.svg" if svg else "report.html"
        command = f"{shlex.join(['ranktable', *sys.argv[1:]])} -o {name}"
        raise CommandError(f"this is for a browser, so write a file: {command}")
    judged = check_file(named_file(file), Options(vendor=vendor_of_node()))
    facts = _facts(judged, layout_options, costs, against)
    facts = _with_findings(facts, judged, findings or [])
    render = render_markdown if markdown else render_picture if svg else render_html
    data = "".join(render(facts)).encode()
    put_text(output, data, facts.sizes, force=force, other_content=_other_content)
    if not judged.ok:
        raise typer.Exit(DEFECTS_FOUND)


def _other_content(there: bytes) -> str | None:
    """Name the content of a file, None for a page of this command."""
    return None if MARK.encode() in there[:200] else SOMETHING_ELSE


def _facts(
    judged: Report,
    layout_options: LayoutOptions,
    costs: CostOptions,
    against: str | None,
) -> ReportFacts:
    """Return the facts without findings; raise CommandError if nothing is there."""
    columns = judged.columns
    if columns is None or not columns.num_devices:
        table_in(judged)  # says what is wrong
        raise CommandError(f"{judged.file}: there is no chip to draw")
    table = judged.table
    if table is None:
        if against is not None or layout_options.are_given:
            name = printable(judged.file)
            sys.stderr.write(
                f"{name} has errors, so its layout and changes are not shown\n"
            )
        return ReportFacts(name=judged.file, columns=columns, table=None)
    layout = _layout(table, layout_options, costs)
    known = costs.facts(table)
    facts = ReportFacts(
        name=judged.file,
        columns=columns,
        table=table,
        layout=layout,
        costs=known,
        boundaries=known.boundaries(table, table.nodes),
    )
    if against is None:
        return facts
    return _compared(facts, layout_options, costs, against)


def _layout(
    table: RankTable, layout_options: LayoutOptions, costs: CostOptions
) -> ParallelLayout | None:
    """Return the layout that is given or stored, None if there is neither."""
    is_known = remembered(table) is not None
    if layout_options.are_given or is_known or costs.bytes_ is not None:
        return layout_options.layout(table)
    return None


def _compared(
    facts: ReportFacts,
    layout_options: LayoutOptions,
    costs: CostOptions,
    against: str,
) -> ReportFacts:
    """Return the facts with what changed since another table, as ``diff`` has it."""
    old = sound_table(against)
    assert facts.table is not None
    layouts = None
    if facts.layout is not None:
        layouts = layout_options.layout(old.table), facts.layout
    sent = None
    if costs.bytes_ is not None or costs.racks is not None:
        sent = costs.facts(old.table, node_names(facts.table.nodes))
    change = difference(old.table, facts.table, layouts, facts=sent)
    return replace(facts, old_name=old.name, change=change)


def _with_findings(facts: ReportFacts, judged: Report, files: list[str]) -> ReportFacts:
    """Return the facts with the findings of the table and those of some files."""
    if not files and not judged.diagnostics:
        return facts
    cluster, gone = make_cluster(facts)
    pins = Pins(cluster, judged.columns, gone)
    found = of_diagnostics(judged.diagnostics, pins)
    for file in files:
        name, data = read_input(file, MAX_FINDINGS_BYTES)
        try:
            read = read_findings(data, pins)
        except FindingsError as error:
            raise CommandError(f"--findings {name}: {error}") from None
        known = {*found}
        found += [one for one in read if one not in known]
    ranked = [*Severity]
    found.sort(key=lambda one: ranked.index(Severity(one.severity)))
    return replace(facts, findings=found)
