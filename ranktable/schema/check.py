"""The pipeline: read, parse, detect, shape, meaning, locate -> Report."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Location, RankTableError, Severity
from ranktable.schema.files import (
    DEFAULT_MAX_SIZE_BYTES,
    UnreadableError,
    read_file,
)
from ranktable.schema.finding import Finding
from ranktable.schema.formats.detect import by_name, detect
from ranktable.schema.formats.document import DocumentReader
from ranktable.schema.locate import find_locations
from ranktable.schema.quota import Quota
from ranktable.schema.reading import decode, unreadable
from ranktable.schema.rules import chips, groups, nodes, placement, ranks
from ranktable.schema.rules.reading import TOO_LARGE
from ranktable.schema.syntax import find_too_deep, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Diagnostic
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.formats.format import Format
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology

CHIPS_PER_HOST = {"bm1690": chips.MAX_SCCL_CHIPS, "sg2260": chips.MAX_SCCL_CHIPS}
"""Chips that SCCL drives in one host, by the name of the chip or its architecture."""

_UNREADABLE = {"RT001", "RT002", "RT003", "RT004"}

IN_MEMORY = "<string>"
"""Name of a table that was given as bytes."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a check found.

    Attributes:
        file: Name of the file.
        diagnostics: The defects by place and code, as many of each code as asked for.
        totals: Number of defects of each code, shown or not.
        format: Name of the format, None when the file is no rank table.
        data: The bytes that were judged, None when they could not be read.
        text: The text that was judged, None when it could not be read.
        findings: The findings behind the diagnostics, in the same order.
        columns: The table as far as it was readable.
        by_severity: Number of defects of each severity, shown or not.
    """

    file: str
    diagnostics: tuple[Diagnostic, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    format: str | None = None
    data: bytes | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    columns: Columns | None = field(default=None, repr=False)
    by_severity: Mapping[Severity, int] = field(default_factory=dict)

    @property
    def is_unreadable(self) -> bool:
        """Whether there was nothing to judge: a missing file, a pipe, too large."""
        return not self.ok and self.text is None and self.totals.keys() <= _UNREADABLE

    @property
    def ok(self) -> bool:
        """Whether the table is sound: there may be warnings and notes, no error."""
        return self.count(Severity.ERROR) == 0

    def count(self, severity: Severity) -> int:
        """Return the number of defects of a severity, shown or not."""
        return self.by_severity.get(severity, 0)

    @cached_property
    def table(self) -> RankTable | None:
        """The table if it is sound, else None."""
        if not self.ok or self.columns is None:
            return None
        from ranktable.schema.build import build_table  # noqa: PLC0415 - not for CLI

        return build_table(self.columns)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a check is told beside the file.

    Attributes:
        chips_per_node: Number of chips of every host, None when unknown.
        topology: Links between the chips of every host, None when unknown.
        tp: Size of the tensor parallel groups, None when unknown.
        format: Format the file must have, None to detect it.
        max_size_bytes: Limit of the file.
        limit: Diagnostics of each code to place and show, None for all.
    """

    chips_per_node: int | None = None
    topology: Topology | None = None
    tp: int | None = None
    format: Format | None = None
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES
    limit: int | None = None


def check(  # noqa: PLR0913 - every one is an option of its own
    source: str | os.PathLike[str] | bytes,
    *,
    chip: str | int | None = None,
    topology: Topology | str | None = None,
    tp: int | None = None,
    format: str | None = None,  # noqa: A002 - a fixed name
    file: str | None = None,
    limit: int | None = None,
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
) -> Report:
    """Judge a rank table and report everything that is wrong with it.

    Args:
        source: Path of a file, or the bytes of a table.
        chip: Number of chips of every host, or the name of the chip (``bm1690``).
        topology: Links of every host: a topology, ``sophgo-8``, or a file of links.
        tp: Size of the tensor parallel groups, to see whether they are rings.
        format: Format the file must have; by default it is recognised.
        file: Name to report instead of the path.
        limit: Diagnostics of each code to report; ``Report.totals`` counts all.
        max_size_bytes: Largest file to read.

    Returns:
        The report; nothing is raised or printed for a defect of the file.

    Raises:
        ValueError: An argument is wrong, such as an unknown chip or format.
        RankTableError: The file of links is wrong.
    """
    options = make_options(
        chip=chip,
        topology=topology,
        tp=tp,
        format=format,
        limit=limit,
        max_size_bytes=max_size_bytes,
    )
    if isinstance(source, bytes):
        return check_bytes(source, options, file=file or IN_MEMORY)
    return check_path(os.fsdecode(source), options, file=file)


