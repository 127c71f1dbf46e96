"""``ranktable digest``: whether two files say the same."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ranktable.cli.files import FILE_HELP, sound_table
from ranktable.cli.output import OutputFormat, write
from ranktable.schema.messages import printable


def digest(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help=FILE_HELP)
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        OutputFormat, typer.Option(help="Form of the output.")
    ] = OutputFormat.TEXT,
) -> None:
    """Print the SHA-256 of what a table says, whatever its formatting.

    Tables that differ only in blanks, the order of keys, strings or integers, or in
    rank against world_rank have the same digest.

    Example: ranktable digest sccl_rank_table.json
    """
    found = []
    for file in files or (None,):
        name, table, _ = sound_table(file, needs_ranks=False)
        found.append({"file": name, "digest": table.digest()})
    if format is OutputFormat.JSON:
        write([json.dumps(found, indent=2) + "\n"])
    else:
        write(f"{item['digest']}  {printable(item['file'])}\n" for item in found)
