"""``ranktable merge``: make one table of the tables or probes of nodes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import completion
from ranktable.cli.output import (
    COULD_NOT_JUDGE,
    DEFECTS_FOUND,
    Color,
    CommandError,
    about,
    is_standard_output,
    put_table,
    show_findings,
)
from ranktable.cli.parameters import (
    DEFAULT_MAX_ERRORS,
    ColorOption,
    FindingsFormatOption,
    MaxSizeOption,
    NewTableOption,
    ReplaceTableOption,
    flag,
    number,
    valued,
)
from ranktable.cli.progress import Progress, progress
from ranktable.cli.sources import (
    MIB,
    STANDARD_INPUT,
    files_of,
    read_source,
    shown_name,
)
from ranktable.cluster.discovery.device_nodes import vendor_of_node
from ranktable.cluster.host_lists import expand_hosts
from ranktable.cluster.merge import (
    Merged,
    MergeOptions,
    Order,
    is_part,
    merge_probes,
    merge_tables,
)
from ranktable.cluster.probes.read_probes import is_probe_text
from ranktable.schema.check import TABLE, WRAPPED, check_bytes, report_unreadable
from ranktable.schema.files import UnreadableError
from ranktable.schema.finding import Severity
from ranktable.schema.report import Options
from ranktable.schema.text import printable
from ranktable.schema.topology_file import find_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.report import Report

_MERGED = (TABLE.name, WRAPPED, "probe")
"""The kinds of files in folders that are merged."""

_SHOWN = 4
"""Files that a note names; the others are counted."""


def merge(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Rank tables or lines of ranktable probe, or folders of them; - is "
            "standard input.",
        ),
    ],
    from_probes: Annotated[
        bool,
        flag(
            "The files are lines of ranktable probe; by default this is detected.",
            "--from-probes",
        ),
    ] = False,
    order: Annotated[
        Order | None,
        typer.Option(
            help="Order of the nodes.", show_default="given; by-host for probes"
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        valued("LIST", "The expected hosts, in the order of the nodes: n[001-128]."),
    ] = None,
    renumber: Annotated[
        bool, flag("Number all ranks anew, in the order of the nodes.", "--renumber")
    ] = False,
    ring: Annotated[
        str | None,
        valued(
            "TOPOLOGY",
            "Put the chips of each probe in ring order: sophgo-8, or a file.",
            completes=completion.links,
        ),
    ] = None,
    output: NewTableOption = None,
    force: ReplaceTableOption = False,
    strict: Annotated[
        bool,
        flag(
            "Treat warnings as defects, except those about placement (RT5xx).",
            "--strict",
        ),
    ] = False,
    format: FindingsFormatOption = None,
    max_errors: Annotated[
        int, number("N", "Findings of each code to show; 0 for all.", min=0)
    ] = DEFAULT_MAX_ERRORS,
    max_size: MaxSizeOption = 256,
    color: ColorOption = Color.AUTO,
) -> None:
    """Merge rank tables of several nodes, or the output of probe.

    In a job of Slurm: srun ranktable probe | ranktable merge -

    Nothing is written when something is wrong. Exit status: 0 merged, 1 defects found,
    2 could not judge or wrong usage.

    Example: ranktable split sccl_rank_table.json -o parts &&
    ranktable merge parts/*.json -o merged.json
    """
    if order is not None and hosts is not None:
        raise CommandError("--order and --hosts do not go together")
    if any(map(os.path.isdir, files)):
        files = _files_in(files)
    request = _request(order, hosts, ring, max_errors, renumber=renumber)
    with progress() as line:
        data, unread = _read(files, max_size * MIB, line)
    merged = Merged(reports=tuple(unread))
    if not unread:
        merged = _merged(
            *(files, data, request),
            are_probes=from_probes,
            max_size_bytes=max_size * MIB,
        )
    is_refused = merged.table is None or (strict and _has_warnings(merged.reports))
    aside = is_standard_output(output) or (not is_refused and format is None)
    show_findings(merged.reports, format, color, aside=aside)
    if is_refused or merged.table is None or merged.data is None:
        unreadable = any(report.is_unreadable for report in merged.reports)
        raise typer.Exit(COULD_NOT_JUDGE if unreadable else DEFECTS_FOUND)
    read = dict(zip(files, data, strict=True))
    put_table(output, merged.table, merged.data, force=force, read=read)


def _has_warnings(reports: Sequence[Report]) -> bool:
    """Whether there is a warning about the files or the nodes.

    Warnings about placement, RT5xx, do not count: every table of several nodes has
    them.
    """
    return any(
        diagnostic.severity is Severity.WARNING
        and not diagnostic.code.startswith("RT5")
        for report in reports
        for diagnostic in report.diagnostics
    )


def _files_in(names: Sequence[str]) -> list[str]:
    """Return the files for arguments, and name those of folders that are left out.

    A file of JSON is never left out: it may be that of a node, and damaged.
    """
    files, skipped = files_of(names)
    found = [one.name for one in files if one.kind is None or one.kind.name in _MERGED]
    skipped += [file.name for file in files if file.name not in found]
    damaged = [name for name in skipped if name.endswith((".json", ".jsonl"))]
    others = [name for name in skipped if name not in damaged]
    if others:
        shown = ", ".join(map(printable, others[:_SHOWN]))
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        sys.stderr.write(f"note: neither tables nor probes: {shown}{more}\n")
    return [*found, *damaged]


def _request(
    order: Order | None,
    hosts: str | None,
    ring: str | None,
    max_errors: int,
    *,
    renumber: bool,
) -> MergeOptions:
    with about("--hosts"):
        listed = None if hosts is None else expand_hosts(hosts)
    return MergeOptions(
        order=order,
        hosts=listed,
        renumber=renumber,
        topology=None if ring is None else find_topology(ring),
        limit=max_errors or None,
    )


def _read(
    names: Sequence[str], max_size_bytes: int, line: Progress
) -> tuple[list[bytes], list[Report]]:
    """Return the content of all files, and a report of each that cannot be read."""
    data: list[bytes] = []
    unread: list[Report] = []
    for place, name in enumerate(names, 1):
        line.show(f"reading file {place} of {len(names)}")
        try:
            data.append(read_source(name, max_size_bytes).data)
        except UnreadableError as error:
            unread.append(report_unreadable(error, file=shown_name(name)))
    return data, unread


def _merged(
    names: Sequence[str],
    data: Sequence[bytes],
    request: MergeOptions,
    *,
    are_probes: bool,
    max_size_bytes: int,
) -> Merged:
    """Return the merged table.

    Raises:
        CommandError: Some files are rank tables and some are lines of probes.
        ArgumentError: The request cannot be fulfilled.
    """
    shown = [shown_name(name) for name in names]
    paths = [
        None if name == STANDARD_INPUT else os.path.realpath(name) for name in names
    ]
    kinds = [are_probes or is_probe_text(each) for each in data]
    if all(kinds):
        if request.order is Order.BY_RANK:
            raise CommandError("--order by-rank: probes have no ranks; use by-host")
        return merge_probes(shown, data, paths, request)
    if any(kinds):
        table, probe = (shown[kinds.index(kind)] for kind in (False, True))
        raise CommandError(
            f"{probe} holds lines of ranktable probe and {table} does not; merge "
            "the probes first, then the tables"
        )
    if request.topology is not None:
        raise CommandError(
            "--ring orders the chips of probes; those of a table have an order"
        )
    options = Options(
        limit=request.limit, max_size_bytes=max_size_bytes, vendor=vendor_of_node()
    )
    reports = [
        _part(each, name, options) for each, name in zip(data, shown, strict=True)
    ]
    return merge_tables(reports, paths, request)


def _part(data: bytes, name: str, options: Options) -> Report:
    # Notes about parts are not shown, and counting them takes half of the time.
    report = check_bytes(data, options._replace(limit=0), file=name)
    return report if is_part(report) else check_bytes(data, options, file=name)
