"""The files that ``ranktable validate`` judges, and the settings of a project.

Every kind of file that ranktable reads is judged. The settings of a project are in
``[tool.ranktable]`` of pyproject.toml, or in ranktable.toml.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranktable.cli.output import CommandError, about
from ranktable.cli.table_input import STANDARD_INPUT, STANDARD_INPUT_NAME
from ranktable.schema.check import (
    CONFIG_MAP_MARKS,
    check_bytes,
    chips_per_host,
    report_unreadable,
)
from ranktable.schema.diagnostic import RankTableError, Report, make_report
from ranktable.schema.document import Document
from ranktable.schema.files import UnreadableError, read_file, read_stream
from ranktable.schema.format import Format
from ranktable.schema.json_parser import parse
from ranktable.schema.rules.shape import NOT_A_RANK_TABLE
from ranktable.schema.topology import BUILT_IN

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.hostfiles.hostfile import LauncherFormat
    from ranktable.schema.diagnostic import Options
    from ranktable.schema.site_schema import SiteSchema

_SPEC_NAME = "cluster-spec"
LOOKED_AT_BYTES = 1 << 16
"""Bytes of a file that are examined to detect its format."""

_TABLE = re.compile(rb'"(?:node|server|super_pod|rank)_list"')
_CONFIG_MAP = re.compile(r"""\bkind["']?\s*:\s*["']?ConfigMap\b""")
_SPEC = tuple(
    re.compile(rb"(?m:^|[{,][ \t]*(?=\"))\"?" + key + rb"\"?[ \t]*:")
    for key in (b"nodes", b"chips")
)
_LINKS = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:\[[\[ \t\n]*)?-?[0-9]+[ \t,]")
_YAML_NAMES = (".yaml", ".yml")
_SPEC_NAMES = (*_YAML_NAMES, ".json")
_COMMENTS = re.compile(r"\A\ufeff?(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*(?:#[^\n]*\Z)?")
_KNOWN_NAMES = ("*hostfile*", "*rankfile*", "*machinefile*")
_KNOWN_ENDINGS = ("", ".txt", ".conf", ".cfg", ".hosts")


def judge_file(name: str, options: Options, kind: str | None = None) -> Report:
    """Judge a file, or standard input.

    Args:
        name: The file.
        options: The options of the check.
        kind: Name of its format, or a beginning of it; None to detect the format.

    Raises:
        CommandError: There is no such format.
    """
    shown = STANDARD_INPUT_NAME if name == STANDARD_INPUT else name
    named = None if kind in (None, _SPEC_NAME) else _format_of(str(kind))
    try:
        if name == STANDARD_INPUT:
            data = read_stream(sys.stdin.buffer, options.max_size_bytes)
        else:
            _refuse_unreadable_folder(name)
            data = read_file(name, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=shown)
    start = data[:LOOKED_AT_BYTES]
    if named is not None:
        return _report_of(named, data, shown, options)
    if kind is None and _is_table(start):
        return check_bytes(data, options, file=shown)
    if kind is not None or _is_spec(start):
        from ranktable.cluster.specs.read_spec import read_spec

        return read_spec(data, file=shown, limit=options.limit).report
    if _LINKS.match(start):
        return _links_report(data, shown)
    report = _launcher_report(data, shown, options)
    return (
        report
        or _unknown_report(start, shown)
        or check_bytes(data, options, file=shown)
    )


def _refuse_unreadable_folder(name: str) -> None:
    try:
        if os.path.isdir(name):
            os.listdir(name)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        message = f"the folder cannot be read: {reason}"
        raise UnreadableError("RT002", message) from None


def _format_of(kind: str) -> LauncherFormat | Format:
    from ranktable.cluster.hostfiles.launcher_formats import (
        any_format_of,
    )

    with about("--from"):
        return any_format_of(kind)


def _report_of(
    kind: LauncherFormat | Format, data: bytes, name: str, options: Options
) -> Report:
    """Return the report of a file whose format is given."""
    from ranktable.cluster.hostfiles.launcher_formats import (
        read_hostfile,
    )

    if isinstance(kind, Format):
        return check_bytes(data, replace(options, format=kind), file=name)
    return read_hostfile(data, kind, file=name, limit=options.limit).report


def _is_table(start: bytes) -> bool:
    return start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and bool(
        _TABLE.search(start)
    )


def _is_spec(start: bytes) -> bool:
    is_script = start.startswith(b"#!")  # it may contain a spec: templates/jobs
    return not is_script and all(key.search(start) for key in _SPEC)


def _links_report(data: bytes, name: str) -> Report:
    """Return the report of a file with the links between a host's chips."""
    from ranktable.schema.topology_file import find_topology

    try:
        find_topology(name, data)
    except RankTableError as error:
        return Report(
            file=name,
            diagnostics=error.diagnostics,
            counts=Counter((each.code, each.severity) for each in error.diagnostics),
            format="topology",
            text="",
        )
    return Report(file=name, format="topology", text="")


def _launcher_report(data: bytes, name: str, options: Options) -> Report | None:
    """Return the report of a file for launchers or schedulers, None for other files."""
    from ranktable.cluster.hccn_conf import (
        is_hccn_conf,
        judge_hccn_conf,
    )
    from ranktable.cluster.hostfiles.launcher_formats import (
        detect_formats,
        read_hostfile,
    )
    from ranktable.layout.topologies.reading import (
        TOPOLOGY_FORMATS,
        read_topology,
    )

    text = data[:LOOKED_AT_BYTES].decode("utf-8", "replace")
    if is_hccn_conf(text):
        return judge_hccn_conf(data, file=name, limit=options.limit)
    formats = detect_formats(data)
    if formats:
        return read_hostfile(data, formats[0], file=name, limit=options.limit).report
    if _CONFIG_MAP.search(text):  # in a list, which kubectl prints for nodes too
        return None
    if any(kind.is_known_by(text) for kind in TOPOLOGY_FORMATS[:-1]):
        return read_topology(data, file=name, limit=options.limit)[0]
    return None


def _unknown_report(start: bytes, name: str) -> Report | None:
    """Return the report of a text that is clearly not JSON, None if it may be JSON.

    A message about what JSON expects in the first line would not help.
    """
    text = start.decode("utf-8", "replace")
    body = _COMMENTS.sub("", text)
    is_yaml = name.endswith(_YAML_NAMES)
    is_commented = "#" in text[: len(text) - len(body)]
    if body[:1] in ("", "{", "[") or not (is_yaml or is_commented):
        return None
    if any(mark in text for mark in CONFIG_MAP_MARKS) or "\ufffd" in text:
        return None
    kinds = "a cluster spec (which has nodes and chips)"
    if not is_yaml:
        kinds = "a rank table, a cluster spec or a host file"
    finding = NOT_A_RANK_TABLE.finding(
        None,
        f"nothing here says that it is {kinds}",
        hint="if it is, name its format with --from",
    )
    return make_report([finding], file=name, text=text)


def named_files(names: Sequence[str]) -> list[str]:
    """Return the files to judge; a folder stands for the known files in it.

    Raises:
        CommandError: The only named folder has no file to judge.
    """
    found: list[str] = []
    for name in names:
        if name == STANDARD_INPUT or not os.path.isdir(name):
            found.append(name)
            continue
        held = [_plain_name(path) for path in _ours_below(name)]
        if not held and len(names) == 1:
            raise CommandError(f"{name} holds no table, spec or host file")
        found += held or [name]
    known: dict[str, str] = {}
    for name in found:  # a file may also be in a named folder
        known.setdefault(_place_of(name), name)
    return list(known.values())


def _place_of(name: str) -> str:
    """Return where a file is, however its folder is written."""
    if name == STANDARD_INPUT:
        return name
    folder, last = os.path.split(name)
    return os.path.join(os.path.realpath(folder), last)


def _ours_below(folder: str) -> Iterator[str]:
    """Yield the known files of a folder, then the folders that cannot be read.

    Hidden folders are left out.
    """
    unreadable: list[str] = []
    walk = os.walk(folder, onerror=lambda error: unreadable.append(error.filename))
    for path, folders, files in walk:
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = os.path.join(path, name)
            if _is_ours(file):
                yield file
    yield from unreadable  # reported with a code


def _plain_name(path: str) -> str:
    """Return a path without "." and double slashes, as repositories write it.

    ".." stays, because the folder before it may be a link.
    """
    if os.path.isabs(path):
        return path
    plain = str(Path(path))
    return f"./{plain}" if plain == STANDARD_INPUT else plain


def _is_ours(path: str) -> bool:
    """Whether the content of a file is of a known kind."""
    name = Path(path).name
    try:
        if not Path(path).is_file():
            return False
        with open(path, "rb") as file:
            start = file.read(LOOKED_AT_BYTES)
    except OSError:
        return name.endswith(_SPEC_NAMES)  # reported with its code
    if _is_table(start) or (name.endswith(_SPEC_NAMES) and _is_spec(start)):
        return True
    if name in ("topology.conf", "hccn.conf"):
        return True
    ending = Path(name).suffix
    return (ending in _KNOWN_ENDINGS or ending[1:].isdigit()) and any(
        fnmatch(name, pattern) for pattern in _KNOWN_NAMES
    )


OWN_FILE, SHARED_FILE = "ranktable.toml", "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a project for ``ranktable validate``; options of a call are stronger.

    Attributes:
        chip: ``--chip``.
        topology: ``--topology``; a file name is relative to the settings.
        select: Codes to report, or their beginnings; all codes if empty.
        ignore: Codes to leave out, or their beginnings.
        max_errors: ``--max-errors``.
    """

    chip: str | None = None
    topology: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_errors: int | None = None


def find_settings(folder: Path) -> Settings:
    """Return the settings of a folder, or of the nearest parent that has some.

    The search ends at the root of a repository.

    Raises:
        CommandError: A file is not TOML, or has an unknown option.
    """
    for place in (folder, *folder.parents):
        for name in (OWN_FILE, SHARED_FILE):
            path = place / name
            if path.is_file():
                found = _table_of(path)
                if found is not None:
                    return _settings(found, path)
        if (place / ".git").exists():
            break
    return Settings()


def _table_of(path: Path) -> dict[str, Any] | None:
    """Return ranktable's table in a file, None if there is none."""
    data = path.read_bytes()
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if path.name == SHARED_FILE and b"tool.ranktable" not in data:
            return None  # it has no settings for ranktable
        is_text = isinstance(error, tomllib.TOMLDecodeError)
        raise CommandError(
            f"{path}: {error if is_text else 'it is not UTF-8'}"
        ) from None
    if path.name == OWN_FILE:
        if isinstance(document.get("tool"), dict) and "ranktable" in document["tool"]:
            raise CommandError(
                f"{path}: the options stand at the top level here, not below "
                f"[tool.ranktable], which is for {SHARED_FILE}"
            )
        return document
    tools = document.get("tool")
    if not isinstance(tools, dict) or "ranktable" not in tools:
        return None
    found = tools["ranktable"]
    if not isinstance(found, dict):
        raise CommandError(f"{path}: tool.ranktable is not a table: [tool.ranktable]")
    return found


def _settings(table: dict[str, Any], path: Path) -> Settings:
    names = {each.name.replace("_", "-"): each.name for each in fields(Settings)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in names:
            raise CommandError(
                f"{path}: {key} is not an option; there are {', '.join(names)}"
            )
        values[names[key]] = _value(key, value, path)
    try:
        check_codes((*values.get("select", ()), *values.get("ignore", ())))
        chips_per_host(values.get("chip"))
    except (CommandError, ValueError) as error:
        raise CommandError(f"{path}: {error}") from None
    if "topology" in values:
        beside = path.parent / values["topology"]
        if beside.is_file():
            values["topology"] = str(beside)
        elif values["topology"] not in {each.name for each in BUILT_IN}:
            raise CommandError(
                f"{path}: topology is {values['topology']!r}, and there is no file "
                f"{beside}"
            )
    return Settings(**values)


def _value(key: str, value: object, path: Path) -> object:
    """Return the value of a setting."""
    if key in ("select", "ignore") and _is_texts(value):
        return tuple(value)  # type: ignore[arg-type]
    if key == "chip" and type(value) in (str, int):
        return str(value)
    if key == "topology" and isinstance(value, str):
        return value
    if key == "max-errors" and type(value) is int and value >= 0:
        return value
    raise CommandError(f"{path}: {key} is {value!r}; write {_EXAMPLES[key]}")


_EXAMPLES = {
    "chip": 'the name of a chip, such as "bm1690", or a number of chips',
    "topology": 'a name or a file, such as "sophgo-8"',
    "select": 'a list of codes, such as ["RT2"]',
    "ignore": 'a list of codes, such as ["RT505"]',
    "max-errors": "a number; 0 shows all",
}


def check_codes(codes: Sequence[str]) -> None:
    """Raise CommandError unless each text is a code or the beginning of one.

    Raises:
        CommandError: One of them is not.
    """
    for code in codes:
        if not (code.startswith("RT") and code[2:].isdigit() and len(code) <= _CODE):
            raise CommandError(f"{code!r} is not a code, such as RT202 or RT2")
        from ranktable.report.catalogue import RULES

        if not any(rule.code.startswith(code) for rule in RULES):
            raise CommandError(f"there is no code that begins with {code}")


_CODE = len("RT202")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def selected(report: Report, settings: Settings) -> Report:
    """Return a report with only the codes that the settings select."""
    ignored = settings.ignore
    if not (settings.select or ignored):
        return report

    def is_wanted(code: str) -> bool:
        is_selected = not settings.select or _is_among(code, settings.select)
        return is_selected and not _is_among(code, ignored)

    kept = report.only(is_wanted)
    ignored_findings = sum(report.counts.values()) - sum(kept.counts.values())
    return replace(kept, num_ignored=ignored_findings)


def _is_among(code: str, beginnings: Sequence[str]) -> bool:
    return any(code.startswith(beginning) for beginning in beginnings)


def site_schema(path: str, limit: int | None) -> SiteSchema:
    """Return the JSON Schema of a site.

    Raises:
        SiteSchemaError: It cannot be used.
    """
    from ranktable.schema.site_schema import read_site_schema  # jsonschema: 50 ms

    return read_site_schema(path, limit=limit)


def judge_by_schema(report: Report, schema: SiteSchema) -> Report:
    """Return a report with the findings of a site's schema added.

    Args:
        report: The report of a table. A file whose name ends in .yaml or .yml is judged
            as a cluster spec instead.
        schema: The schema.

    Raises:
        SiteSchemaError: The schema cannot be used.
    """
    if _is_yaml(report.file) and report.data is not None:
        from ranktable.cluster.specs.read_spec import read_spec

        report = read_spec(report.data, file=report.file, limit=schema.limit).report
    return schema.added_to(report, _document(report))


def _is_yaml(name: str) -> bool:
    """Whether a file is a cluster spec, by its name."""
    return name.endswith(_YAML_NAMES)


def _document(report: Report) -> Document | None:
    """Return the document to judge, None if the text could not be read."""
    if report.text is None:
        return None
    if _is_yaml(report.file):
        from ranktable.schema.yaml_parser import parse_yaml

        documents, _ = parse_yaml(report.text)
        return documents[0] if documents else None
    parsed = parse(report.text)
    return (
        Document(text=report.text, data=parsed[0])
        if isinstance(parsed, tuple)
        else None
    )
