"""``ranktable digest``: whether two files say the same."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli.files import FILE_HELP, sound_table
from ranktable.cli.output import write
from ranktable.schema.wording import printable


def digest(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help=FILE_HELP)
    ] = None,
) -> None:
    """Print the SHA-256 of what a table says, whatever its formatting.

    Tables that differ only in blanks, the order of keys, strings or integers, or in
    rank against world_rank have the same digest.

    Example: ranktable digest sccl_rank_table.json
    """
    for file in files or (None,):
        name, table = sound_table(file)
        write([f"{table.digest()}  {printable(name)}\n"])
