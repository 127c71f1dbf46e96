"""The kinds of files besides rank tables, in the order in which they are tried."""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from ranktable.cli.output import about
from ranktable.cli.sources import (
    LOOKED_AT_BYTES,
    looks_like_spec,
    read_source,
    shown_name,
)
from ranktable.cluster.hccn_conf import is_hccn_conf, judge_hccn_conf
from ranktable.cluster.hostfiles.launcher_formats import (
    any_format_of,
    detect_formats,
    read_hostfile,
)
from ranktable.cluster.merge import MergeOptions, merge_probes
from ranktable.cluster.probes.read_probes import is_probe_text
from ranktable.cluster.specs.read_spec import read_spec
from ranktable.layout.rack_files import is_switch_file, read_rack_file
from ranktable.schema.check import (
    check_bytes,
    check_each,
    is_manifest,
    report_unreadable,
)
from ranktable.schema.declare import Format
from ranktable.schema.document import Document
from ranktable.schema.files import UnreadableError
from ranktable.schema.finding import Finding, RankTableError
from ranktable.schema.json_parser import parse
from ranktable.schema.report import Report, make_report
from ranktable.schema.rules.shape import NOT_A_RANK_TABLE
from ranktable.schema.text import printable
from ranktable.schema.topology_file import find_topology
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.cli.sources import Source
    from ranktable.schema.report import Options
    from ranktable.schema.site_schema import SiteSchema

SPEC: Final = "cluster-spec"
YAML_NAMES: Final = (".yaml", ".yml")

_CONFIG_MAP = re.compile(r"""\bkind["']?\s*:\s*["']?ConfigMap\b""")
_LINKS = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:\[[\[ \t\n]*)?-?[0-9]+[ \t,]")
_COMMENTS = re.compile(r"\A\ufeff?(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*(?:#[^\n]*\Z)?")


def judge_as(kind: str, file: str, options: Options) -> Report:
    """Judge a file whose format is given.

    Raises:
        CommandError: There is no such format.
    """
    with about("--from"):
        format_ = None if kind == SPEC else any_format_of(kind)
    try:
        name, data = read_source(file, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=shown_name(file))
    if format_ is None:
        return read_spec(data, file=name, limit=options.limit).report
    if isinstance(format_, Format):
        return check_bytes(data, options._replace(format=format_), file=name)
    return read_hostfile(data, format_, file=name, limit=options.limit).report


def judge_by_schema(report: Report, schema: SiteSchema) -> Report:
    """Return the report of a table or a spec with the findings of a site's schema.

    Raises:
        SiteSchemaError: The schema cannot be used.
    """
    document = None
    if report.format == SPEC:
        documents, _ = parse_yaml(report.text or "")
        document = documents[0] if documents else None
    elif report.text is not None:
        parsed = parse(report.text)
        if not isinstance(parsed, Finding):
            document = Document(text=report.text, data=parsed[0])
    if document is None and report.ok:
        name = printable(report.file)
        sys.stderr.write(f"{name}: not judged by the site's schema: it is not JSON\n")
    return schema.added_to(report, document)


def judge_by_kind(source: Source, options: Options) -> list[Report]:
    """Judge a file by the first kind that it looks like, or as a rank table."""
    for judge in KINDS:
        report = judge(source, options)
        if report is not None:
            return [report]
    return check_each(source.data, options, file=source.name)


def _start(source: Source) -> str:
    return source.data[:LOOKED_AT_BYTES].decode("utf-8", "replace")


def _spec(source: Source, options: Options) -> Report | None:
    if not looks_like_spec(source.data[:LOOKED_AT_BYTES]):
        return None
    return read_spec(source.data, file=source.name, limit=options.limit).report


def _probes(source: Source, options: Options) -> Report | None:
    if not is_probe_text(source.data[:LOOKED_AT_BYTES]):
        return None
    asked = MergeOptions(limit=options.limit)
    reports = merge_probes([source.name], [source.data], [None], asked).reports
    return reports[0] if reports else Report(file=source.name, format="probe", text="")


def _links(source: Source, options: Options) -> Report | None:
    """Judge the links between the chips of a host."""
    if not _LINKS.match(source.data):
        return None
    text = source.data.decode("utf-8", "replace")
    report = Report(file=source.name, format="topology", text=text)
    try:
        find_topology(source.name, source.data)
    except RankTableError as error:
        found = error.diagnostics
        counts = Counter((each.code, each.severity) for each in found)
        return report._replace(diagnostics=found, counts=counts)
    return report


def _hccn_conf(source: Source, options: Options) -> Report | None:
    if not is_hccn_conf(_start(source)):
        return None
    return judge_hccn_conf(source.data, file=source.name, limit=options.limit)


def _hostfile(source: Source, options: Options) -> Report | None:
    """Judge a file of a launcher or a scheduler."""
    formats = detect_formats(source.data)
    if not formats:
        return None
    name, data = source
    return read_hostfile(data, formats[0], file=name, limit=options.limit).report


def _racks(source: Source, options: Options) -> Report | None:
    """Judge the racks of the nodes."""
    text = _start(source)
    if _CONFIG_MAP.search(text):  # in a list, which kubectl prints for nodes too
        return None
    if not is_switch_file(text):
        return None
    return read_rack_file(source.data, file=source.name, limit=options.limit)[0]


def _unknown(source: Source, options: Options) -> Report | None:
    """Report a text that is clearly not JSON.

    A message about what JSON expects in the first line would not help.
    """
    text = _start(source)
    body = _COMMENTS.sub("", text)
    is_yaml = source.name.endswith(YAML_NAMES)
    is_commented = "#" in text[: len(text) - len(body)]
    if body[:1] in ("", "{", "[") or not (is_yaml or is_commented):
        return None
    if is_manifest(source.data) or "\ufffd" in text:
        return None
    kinds = "a cluster spec (which has nodes and chips)"
    if not is_yaml:
        kinds = "a rank table, a cluster spec or a host file"
    finding = NOT_A_RANK_TABLE.finding(
        None,
        f"nothing here says that it is {kinds}",
        hint="if it is, name its format with --from",
    )
    return make_report([finding], file=source.name, text=text)


KINDS: Final[tuple[Callable[[Source, Options], Report | None], ...]] = (
    _spec,
    _probes,
    _links,
    _hccn_conf,
    _hostfile,
    _racks,
    _unknown,
)
"""Each returns a report if a file is of its kind."""
