"""The files that a command reads: named ones, standard input, and those of folders."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cli.output import CommandError
from ranktable.runtime.table import VARIABLE
from ranktable.schema.check import check_bytes, report_unreadable
from ranktable.schema.files import (
    DEFAULT_MAX_SIZE_BYTES,
    UnreadableError,
    read_file,
    read_stream,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.schema.report import Options, Report

STANDARD_INPUT: Final = "-"
STANDARD_INPUT_NAME: Final = "<stdin>"
MIB: Final = 1024 * 1024

TABLE_NAMES: Final = ("*rank_table*.json", "*ranktable*.json", "*hccl*.json")
"""Names of rank tables; the hooks and the settings of editors have the same."""

SPEC_NAMES: Final = (
    *("cluster.yaml", "cluster.yml", "cluster-spec.yaml", "cluster-spec.yml"),
)
"""Names of cluster specs, likewise."""

_HOSTFILE_NAMES = ("*hostfile*", "*rankfile*", "*machinefile*")
_HOSTFILE_ENDINGS = re.compile(r"(?:\.(?:txt|conf|cfg|hosts|[0-9]+))?")
_OTHER_NAMES = ("topology.conf", "hccn.conf")
_DESCRIPTIONS = (".yaml", ".yml", ".json")

LOOKED_AT_BYTES: Final = 1 << 16
"""Bytes of a file that are examined to detect its kind."""

_TABLE = re.compile(rb"""["'](?:node|server|super_pod|rank)_list["']""")
_SPEC = tuple(
    re.compile(rb"(?m:^|[{,][ \t]*(?=\"))\"?" + key + rb"\"?[ \t]*:")
    for key in (b"nodes", b"chips")
)
_CONFIG_MAP = re.compile(rb"""\bkind["']?\s*:\s*["']?ConfigMap\b""")
_PROBE = b'{"probe"'


_ALREADY_READ: Final[set[str]] = set()
"""Has ``-`` once standard input was read: a second reading would find it empty."""


class Source(NamedTuple):
    """What was read, and the name for it in messages."""

    name: str
    data: bytes


def read_source(file: str, max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES) -> Source:
    """Return what a file holds, or standard input for ``-``.

    Args:
        file: The argument.
        max_size_bytes: Most bytes to read.

    Raises:
        UnreadableError: It cannot be read.
        CommandError: Standard input was read before.
    """
    if file != STANDARD_INPUT:
        _refuse_unreadable_folder(file)
        return Source(file, read_file(file, max_size_bytes))
    if STANDARD_INPUT in _ALREADY_READ:
        raise CommandError("standard input can be read once")
    _ALREADY_READ.add(STANDARD_INPUT)
    return Source(STANDARD_INPUT_NAME, read_stream(sys.stdin.buffer, max_size_bytes))


def _refuse_unreadable_folder(name: str) -> None:
    try:
        if os.path.isdir(name):
            os.listdir(name)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        message = f"the folder cannot be read: {reason}"
        raise UnreadableError("RT002", message) from None


def read_input(file: str, max_size_bytes: int = DEFAULT_MAX_SIZE_BYTES) -> Source:
    """Return what a file or standard input holds, for a command that needs it.

    Raises:
        CommandError: It cannot be read.
    """
    try:
        return read_source(file, max_size_bytes)
    except UnreadableError as error:
        name = shown_name(file)
        raise CommandError(f"{name}: {error.code} {error.message}") from None


def shown_name(file: str) -> str:
    """Return the name of a file or of standard input for messages."""
    return STANDARD_INPUT_NAME if file == STANDARD_INPUT else file


def named_file(file: str | None, *, may_be_input: bool = True) -> str:
    """Return the argument, or ``$RANK_TABLE_FILE`` if it is None.

    Args:
        file: The argument.
        may_be_input: Whether the command accepts ``-``, so that the error names it.

    Raises:
        CommandError: Both are missing.
    """
    if file:
        return file
    name = os.environ.get(VARIABLE, "")
    if not name:
        how = "\nhelp: name a file, or - for standard input" if may_be_input else ""
        raise CommandError(f"no FILE is given, and {VARIABLE} is not set{how}")
    # "-" means standard input as an argument only.
    return os.path.join(".", name) if name == STANDARD_INPUT else name


class NamedFiles(NamedTuple):
    """The files for some arguments.

    Attributes:
        found: The named files, and those of named folders that are of a known kind.
        skipped: The other files of these folders.
    """

    found: list[str]
    skipped: list[str]


def files_of(names: Sequence[str]) -> NamedFiles:
    """Return the files for arguments; a folder stands for the known files in it.

    A file of a folder is known by its name, even if it is empty or damaged, or by its
    content. Hidden folders are left out.

    Raises:
        CommandError: The only named folder has no known file, or standard input is
            named twice.
    """
    if names.count(STANDARD_INPUT) > 1:
        raise CommandError("standard input can be read once")
    found: list[str] = []
    skipped: list[str] = []
    for name in names:
        if name == STANDARD_INPUT or not os.path.isdir(name):
            found.append(name)
            continue
        held = [_plain_name(path) for path in _files_below(name)]
        known = [path for path in held if _is_known(path)]
        if not known and len(names) == 1:
            raise CommandError(f"{name} holds no table, spec or host file")
        found += known or [name]
        skipped += [path for path in held if path not in set(known)]
    once: dict[str, str] = {}
    for name in found:  # a file may also be in a named folder
        once.setdefault(_place_of(name), name)
    return NamedFiles(list(once.values()), skipped)


def _place_of(name: str) -> str:
    """Return where a file is, however its folder is written."""
    if name == STANDARD_INPUT:
        return name
    folder, last = os.path.split(name)
    return os.path.join(os.path.realpath(folder), last)


def _files_below(folder: str) -> Iterator[str]:
    """Yield the files of a folder, then the folders that cannot be read."""
    unreadable: list[str] = []
    walk = os.walk(folder, onerror=lambda error: unreadable.append(error.filename))
    for path, folders, files in walk:
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = os.path.join(path, name)
            with suppress(PermissionError):
                if not Path(file).is_file():
                    continue
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


def _is_known(path: str) -> bool:
    """Whether a file is of a known kind by its name or its content."""
    name = os.path.basename(path)
    if os.path.isdir(path) or _is_known_name(name):
        return True
    try:
        with open(path, "rb") as file:
            start = file.read(LOOKED_AT_BYTES)
    except OSError:
        return name.endswith(_DESCRIPTIONS)  # reported with its code
    if looks_like_table(start) or start.startswith(_PROBE):
        return True
    is_description = looks_like_spec(start) or (
        _CONFIG_MAP.search(start) and _TABLE.search(start.replace(b"\\", b""))
    )
    return name.endswith(_DESCRIPTIONS) and bool(is_description)


def _is_known_name(name: str) -> bool:
    names = (*TABLE_NAMES, *SPEC_NAMES, *_OTHER_NAMES)
    if any(fnmatch(name, pattern) for pattern in names):
        return True
    stem, dot, ending = name.partition(".")
    return _HOSTFILE_ENDINGS.fullmatch(dot + ending) is not None and any(
        fnmatch(stem, pattern) for pattern in _HOSTFILE_NAMES
    )


def looks_like_table(start: bytes) -> bool:
    """Whether the beginning of a file is that of a rank table, perhaps a damaged one.

    It may be a dictionary of Python, or encoded as UTF-16.
    """
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        start = start[2:].replace(b"\0", b"")
    is_object = start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
    return is_object and _TABLE.search(start) is not None


def looks_like_spec(start: bytes) -> bool:
    """Whether the beginning of a file is that of a cluster spec."""
    is_script = start.startswith(b"#!")  # it may contain a spec: templates/jobs
    return not is_script and all(key.search(start) for key in _SPEC)


def check_file(file: str, options: Options) -> Report:
    """Judge a file, or standard input, as a rank table."""
    try:
        source = read_source(file, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=shown_name(file))
    return check_bytes(source.data, options, file=source.name)
