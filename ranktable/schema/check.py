"""Judge a table: bytes, document, format, columns, rules, and at last a report."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ranktable.schema.chips import chips_per_host, npu_of
from ranktable.schema.document import Document, SourceSpan
from ranktable.schema.fast_decode import LARGE_BYTES, decode_columns
from ranktable.schema.file_kind import FileKind
from ranktable.schema.files import (
    DEFAULT_MAX_SIZE_BYTES,
    UnreadableError,
    read_file,
    refuse_other_types,
)
from ranktable.schema.finding import Finding, Findings, Rule, Severity
from ranktable.schema.formats import (
    DEFAULT,
    FORMATS,
    by_name,
    detect,
)
from ranktable.schema.formats.foreign import foreign_format
from ranktable.schema.formats.placeholder import PLACEHOLDER, is_placeholder
from ranktable.schema.json_parser import (
    TEXT_AFTER,
    decode,
    find_too_deep,
    parse,
    unreadable,
)
from ranktable.schema.reader import Reader, read_document
from ranktable.schema.report import Options, Report, make_report
from ranktable.schema.rules.shape import CONFIG_MAP, UNREAD_FORMAT, no_ranks_yet
from ranktable.schema.rules.syntax import DUPLICATE_KEY, NOTHING, TOO_LARGE
from ranktable.schema.table_marks import TABLE_NAMES, has_list, looks_like_table
from ranktable.schema.table_readers import reader_by_name

if TYPE_CHECKING:
    from ranktable.schema.columns import Columns
    from ranktable.schema.config_map import Inner
    from ranktable.schema.declare import Format
    from ranktable.schema.model import RankTable
    from ranktable.schema.table_readers import TableReader
    from ranktable.schema.topology import Topology

WRAPPED = "kubernetes"
"""What reports call a ConfigMap or a placeholder, and commands a ConfigMap to write."""

MANIFEST_MARKS = (b"ConfigMap", b"apiVersion")
"""A manifest of Kubernetes has one of these texts."""

_HEAD_BYTES = 1 << 14
IN_MEMORY = "<string>"
"""Name of a table that was given as bytes."""


def check(
    source: str | os.PathLike[str] | bytes,
    *,
    chip: str | int | None = None,
    topology: Topology | str | None = None,
    tp: int | None = None,
    format: str | None = None,
    reader: str | None = None,
    file: str | None = None,
    limit: int | None = None,
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
) -> Report:
    """Judge a rank table and report everything that is wrong with it.

    Args:
        source: Path of a file, or the bytes of a table.
        chip: Number of chips of every host, or the name of the chip (``bm1690``), or
            Ascend's generation (``910``, ``A2``, ``A3``, ``310P``, ``A5``, ``any``).
        topology: Links of every host: a topology, ``sophgo-8``, or a file of links.
        tp: Size of the tensor parallel groups, to see whether they are rings.
        format: Format the file must have; by default it is detected.
        reader: The program that will read the file, such as ``mindie``; a defect for
            which it refuses the table is then an error.
        file: Name to report instead of the path.
        limit: Most diagnostics of each code to report; ``Report.totals`` counts all.
        max_size_bytes: Largest file to read.

    Returns:
        The report; a defect of the file is neither raised nor printed.

    Raises:
        ValueError: An argument is wrong, such as an unknown chip or format.
        RankTableError: The file of links is wrong.
    """
    options = make_options(
        chip=chip,
        topology=topology,
        tp=tp,
        format=format,
        reader=reader,
        limit=limit,
        max_size_bytes=max_size_bytes,
    )
    if isinstance(source, bytes):
        return check_bytes(source, options, file=file or IN_MEMORY)
    return check_path(os.fsdecode(source), options, file=file)


def check_path(path: str, options: Options, *, file: str | None = None) -> Report:
    """Judge a file."""
    name = file or path
    try:
        data = read_file(path, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=name)
    return refuse_link(check_bytes(data, options, file=name), path, options)


def refuse_link(report: Report, path: str, options: Options) -> Report:
    """Return a report with RT291 if the reader of the options takes no links."""
    reader = options.reader
    if reader is None or reader.link is None or not os.path.islink(path):
        return report
    message = f"the path is a symbolic link; {reader.title} {reader.link}"
    hint = "copy the file to a place of its own, and name that"
    finding = UNREAD_FORMAT.finding(None, message, hint=hint)
    return report.with_findings(Findings([finding]))


def report_unreadable(error: UnreadableError, *, file: str) -> Report:
    """Return the report of a file that could not be read."""
    return make_report([unreadable(error)], file=file)


def check_bytes(data: bytes, options: Options, *, file: str) -> Report:
    """Judge the bytes of a table, or of a ConfigMap with one table."""
    reports = check_each(data, options, file=file)
    if len(reports) == 1:
        return reports[0]
    message = f"there are {len(reports)} tables in this file, and one is needed"
    hint = (
        f"put one of them into a file of its own: {', '.join(r.key for r in reports)}"
    )
    return make_report([CONFIG_MAP.finding(None, message, hint=hint)], file=file)


def check_each(data: bytes, options: Options, *, file: str) -> list[Report]:
    """Judge the bytes of a table, or of every table in a ConfigMap.

    A table in a ConfigMap is judged as a file of its own, with the name ``FILE#KEY``.

    Returns:
        At least one report.
    """
    if len(data) <= options.max_size_bytes and is_manifest(data):
        from ranktable.schema.config_map import is_table, unwrap, vendor_of_jobs

        text = data.decode("utf-8-sig", "replace")
        options = options._replace(vendor=vendor_of_jobs(text) or options.vendor)
        tables = unwrap(text, options.max_size_bytes, options.limit, is_table)
        if isinstance(tables, Findings):
            return [report_wrapping(tables, data, file=file)]
        if tables is not None:
            return _check_inner(tables, options, file)
    return [_check_table(data, options, file=file)]


TABLE = FileKind(
    name="rank-table",
    title="a rank table",
    detect=lambda start, _: looks_like_table(start),
    judge=lambda source, options: check_each(source.data, options, file=source.name),
    names=TABLE_NAMES,
    is_clear=looks_like_table,
)


def is_manifest(data: bytes) -> bool:
    """Whether bytes may be a manifest of Kubernetes, which may have tables in it."""
    head = data[:_HEAD_BYTES]
    if head.lstrip().startswith(b"{") and has_list(head):
        return any(mark in head for mark in MANIFEST_MARKS)  # a table, as a rule
    return any(mark in data for mark in MANIFEST_MARKS)


def report_wrapping(found: Findings, data: bytes, *, file: str) -> Report:
    """Return the report of a ConfigMap out of which nothing can be taken."""
    text = data.decode("utf-8-sig", "replace")
    return make_report(found, file=file, text=text, data=data, format_name=WRAPPED)


def _check_inner(tables: list[Inner], options: Options, file: str) -> list[Report]:
    if not tables:
        message = (
            "there is nothing to judge: no ConfigMap in this manifest has a table, and "
            "no job in it tells what it starts"
        )
        return [make_report([NOTHING.finding(None, message)], file=file)]
    reports = []
    for key, text in tables:
        report = _check_table(text.encode(), options, file=f"{file}#{key}")
        reports.append(report._replace(key=key))
    return reports


def _check_table(data: bytes, options: Options, *, file: str) -> Report:
    if len(data) > options.max_size_bytes:
        message = f"the file is larger than {options.max_size_bytes} bytes"
        return make_report([TOO_LARGE.finding(None, message)], file=file, data=data)
    found = Findings(limit=options.limit)
    columns = decode_any(data, options.format)
    if columns is None:
        return _check_closely(data, options, file)
    judge(columns, options, found)
    found = _weighed(found, columns, options)
    name = columns.format.name
    if options.is_table_wanted and not found.has_errors:
        return make_report([], file=file, format_name=name, columns=columns)
    return make_report(
        found,
        file=file,
        text=data.decode(),
        data=data,
        format_name=columns.format.name,
        columns=columns,
    )


def decode_any(data: bytes, format_: Format | None = None) -> Columns | None:
    """Return the columns of a large table with nodes of the same text, fast.

    Returns:
        None for a document that needs all checks, or that is small.
    """
    if len(data) < LARGE_BYTES or (format_ is not None and format_.keeps_document):
        return None
    return decode_columns(data, FORMATS if format_ is None else (format_,))


def _check_closely(data: bytes, options: Options, file: str) -> Report:
    """Judge the bytes of a table that the fast path does not decode."""
    try:
        return _check_text(data, options, file)
    except RecursionError:
        # It is nested more deeply than the parser or the later steps can handle.
        text = data.decode("utf-8", "replace")
        finding = find_too_deep(text)
        if finding is None:
            raise  # the stack of the caller is the reason
        return make_report([finding], file=file, text=text, data=data)


def _check_text(data: bytes, options: Options, file: str) -> Report:
    decoded = decode(data)
    if isinstance(decoded, Finding):
        text = data.decode("utf-8", "replace") if decoded.span else None
        return make_report([decoded], file=file, text=text, data=data)
    text, marks = decoded
    found = Findings(marks, limit=options.limit)
    parsed = parse(text, options.limit)
    if isinstance(parsed, Finding):
        first = _parse_first(text, parsed)
        if first is None:
            found.add(parsed)
            return make_report(found, file=file, text=text, data=data)
        found.add(parsed._replace(severity=Severity.WARNING))
        parsed = first
    found.extend(parsed[1])
    document = Document(text=text, data=parsed[0])
    if options.format is None and is_placeholder(document.data):
        _judge_placeholder(document, found)
        name: str | None = WRAPPED
        columns = None
    elif (own := _own_table(document.data, options)) is not None:
        from ranktable.schema.formats.server_groups import judge_groups

        judge_groups(document, found)
        name, columns = own, None
    else:
        columns = _judge_document(document, options, found)
        name = None if columns is None else columns.format.name
    return make_report(
        _weighed(found, columns, options),
        file=file,
        text=text,
        data=data,
        format_name=name,
        columns=columns,
    )


def _own_table(data: object, options: Options) -> str | None:
    """Return the name of a format that the reader of the options alone reads."""
    if options.reader is None or options.format is not None:
        return None
    foreign = foreign_format(data)
    is_own = foreign is not None and foreign[0].name in options.reader.own_tables
    return foreign[0].name if foreign is not None and is_own else None


def _judge_placeholder(document: Document, found: Findings) -> None:
    """Add what is wrong with a placeholder, or that it is one."""
    Reader(DEFAULT, document, found).explain((), document.data, PLACEHOLDER)
    if not found.has_errors:
        found.add(no_ranks_yet())


def _parse_first(text: str, ended: Finding) -> tuple[object, Findings] | None:
    """Return the data of a table with text after it, if its vendor ignores that text.

    Args:
        text: The text.
        ended: The finding at which the parser stopped.
    """
    offsets = ended.span.offsets if ended.span is not None else None
    if ended.message != TEXT_AFTER or offsets is None:
        return None
    parsed = parse(text[: offsets[0]])
    if isinstance(parsed, Finding):
        return None
    format_ = detect(parsed[0])
    is_ignored = not isinstance(format_, Finding) and format_.is_hccl_1
    return parsed if is_ignored else None


def _judge_document(
    document: Document, options: Options, found: Findings
) -> Columns | None:
    """Return the columns of plain data, and add all findings."""
    format_: Format | Finding | None = options.format
    if format_ is None or not isinstance(document.data, dict):
        format_ = detect(document.data)
    if isinstance(format_, Finding):
        found.add(format_)
        return None
    columns = read_document(format_, document, found)
    if not _is_partial(columns, found):
        judge(columns, options, found)
    return columns


def _is_partial(columns: Columns, found: Findings) -> bool:
    """Whether the nodes are listed twice, so that what they mean is not known.

    Two tables were pasted together, as a rule. HCCL silently takes the last one.
    """
    path = (columns.format.nodes_key,)
    return not columns.format.is_hccl_1 and any(
        one.rule is DUPLICATE_KEY and one.span is not None and one.span.path == path
        for one in found
    )


def judge(columns: Columns, options: Options, found: Findings) -> None:
    """Add what the rules and the reader find wrong with the meaning of a table."""
    for rule in columns.format.rules:
        is_error = rule.severity is Severity.ERROR
        if rule.find is None or (options.is_table_wanted and not is_error):
            continue
        for place in rule.find(columns, options):
            if rule.tell is None:
                found.add(place)
                continue
            severity = rule.severity_of and rule.severity_of(columns, place)
            found.tell(rule, rule.tell, columns, place, severity=severity)
    if options.reader is not None:
        _judge_for(options.reader, columns, found)


def _judge_for(reader: TableReader, columns: Columns, found: Findings) -> None:
    """Add RT291 for a format or a version that a reader does not read."""
    name, version = columns.format.name, columns.top.get("version")
    if name not in reader.formats:
        read = ", ".join(reader.formats)
        message = f"{reader.title} does not read {name}, but {read}"
        found.add(UNREAD_FORMAT.finding(SourceSpan(()), message))
    if version in reader.versions:
        message = f"{reader.title} refuses version {version}: EI0014 version"
        found.add(UNREAD_FORMAT.finding(SourceSpan(("version",)), message))


def _weighed(found: Findings, columns: Columns | None, options: Options) -> Findings:
    """Return findings with the severity that they have for a format and a reader."""
    if columns is None:
        return found
    is_hccl_1, reader = columns.format.is_hccl_1, options.reader

    def weigh(rule: Rule, severity: Severity) -> Severity:
        if rule is DUPLICATE_KEY and is_hccl_1:
            return Severity.WARNING
        is_refused = reader is not None and rule.code in reader.refuses
        return Severity.ERROR if is_refused else severity

    return found.weighed(weigh)


def load(path: str | os.PathLike[str]) -> RankTable:
    """Return the rank table in a file.

    Raises:
        RankTableError: The file has an error; the text says where and which.
    """
    name = os.fsdecode(path)
    try:
        data = read_file(name)
    except UnreadableError as error:
        return report_unreadable(error, file=name).sound_table()
    return _table(data, name)


def loads(data: bytes | str) -> RankTable:
    """Return the rank table in these bytes or this text.

    Raises:
        RankTableError: It has an error; the text says where and which.
        TypeError: The data is neither bytes nor text.
    """
    refuse_other_types(data)
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    return _table(data, IN_MEMORY)


def _table(data: bytes, file: str) -> RankTable:
    options = Options(is_table_wanted=True)
    return check_bytes(data, options, file=file).sound_table()


def make_options(
    *,
    chip: str | int | None = None,
    topology: Topology | str | None = None,
    tp: int | None = None,
    format: str | None = None,
    reader: str | None = None,
    limit: int | None = None,
    max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
) -> Options:
    """Return the options of a check, given the arguments; see ``check``.

    Raises:
        ValueError: An argument is wrong, such as an unknown chip or format.
        RankTableError: The file of links is wrong.
    """
    if tp is not None and tp < 1:
        raise ValueError(f"tp must be at least 1, and is {tp}")
    if isinstance(topology, str):
        from ranktable.schema.topology_file import find_topology

        topology = find_topology(topology)
    return Options(
        chips_per_node=chips_per_host(chip),
        npu=npu_of(chip) if chip != "any" else None,
        topology=topology,
        tp=tp,
        # A ConfigMap is detected: what is in it may have any format.
        format=by_name(format) if format not in (None, WRAPPED) else None,
        reader=reader_by_name(reader) if reader is not None else None,
        max_size_bytes=max_size_bytes,
        limit=limit,
    )
