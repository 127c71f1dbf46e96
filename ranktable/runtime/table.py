"""Read the rank table in a training process: its chip_map, or why there is none.

A table that is certainly sound takes the fast path. Otherwise all checks are imported,
so that the exception says what is wrong and where.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ranktable.schema.fast_decode import read_sound
from ranktable.schema.files import UnreadableError, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "RANK_TABLE_FILE"
"""The variable with the file of the rank table; SCCL and HCCL read the same one."""


def read_rank_table(
    path: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> list[int]:
    """Return the chip_map of a rank table: ``chip_map[rank]`` for the whole job.

    Args:
        path: The file; by default ``$RANK_TABLE_FILE``.
        env: Environment to use instead of ``os.environ``.

    Returns:
        ``device_id`` of every rank; length world_size.

    Raises:
        RankTableError: No file is named, it cannot be read, or it has an error.
    """
    name = find_table(path, env)
    try:
        data = read_file(name)
    except UnreadableError as error:
        from ranktable.schema.check import report_unreadable

        return report_unreadable(error, file=name).sound_table().chip_map
    columns = read_sound(data)
    return _read_any(name, data) if columns is None else columns.chip_map()


def _read_any(name: str, data: bytes) -> list[int]:
    """Return the chip_map after all checks, or raise the errors."""
    from ranktable.schema.check import check
    from ranktable.schema.diagnostic import Location, RankTableError

    # Every process of the job finds the same errors, so none lists all of them.
    report = check(data, file=name, limit=RankTableError.SHOWN)
    table = report.sound_table()
    if not table.has_global_ranks:
        from ranktable.schema.rules.records import no_global_ranks

        finding = no_global_ranks(table.format)
        raise RankTableError([finding.diagnostic(Location(file=name))])
    return table.chip_map


def is_rank_table_valid(
    path: str | os.PathLike[str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> bool:
    """Whether there is a rank table and it is sound; never raises, never prints.

    Args:
        path: The file; by default ``$RANK_TABLE_FILE``.
        env: Environment to use instead of ``os.environ``.
    """
    try:
        read_rank_table(path, env=env)
    except Exception:  # noqa: BLE001 - the promise is that it never raises
        return False
    return True


def find_table(
    path: str | os.PathLike[str] | None, env: Mapping[str, str] | None
) -> str:
    """Return the path of the rank table: the argument, else ``$RANK_TABLE_FILE``.

    Raises:
        RankTableError: Neither is given; an empty variable counts as unset.
    """
    if path is not None:
        return os.fsdecode(path)
    name = (os.environ if env is None else env).get(VARIABLE, "")
    if name:
        return name
    from ranktable.runtime.rules import no_table_named

    raise no_table_named(VARIABLE)
