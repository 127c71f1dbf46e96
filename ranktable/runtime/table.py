"""Read the rank table in a training process: its chip_map, or why there is none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ranktable.schema.check import check_path
from ranktable.schema.finding import RankTableError
from ranktable.schema.report import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "RANK_TABLE_FILE"
"""The variable with the file of the rank table; SCCL and HCCL read the same one."""

REMOVED_AT_END = "RANKTABLE_REMOVED_AT_END"
"""The variable in which ``run`` names a table that it has written for its processes."""

TIMEOUT_S = "RANKTABLE_TIMEOUT_S"
"""The variable with the seconds for which ``run`` waits for nodes."""

# Every process of the job finds the same errors, so none lists all of them.
_OPTIONS = Options(limit=RankTableError.SHOWN, is_table_wanted=True)


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
    report = check_path(find_table(path, env), _OPTIONS)
    if report.ok and report.columns is not None:
        return report.columns.chip_map()
    return report.sound_table().chip_map


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
