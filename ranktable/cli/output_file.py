"""Where a generated table goes: an option, else ``$RANK_TABLE_FILE``, else a name."""

from __future__ import annotations

import os

from ranktable.cli.failure import CommandError

DEFAULT_FILE = "sccl_rank_table.json"
"""In the working folder, as the vendor's generator has it."""


def output_file(option: str | None = None) -> str:
    """Return the path to write to.

    Raises:
        CommandError: It names a folder, or is in a folder that does not exist.
    """
    path = option or os.environ.get("RANK_TABLE_FILE") or DEFAULT_FILE
    folder, name = os.path.split(path)
    if not name:
        raise CommandError(f"{path} names a folder, not a file")
    if folder and not os.path.isdir(folder):  # noqa: PTH112 - any name, no Path needed
        raise CommandError(f"the folder {folder} does not exist; create it first")
    return path