def make_options(  # noqa: PLR0913 - every one is an option of its own
    *,
    chip: str | int | None = None,
    topology: Topology | str | None = None,
    tp: int | None = None,
    format: str | None = None,  # noqa: A002 - a fixed name
    limit: int | None = None,
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
) -> Options:
    """Return the options of a check from what its caller gave; see ``check``."""
    if tp is not None and tp < 1:
        raise ValueError(f"tp {tp} is no size of a group")
    return Options(
        chips_per_node=chips_per_host(chip),
        topology=_topology(topology),
        tp=tp,
        format=by_name(format) if format is not None else None,
        max_size_bytes=max_size_bytes,
        limit=limit,
    )


def check_path(path: str, options: Options, *, file: str | None = None) -> Report:
    """Judge a file."""
    name = file or path
    try:
        data = read_file(path, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=name)
    return check_bytes(data, options, file=name)


def report_unreadable(error: UnreadableError, *, file: str) -> Report:
    """Return the report of a file that was not read."""
    return _report(file, None, [unreadable(error)], Options())


def report_findings(
    found: Iterable[Finding],
    text: str | None,
    *,
    file: str,
    format_name: str,
    quota: Quota,
) -> Report:
    """Return the report of a text that is no rank table.

    Args:
        found: What was found, as many of each code as the quota allows.
        text: The text, None if it could not be read.
        file: Name to report.
        format_name: What kind of text it is.
        quota: What was counted beyond that.
    """
    report = _report(file, text, found, Options(limit=quota.limit), quota=quota)
    return replace(report, format=format_name)


def chips_per_host(chip: str | int | None) -> int | None:
    """Return the number of chips of a host that an option gives.

    Raises:
        ValueError: It is neither a positive number nor a chip we know.
    """
    if chip is None:
        return None
    if isinstance(chip, str) and chip in CHIPS_PER_HOST:
        return CHIPS_PER_HOST[chip]
    if str(chip).isascii() and str(chip).isdigit() and 0 < int(chip) < 10**6:
        return int(chip)
    known = ", ".join(CHIPS_PER_HOST)
    raise ValueError(f"chip {chip!r} is neither a number of chips nor one of {known}")


def _topology(topology: Topology | str | None) -> Topology | None:
    if not isinstance(topology, str):
        return topology
    from ranktable.schema.topology_file import find_topology  # noqa: PLC0415 - rare

    return find_topology(topology)


def check_bytes(data: bytes, options: Options, *, file: str) -> Report:
    """Judge the bytes of a table."""
    try:
        report = _check_bytes(data, options, file)
    except RecursionError:
        # Nested more deeply than the parser minds, and the rest of the way does.
        text = data.decode("utf-8", "replace")
        finding = find_too_deep(text)
        if finding is None:
            raise  # it is the caller who is deep
        report = _report(file, text, [finding], options)
    return replace(report, data=data)


def _check_bytes(data: bytes, options: Options, file: str) -> Report:
    if len(data) > options.max_size_bytes:
        finding = TOO_LARGE.finding(
            None, f"the file is larger than {options.max_size_bytes} bytes"
        )
        return _report(file, None, [finding], options)
    decoded = decode(data)
    if isinstance(decoded, Finding):
        text = data.decode("utf-8", "replace") if decoded.span else None
        return _report(file, text, [decoded], options)
    text, found = decoded
    quota = Quota(options.limit)
    parsed = parse(text, quota)
    if isinstance(parsed, Finding):
        return _report(file, text, [*found, parsed], options)
    document, syntax = parsed
    found.extend(syntax)
    format_ = options.format or detect(document)
    if isinstance(format_, Finding) or not isinstance(document, dict):
        foreign = format_ if isinstance(format_, Finding) else detect(document)
        assert isinstance(foreign, Finding)  # noqa: S101 - only objects have a format
        return _report(file, text, [*found, foreign], options, quota=quota)
    columns, shape = DocumentReader(format_, document, quota).read()
    found.extend(shape)
    found.extend(judge(columns, options))
    return _report(file, text, found, options, columns=columns, quota=quota)


