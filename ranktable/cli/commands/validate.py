"""``ranktable validate``: find everything that is wrong with a table, and where."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from ranktable.cli import completion
from ranktable.cli.app import with_options
from ranktable.cli.kinds import judge_named, judge_source
from ranktable.cli.output import (
    COULD_NOT_JUDGE,
    DEFAULT_FILE,
    DEFECTS_FOUND,
    Color,
    CommandError,
    FindingsFormat,
    about,
    show_findings,
    style_of,
    write,
)
from ranktable.cli.parameters import (
    DEFAULT_MAX_ERRORS,
    ColorOption,
    MaxSizeOption,
    SelectOption,
    codes_in,
    flag,
    number,
    valued,
)
from ranktable.cli.settings import Settings, find_settings
from ranktable.cli.sources import (
    MIB,
    NOTHING_HELD,
    STANDARD_INPUT,
    files_of,
    named_file,
    read_source,
    shown_name,
)
from ranktable.cli.table_input import sound_table
from ranktable.cluster.discovery.device_nodes import vendor_of_node
from ranktable.runtime import chip_map
from ranktable.runtime.errors import LaunchEnvironmentError
from ranktable.runtime.rules import RULES
from ranktable.schema.check import (
    check_bytes,
    make_options,
    refuse_link,
    report_unreadable,
)
from ranktable.schema.file_kind import DESCRIPTIONS
from ranktable.schema.files import UnreadableError
from ranktable.schema.finding import Findings, RankTableError, Severity
from ranktable.schema.fixes import repaired_text
from ranktable.schema.formats import names
from ranktable.schema.text import counted, printable
from ranktable.schema.writing import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.cli.sources import NamedFile
    from ranktable.schema.file_kind import Judge
    from ranktable.schema.report import Options, Report
    from ranktable.schema.site_schema import SiteSchema


_SHOWN = 4
"""Files that were not judged that are named; the others are counted."""

FILES_HELP = (
    "Rank tables and other files, folders, or - for standard input; by default "
    f"$RANK_TABLE_FILE, else {DEFAULT_FILE}."
)


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """How much to read and to show."""

    max_errors: Annotated[
        int | None,
        number("N", "Defects of each code to show, by default 20; 0 for all.", min=0),
    ] = None
    max_size: MaxSizeOption = 256

    def limit(self, settings: Settings) -> int | None:
        """Return the most defects of each code to show, None for all."""
        for given in (self.max_errors, settings.max_errors):
            if given is not None:
                return given or None
        return DEFAULT_MAX_ERRORS


@dataclass(frozen=True, kw_only=True)
class KnownOptions:
    """Facts about the hosts, and the program that will read the files."""

    chip: Annotated[
        str | None,
        valued(
            "CHIP",
            "Number of chips of a host, or their model: bm1690, or Ascend's 910, "
            "A2, A3, 310P, A5.",
            completes=completion.chips,
        ),
    ] = None
    topology: Annotated[
        str | None,
        valued(
            "TOPOLOGY",
            "Links of every host: sophgo-8, or a file with a matrix or pairs.",
            completes=completion.links,
        ),
    ] = None
    tp: Annotated[
        int | None,
        number(
            "SIZE",
            "Warn if groups of this many ranks are not rings, but could be.",
            min=1,
        ),
    ] = None
    reader: Annotated[
        str | None,
        valued(
            "READER",
            "Report as errors what this program refuses: hccl, mindie, torch_npu; "
            "nccl leaves out what is about SCCL.",
            "--for",
            completes=completion.readers,
        ),
    ] = None
    rank_table: Annotated[
        str | None,
        valued("FILE", "Rank table that submitted jobs have to start processes for."),
    ] = None

    def options(self, settings: Settings, limits: LimitOptions) -> Options:
        """Return the options of the check.

        Raises:
            CommandError: There is no such chip or reader.
        """
        try:
            return make_options(
                chip=self.chip or settings.chip,
                topology=self.topology or settings.topology,
                tp=self.tp,
                reader=self.reader,
                limit=limits.limit(settings),
                max_size_bytes=limits.max_size * MIB,
            )._replace(job_size=self.job_size(), vendor=vendor_of_node())
        except RankTableError:
            raise
        except ValueError as error:  # about --chip or --for
            raise CommandError(str(error)) from None

    def job_size(self) -> tuple[int, int] | None:
        """Return ranks and nodes of the table with which submitted jobs are compared.

        Raises:
            CommandError: It cannot be used.
        """
        if self.rank_table is None:
            return None
        table = sound_table(self.rank_table).table
        return table.world_size, len(table.nodes)


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Which findings to report, and what else to do."""

    fix: Annotated[
        bool, flag("Make the repairs that cannot change the meaning.", "--fix")
    ] = False
    diff: Annotated[
        bool, flag("Show the safe repairs and change nothing.", "--diff")
    ] = False
    strict: Annotated[bool, flag("Treat warnings as defects.", "--strict")] = False
    select: SelectOption = None
    ignore: Annotated[
        list[str] | None,
        valued(
            "CODES",
            "Do not report these codes: RT117,RT5.",
            completes=completion.listed_codes,
        ),
    ] = None
    quiet: Annotated[bool, flag("Do not report sound files.", "--quiet", "-q")] = False
    verbose: Annotated[
        bool,
        flag("Name the files of folders that were not judged.", "--verbose", "-v"),
    ] = False

    def refuse_clash(self, names: Sequence[str], form: FindingsFormat | None) -> None:
        """Raise CommandError for options that exclude each other."""
        is_input = STANDARD_INPUT in names
        if self.fix and not self.diff and is_input:
            raise CommandError("standard input cannot be repaired in place; use --diff")
        if self.diff and form is not None:
            raise CommandError("--diff goes without --format")

    def added_to(self, settings: Settings) -> Settings:
        """Return the settings of the project with these options.

        Raises:
            CommandError: A code is neither a code nor the beginning of one.
        """
        return structs.replace(
            settings,
            select=codes_in(self.select) or settings.select,
            ignore=(*settings.ignore, *codes_in(self.ignore)),
        )


