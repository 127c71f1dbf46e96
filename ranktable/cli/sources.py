"""The files that a command reads: named ones, standard input, and those of folders."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cli.output import DEFAULT_FILE, CommandError
from ranktable.runtime.table import VARIABLE
from ranktable.schema.check import (
    TABLE,
    check_bytes,
    check_each,
    is_manifest,
    report_unreadable,
)
from ranktable.schema.file_kind import DESCRIPTIONS, LOOKED_AT_BYTES, Source
from ranktable.schema.files import (
    DEFAULT_MAX_SIZE_BYTES,
    UnreadableError,
    read_file,
    read_stream,
)
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.schema.file_kind import FileKind
    from ranktable.schema.report import Options, Report

STANDARD_INPUT: Final = "-"
STANDARD_INPUT_NAME: Final = "<stdin>"
MIB: Final = 1024 * 1024
NOTHING_HELD: Final = "holds no table, spec or host file"

_ALREADY_READ: Final[set[str]] = set()
"""Has ``-`` once standard input was read: a second reading would find it empty."""


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


def named_file(
    file: str | None, *, may_be_input: bool = True, may_be_here: bool = False
) -> str:
    """Return the argument, or ``$RANK_TABLE_FILE`` if it is None.

    Args:
        file: The argument.
        may_be_input: Whether the command accepts ``-``, so that the error names it.
        may_be_here: Whether the table that ``gen`` writes into this folder is taken
            if neither is given. Standard error names it.

    Raises:
        CommandError: Nothing is named, and no table is taken.
    """
    if file:
        return file
    name = os.environ.get(VARIABLE, "")
    if not name and may_be_here and os.path.isfile(DEFAULT_FILE):
        sys.stderr.write(f"no FILE is given; reading {DEFAULT_FILE} here\n")
        return DEFAULT_FILE
    if not name:
        how = "\nhelp: name a file, or - for standard input" if may_be_input else ""
        here = f", and {DEFAULT_FILE} is not here" if may_be_here else ""
        link = "," if here else ", and"
        raise CommandError(f"no FILE is given{link} {VARIABLE} is not set{here}{how}")
    # "-" means standard input as an argument only.
    return os.path.join(".", name) if name == STANDARD_INPUT else name


class OtherKindError(CommandError):
    """A file is of another kind than a command needs; the text says what to do."""

    def __init__(self, kind: FileKind, source: Source) -> None:
        """Store the kind and the file, for a command that shows other kinds too."""
        self.kind, self.source = kind, source
        name = printable(source.name)
        help_ = f"\nhelp: {kind.advice.format(file=name)}" if kind.advice else ""
        super().__init__(f"{name} is {kind.title}, and a rank table is needed{help_}")


class NamedFile(NamedTuple):
    """A file that an argument stands for.

    Attributes:
        name: Its name.
        kind: Its kind by its name, or by its content if it is not sure; None for a file
            that was named itself, or that cannot be read.
        is_sure: Whether it is judged whatever it holds; otherwise only what looked at
            first like a kind is in it.
    """

    name: str
    kind: FileKind | None = None
    is_sure: bool = True


class NamedFiles(NamedTuple):
    """The files for some arguments.

    Attributes:
        found: The named files, and those of named folders that are of a known kind.
        skipped: The other files of these folders.
    """

    found: list[NamedFile]
    skipped: list[str]


def files_of(names: Sequence[str]) -> NamedFiles:
    """Return the files for arguments; a folder stands for the known files in it.

    A file of a folder is known by its name, even if it is empty or damaged, or by its
    content. Hidden folders are left out.

    Raises:
        CommandError: The only named folder has no known file, or standard input is
            named twice.
    """
    if "" in names:
        raise CommandError("FILE: the name is empty")
    if names.count(STANDARD_INPUT) > 1:
        raise CommandError("standard input can be read once")
    found: list[NamedFile] = []
    skipped: list[str] = []
    for name in names:
        if name == STANDARD_INPUT or not os.path.isdir(name):
            found.append(NamedFile(name))
            continue
        held = [_plain_name(path) for path in _files_below(name)]
        known = [file for file in map(_known, held) if file is not None]
        if not known and len(names) == 1:
            raise CommandError(f"{name} {NOTHING_HELD}")
        found += known or [NamedFile(name)]
        there = {file.name for file in known}
        skipped += [path for path in held if path not in there]
    once: dict[str, NamedFile] = {}
    for file in found:  # a file may also be in a named folder
        once.setdefault(_place_of(file.name), file)
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


def _known(path: str) -> NamedFile | None:
    """Return a file of a folder with its kind, None if it is of no known kind."""
    from ranktable.cli.kinds import kind_among, kind_named, read_start

    kind = kind_named(path)
    if kind is not None or os.path.isdir(path):
        return NamedFile(path, kind)
    try:
        start = read_start(path)
    except OSError:
        # It is reported with its code.
        return NamedFile(path) if path.endswith(DESCRIPTIONS) else None
    kind = kind_among(start, path)
    return None if kind is None else NamedFile(path, kind, is_sure=not kind.is_part)


def check_file(file: str, options: Options) -> Report:
    """Judge a file, standard input, or ``FILE#KEY`` of a ConfigMap as a rank table.

    Raises:
        OtherKindError: It is clearly of another kind.
        CommandError: The ConfigMap has no table under the key.
    """
    try:
        source = read_source(file, options.max_size_bytes)
    except UnreadableError as error:
        inner = _under_key(file, options)
        return inner or report_unreadable(error, file=shown_name(file))
    if not TABLE.detect(source.data[:LOOKED_AT_BYTES], source.name):
        refuse_other_kind(source)
    return check_bytes(source.data, options, file=source.name)


def _under_key(name: str, options: Options) -> Report | None:
    """Return the report of ``FILE#KEY``, None if FILE is no ConfigMap.

    Raises:
        CommandError: The ConfigMap has no table under the key.
    """
    file, _, key = name.rpartition("#")
    if not key or not os.path.isfile(file):
        return None
    data = read_input(file, options.max_size_bytes).data
    if not is_manifest(data):
        return None
    reports = check_each(data, options, file=file)
    keys = [report.key for report in reports]
    if key in keys:
        return reports[keys.index(key)]
    if not any(keys):
        return reports[0]  # why nothing can be taken out of it
    raise CommandError(
        f"{printable(file)} has no table under the key {printable(key)}\n"
        f"help: it has {', '.join(map(printable, keys))}"
    )


def refuse_other_kind(source: Source) -> None:
    """Raise CommandError for a file that is clearly no rank table.

    Raises:
        OtherKindError: It is of another kind.
    """
    from ranktable.cli.kinds import (
        CONFIG_MAP,
        is_script,
        kinds_like,
        reason_not_judged,
    )

    kind = next(kinds_like(source), None)
    if kind is not None and kind is not CONFIG_MAP:
        raise OtherKindError(kind, source)
    reason = reason_not_judged(source)
    if reason is not None:
        is_one = "is a script, and a rank table is needed"
        what = is_one if is_script(source) else "is not a rank table"
        raise CommandError(f"{printable(source.name)} {what}\nhelp: {reason}")
