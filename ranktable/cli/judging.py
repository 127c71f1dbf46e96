"""What ``ranktable validate`` judges: every kind of file that ranktable reads."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cli import CommandError
from ranktable.cli.files import STANDARD_INPUT, STANDARD_INPUT_NAME
from ranktable.cluster.argument import ArgumentError
from ranktable.schema.check import check_bytes, report_unreadable
from ranktable.schema.diagnostic import RankTableError, Report, Severity
from ranktable.schema.files import UnreadableError, read_file, read_stream
from ranktable.schema.format import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.hostfiles.hostfile import LauncherFormat
    from ranktable.schema.diagnostic import Options

_SPEC_NAME = "cluster-spec"
LOOKED_AT_BYTES = 1 << 16
"""How much of a file is looked at to tell what it is."""

_TABLE = re.compile(rb'"(?:node|server|super_pod|rank)_list"')
_SPEC = tuple(
    re.compile(rb"(?m:^|[{,][ \t]*(?=\"))\"?" + key + rb"\"?[ \t]*:")
    for key in (b"nodes", b"chips")
)
_LINKS = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:\[[\[ \t\n]*)?-?[0-9]+[ \t,]")
_SPEC_NAMES = (".yaml", ".yml", ".json")
_KNOWN_NAMES = ("*hostfile*", "*rankfile*", "*machinefile*")
_KNOWN_ENDINGS = ("", ".txt", ".conf", ".cfg", ".hosts")


def judge_file(name: str, options: Options, kind: str | None = None) -> Report:
    """Judge a file, or standard input.

    Args:
        name: The file.
        options: How tables are judged.
        kind: Name of its format, or the beginning of one; by default its content tells.

    Raises:
        CommandError: There is no such format.
    """
    shown = STANDARD_INPUT_NAME if name == STANDARD_INPUT else name
    named = None if kind in (None, _SPEC_NAME) else _format_of(str(kind))
    try:
        if name == STANDARD_INPUT:
            data = read_stream(sys.stdin.buffer, options.max_size_bytes)
        else:
            data = read_file(name, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=shown)
    start = data[:LOOKED_AT_BYTES]
    if named is not None:
        return _report_of(named, data, shown, options)
    if kind is None and _is_table(start):
        return check_bytes(data, options, file=shown)
    if kind is not None or _is_spec(start):
        from ranktable.cluster.specs.read_spec import read_spec  # noqa: PLC0415 - rare

        return read_spec(data, file=shown, limit=options.limit).report
    if _LINKS.match(start) and name != STANDARD_INPUT:
        return _links_report(name)
    return _launcher_report(data, shown, options) or check_bytes(
        data, options, file=shown
    )


def _format_of(kind: str) -> LauncherFormat | Format:
    from ranktable.cluster.hostfiles.launcher_formats import (  # noqa: PLC0415 - rare
        any_format_of,
    )

    try:
        return any_format_of(kind)
    except ArgumentError as error:
        raise CommandError(f"--from: {error}") from None


def _report_of(
    kind: LauncherFormat | Format, data: bytes, name: str, options: Options
) -> Report:
    """Return the report of a file whose format is named."""
    from ranktable.cluster.hostfiles.launcher_formats import (  # noqa: PLC0415 - rare
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
    return all(key.search(start) for key in _SPEC)


def _links_report(name: str) -> Report:
    """Return the report of a file with the links of a host's chips."""
    from ranktable.schema.topology_file import find_topology  # noqa: PLC0415 - rare

    try:
        find_topology(name)
    except RankTableError as error:
        return Report(
            file=name,
            diagnostics=error.diagnostics,
            totals={each.code: 1 for each in error.diagnostics},
            by_severity={Severity.ERROR: len(error.diagnostics)},
            format="topology",
            text="",
        )
    return Report(file=name, format="topology", text="")


def _launcher_report(data: bytes, name: str, options: Options) -> Report | None:
    """Return the report of what a launcher or a scheduler reads, None for others."""
    from ranktable.cluster.hccn_conf import (  # noqa: PLC0415 - rare
        is_hccn_conf,
        judge_hccn_conf,
    )
    from ranktable.cluster.hostfiles.launcher_formats import (  # noqa: PLC0415 - rare
        detect_formats,
        read_hostfile,
    )
    from ranktable.layout.topologies.reading import (  # noqa: PLC0415
        TOPOLOGY_FORMATS,
        read_topology,
    )

    text = data[:LOOKED_AT_BYTES].decode("utf-8", "replace")
    if is_hccn_conf(text):
        return judge_hccn_conf(data, file=name, limit=options.limit)
    formats = detect_formats(data)
    if formats:
        return read_hostfile(data, formats[0], file=name, limit=options.limit).report
    if any(kind.is_known_by(text) for kind in TOPOLOGY_FORMATS[:-1]):
        return read_topology(data, file=name, limit=options.limit)[0]
    return None


def named_files(names: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """Return the files to judge; a folder stands for what it holds, if that is ours.

    Raises:
        CommandError: The one folder that is named holds nothing to judge.
    """
    found: list[str] = []
    for name in names:
        if name == STANDARD_INPUT or not os.path.isdir(name):  # noqa: PTH112 - any name
            found.append(name)
            continue
        held = [path for path in _files_below(name, exclude) if _is_ours(path)]
        if not held and len(names) == 1:
            raise CommandError(f"{name} holds no table, spec or host file")
        found += held or [name]
    return found


def _files_below(folder: str, exclude: Sequence[str]) -> Iterator[str]:
    """Yield the files of a folder, without hidden folders and those to leave out."""
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and not is_like(f"{path}/{name}", exclude)
        )
        for name in sorted(files):
            file = os.path.join(path, name)  # noqa: PTH118 - any name, no Path needed
            if not is_like(file, exclude):
                yield file


def is_like(path: str, patterns: Sequence[str]) -> bool:
    """Whether an absolute pattern matches a path, or another one its last part."""
    whole, name = os.path.abspath(path), Path(path).name  # noqa: PTH100 - no links
    return any(fnmatch(whole, each) or fnmatch(name, each) for each in patterns)


def _is_ours(path: str) -> bool:
    """Whether a file of a folder is one of ours, by its content."""
    name = Path(path).name
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:  # noqa: PTH123 - one part of it
        start = file.read(LOOKED_AT_BYTES)
    if _is_table(start) or (name.endswith(_SPEC_NAMES) and _is_spec(start)):
        return True
    if name in ("topology.conf", "hccn.conf"):
        return True
    ending = Path(name).suffix
    return (ending in _KNOWN_ENDINGS or ending[1:].isdigit()) and any(
        fnmatch(name, pattern) for pattern in _KNOWN_NAMES
    )