@with_options(known=KnownOptions, report=ReportOptions, limits=LimitOptions)
def validate(
    *,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help=FILES_HELP)
    ] = None,
    format: Annotated[
        FindingsFormat | None,
        typer.Option(
            "--format",
            "--output-format",
            help="Form of the output.",
            show_default="full on a terminal, concise in a pipe",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        valued(
            "NAME",
            "Format of the files, as convert names it; by default it is detected.",
            "--from",
            completes=completion.judged_formats,
        ),
    ] = None,
    known: KnownOptions,
    schema: Annotated[
        str | None,
        valued(
            "FILE", "Also check against a JSON Schema of your own; local files only."
        ),
    ] = None,
    report: ReportOptions,
    limits: LimitOptions,
    color: ColorOption = Color.AUTO,
) -> None:
    """Check rank tables; show every defect with its line and column.

    Cluster specs, host files, batch scripts, manifests of jobs and topology files are
    checked too; the kind of
    a file is detected from its content. A folder stands for the tables and specs in it.
    [tool.ranktable] in pyproject.toml sets options for a project.

    Exit status: 0 sound, 1 defects found, 2 could not judge.

    Example: ranktable validate sccl_rank_table.json --topology sophgo-8
    """
    report.refuse_clash(files or (), format)
    settings = report.added_to(find_settings(Path.cwd()))
    options = known.options(settings, limits)
    site = None if schema is None else _site_schema(schema, options.limit)
    judge = None
    if from_ is not None:
        with about("--from"):
            judge = judge_named(from_)
    found, skipped = files_of(files or [named_file(None, may_be_here=not report.fix)])
    judged = {file.name: _judge_file(file, options, judge) for file in found}
    empty = [name for name, reports in judged.items() if not reports]
    keys = [key for reports in judged.values() for one in reports for key in one.beside]
    skipped = sorted([*skipped, *empty, *keys])
    if not any(judged.values()):
        raise CommandError(
            f"nothing was judged: {', '.join(files or ())} {NOTHING_HELD}"
        )
    reports = _judged(judged, settings, options, site)
    if not files:
        reports = [_with_environment(report) for report in reports]
    if report.diff:
        for each in reports:
            _show_diff(each, options, color)
    else:
        if report.fix:
            reports = [
                settings.selection.of(_fix(one, options, site)) for one in reports
            ]
        shown = [one for one in reports if one.totals or not report.quiet]
        show_findings(shown, format, color)
    _tell_skipped(skipped, verbose=report.verbose)
    _tell_not_for(reports, options)
    raise typer.Exit(_status(reports, strict=report.strict))


def _judged(
    judged: Mapping[str, list[Report]],
    settings: Settings,
    options: Options,
    site: SiteSchema | None,
) -> list[Report]:
    """Return the reports of all files, after the settings are applied."""
    reports = [
        refuse_link(report, name, options)
        for name, reports in judged.items()
        for report in reports
    ]
    if site is not None:
        reports = [_by_schema(report, site) for report in reports]
    return [settings.selection.of(report) for report in reports]


def _judge_file(file: NamedFile, options: Options, judge: Judge | None) -> list[Report]:
    """Judge a file, or standard input, and every file in a ConfigMap.

    Args:
        file: The file.
        options: The options of the check.
        judge: What judges it; None to detect its kind.
    """
    try:
        source = read_source(file.name, options.max_size_bytes)
    except UnreadableError as error:
        return [report_unreadable(error, file=shown_name(file.name))]
    if judge is not None:
        return judge(source, options)
    return judge_source(source, options, is_sure=file.is_sure)