def judge(columns: Columns, options: Options) -> Iterator[Finding]:
    """Yield what is wrong with the meaning of a table."""
    chips_per_node = options.chips_per_node
    if chips_per_node is None and options.topology is not None:
        chips_per_node = options.topology.num_chips
    yield from ranks.check_ranks(columns)
    yield from ranks.check_local_ranks(columns)
    yield from chips.check_chips(columns, chips_per_node)
    yield from nodes.check_count(columns)
    yield from nodes.check_addresses(columns)
    yield from nodes.check_hosts(columns)
    yield from placement.check_rings(columns, options.topology)
    yield from placement.check_order(columns)
    yield from placement.check_node_count(columns)
    yield from groups.check_groups(columns, options.topology, options.tp)


def _report(  # noqa: PLR0913 - the parts of a report, by name
    file: str,
    text: str | None,
    found: Iterable[Finding],
    options: Options,
    *,
    columns: Columns | None = None,
    quota: Quota | None = None,
) -> Report:
    totals: Counter[str] = Counter()
    weights: Counter[Severity] = Counter()
    kept = []
    for finding in found:
        code = finding.rule.code
        totals[code] += 1
        weights[finding.rule.severity] += 1
        if options.limit is None or totals[code] <= options.limit:
            kept.append(finding)
    omitted = quota.omitted if quota is not None else {}
    for code, (rule, count) in omitted.items():
        totals[code] += count
        weights[rule.severity] += count
    pairs = _placed(kept, text, file)
    return Report(
        file=file,
        diagnostics=tuple(diagnostic for _, diagnostic in pairs),
        findings=tuple(finding for finding, _ in pairs),
        totals=dict(sorted(totals.items())),
        format=columns.format.name if columns else None,
        text=text,
        columns=columns,
        by_severity=dict(weights),
    )


def _placed(
    found: list[Finding], text: str | None, file: str
) -> list[tuple[Finding, Diagnostic]]:
    """Return the findings as diagnostics, by place and code."""
    spots = {spot for f in found for spot in (f.span, *f.related) if spot is not None}
    locations = find_locations(text or "", spots, file=file)
    pairs = [(finding, _diagnostic(finding, locations, file)) for finding in found]
    pairs.sort(key=lambda pair: _order(pair[1]))
    return pairs


def _diagnostic(
    finding: Finding, locations: Mapping[SourceSpan, Location], file: str
) -> Diagnostic:
    spot = finding.span
    return finding.diagnostic(
        Location(file=file) if spot is None else locations[spot],
        tuple(locations[other] for other in finding.related),
    )


def _order(diagnostic: Diagnostic) -> tuple[int, int, str]:
    location = diagnostic.location
    return location.line or 0, location.column or 0, diagnostic.code


def load(path: str | os.PathLike[str]) -> RankTable:
    """Return the rank table in a file.

    Raises:
        RankTableError: The file has an error; its text says what and where.
    """
    return sound_table(check(path))


def loads(data: bytes | str) -> RankTable:
    """Return the rank table in these bytes or this text.

    Raises:
        RankTableError: It has an error; its text says what and where.
    """
    return sound_table(
        check(data.encode(errors="surrogatepass") if isinstance(data, str) else data)
    )


def with_finding(report: Report, finding: Finding) -> Report:
    """Return a report with one more finding, about the file as a whole."""
    code = finding.rule.code
    pairs = _placed([finding], report.text, report.file)
    severity = finding.rule.severity
    return replace(
        report,
        findings=(*(finding for finding, _ in pairs), *report.findings),
        diagnostics=(*(item for _, item in pairs), *report.diagnostics),
        totals=dict(sorted({**report.totals, code: 1}.items())),
        by_severity={**report.by_severity, severity: report.count(severity) + 1},
    )


def sound_table(report: Report) -> RankTable:
    """Return the table of a report.

    Raises:
        RankTableError: The report has errors.
    """
    table = report.table
    if table is None:
        raise RankTableError(
            diagnostic
            for diagnostic in report.diagnostics
            if diagnostic.severity is Severity.ERROR
        )
    return table
