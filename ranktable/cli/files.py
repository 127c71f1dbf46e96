"""The FILE argument: a path, ``-`` for standard input, else ``$RANK_TABLE_FILE``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from ranktable.cli.failure import DEFECTS_FOUND, CommandError
from ranktable.runtime.table import VARIABLE
from ranktable.schema.check import check_bytes, check_path, report_unreadable
from ranktable.schema.diagnostic import Options, RankTableError
from ranktable.schema.files import (
    DEFAULT_MAX_SIZE_BYTES,
    UnreadableError,
    read_stream,
)

if TYPE_CHECKING:
    from ranktable.schema.check_report import Report
    from ranktable.schema.model import RankTable

STANDARD_INPUT = "-"
STANDARD_INPUT_NAME = "<stdin>"
DEFAULT_MAX_ERRORS = 20
MIB = 1024 * 1024
FILE_HELP = "Rank table, or - for standard input; by default $RANK_TABLE_FILE."


class TableFile(NamedTuple):
    """A table that was read.

    Attributes:
        name: Name of its file.
        table: The table.
        data: The bytes of the file, with which it is compared before it is replaced.
    """

    name: str
    table: RankTable
    data: bytes


def named_file(file: str | None) -> str:
    """Return the argument, else ``$RANK_TABLE_FILE``.

    Raises:
        CommandError: There is neither.
    """
    if file:
        return file
    name = os.environ.get(VARIABLE, "")
    if not name:
        raise CommandError(f"no FILE is given, and {VARIABLE} is not set")
    # "-" means standard input as an argument only.
    return os.path.join(".", name) if name == STANDARD_INPUT else name  # noqa: PTH118


def check_file(file: str, options: Options) -> Report:
    """Judge a file or standard input."""
    if file != STANDARD_INPUT:
        return check_path(file, options)
    try:
        data = read_stream(sys.stdin.buffer, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=STANDARD_INPUT_NAME)
    return check_bytes(data, options, file=STANDARD_INPUT_NAME)


def sound_table(file: str | None) -> TableFile:
    """Return a file and its table.

    Raises:
        CommandError: The table has errors; the message is their concise form.
    """
    report = check_file(
        named_file(file), Options(limit=5, max_size_bytes=DEFAULT_MAX_SIZE_BYTES)
    )
    return TableFile(report.file, table_in(report), report.data or b"")


def table_in(report: Report) -> RankTable:
    """Return the table of a report.

    Raises:
        CommandError: It has errors; the message is their concise form.
    """
    try:
        return report.sound_table()
    except RankTableError as error:
        status = 2 if report.is_unreadable else DEFECTS_FOUND
        raise CommandError(f"the table is not sound\n{error}", status) from None