def _by_schema(report: Report, schema: SiteSchema) -> Report:
    """Return a report with the findings of a site's schema added."""
    from ranktable.cli.site_rules import judge_by_schema  # YAML: 10 ms

    return judge_by_schema(report, schema)


def _tell_skipped(skipped: Sequence[str], *, verbose: bool) -> None:
    """Print on standard error which files of folders were not judged.

    Those that could be descriptions come first, because only a few are named.
    """
    if verbose:
        sys.stderr.writelines(f"not judged: {printable(name)}\n" for name in skipped)
    elif skipped:
        first = sorted(skipped, key=lambda name: not name.endswith(DESCRIPTIONS))
        named = ", ".join(map(printable, first[:_SHOWN]))
        more = len(skipped) - _SHOWN
        rest = f" and {counted(more, 'other file')} (-v names them)" if more > 0 else ""
        sys.stderr.write(f"not judged: {named}{rest}\n")


def _tell_not_for(reports: Sequence[Report], options: Options) -> None:
    """Print on standard error to which files --for did not apply.

    They are sound or wrong for the programs that read them, not for its reader.
    """
    reader = options.reader
    if reader is None:
        return
    tables = {*names(), *reader.own_tables}
    others = sorted(
        {
            f"{each.file} ({each.format})"
            for each in reports
            if each.format is not None and each.format not in tables
        }
    )
    if others:
        named = ", ".join(map(printable, others[:_SHOWN]))
        rest = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        sys.stderr.write(
            f"--for {reader.name} is about rank tables; it changed nothing for "
            f"{named}{rest}\n"
        )


def _with_environment(report: Report) -> Report:
    """Return the report of ``$RANK_TABLE_FILE`` with the finding about ``CHIP_MAP``."""
    table = report.table
    if table is None:
        return report
    try:
        chip_map.refuse_contradiction(
            chip_map.read_chip_map(os.environ),
            *(table.local_chip_map(node) for node in range(len(table.nodes))),
        )
    except LaunchEnvironmentError as error:
        rule = next(rule for rule in RULES if rule.code == error.code)
        return report.with_findings(Findings([rule.finding(None, error.message)]))
    return report


def _status(reports: list[Report], *, strict: bool) -> int:
    if any(report.is_unreadable for report in reports):
        return COULD_NOT_JUDGE
    for report in reports:
        # A table of several nodes is sound for NCCL; RT505 is about SCCL.
        warnings = report.count(Severity.WARNING) - report.totals.get("RT505", 0)
        if not report.ok or (strict and warnings > 0):
            return DEFECTS_FOUND
    return 0


def _show_diff(report: Report, options: Options, color: Color) -> None:
    text = repaired_text(report, options)
    if text is None or report.data is None:
        sys.stderr.write(f"{printable(report.file)}: nothing to repair safely\n")
        return
    import difflib

    style = style_of(color)
    kinds = {"-": "removed", "+": "added", "@": "place"}
    lines = difflib.unified_diff(
        _lines(report.data.decode("utf-8", "replace")),
        _lines(text),
        printable(report.file),
        f"{printable(report.file)} (repaired)",
        lineterm="",
    )
    for line in lines:
        kind = kinds.get(line[:1])
        shown = "\t".join(map(printable, line.split("\t")))
        write([(style.mark(shown, kind) if kind else shown) + "\n"])


def _lines(text: str) -> list[str]:
    """Return the lines of a text; only a newline ends a line, as for patch."""
    return text.removesuffix("\n").split("\n")


def _fix(report: Report, options: Options, site: SiteSchema | None) -> Report:
    """Repair a file and judge it again."""
    text = repaired_text(report, options)
    if text is None:
        return report
    if report.key:
        name = printable(report.file)
        sys.stderr.write(
            f"{name}: a table in a ConfigMap is not repaired; see --diff\n"
        )
        return report
    data = text.encode()
    replace_file(report.file, data, expected=report.data)
    found = check_bytes(data, options, file=report.file)
    if site is not None:
        found = _by_schema(found, site)
    left = found.count(Severity.ERROR)
    said = f"repaired in part, {counted(left, 'error')} left" if left else "repaired"
    sys.stderr.write(f"{printable(report.file)}: {said}\n")
    return found


def _site_schema(path: str, limit: int | None) -> SiteSchema:
    """Return the JSON Schema of a site.

    Raises:
        SiteSchemaError: It cannot be used.
    """
    from ranktable.schema.site_schema import read_site_schema  # jsonschema: 50 ms

    return read_site_schema(path, limit=limit)
