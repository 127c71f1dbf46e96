"""Judge a file of any kind that ranktable reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cli.sources import (
    LOOKED_AT_BYTES,
    looks_like_table,
    read_source,
    shown_name,
)
from ranktable.schema.check import check_bytes, check_each, report_unreadable
from ranktable.schema.files import UnreadableError

if TYPE_CHECKING:
    from ranktable.schema.report import Options, Report


def check_file(file: str, options: Options) -> Report:
    """Judge a file, or standard input, as a rank table."""
    try:
        source = read_source(file, options.max_size_bytes)
    except UnreadableError as error:
        return report_unreadable(error, file=shown_name(file))
    return check_bytes(source.data, options, file=source.name)


def judge_file(file: str, options: Options, kind: str | None = None) -> list[Report]:
    """Judge a file, or standard input, and every table in a ConfigMap.

    Args:
        file: The file.
        options: The options of the check.
        kind: Name of its format, or a beginning of it; None to detect the format.

    Raises:
        CommandError: There is no such format.
    """
    if kind is not None:
        from ranktable.cli.file_kinds import judge_as  # 40 ms

        return [judge_as(kind, file, options)]
    try:
        source = read_source(file, options.max_size_bytes)
    except UnreadableError as error:
        return [report_unreadable(error, file=shown_name(file))]
    if looks_like_table(source.data[:LOOKED_AT_BYTES]):
        return check_each(source.data, options, file=source.name)
    from ranktable.cli.file_kinds import judge_by_kind

    return judge_by_kind(source, options)
