"""``ranktable digest``: whether two files have the same content."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli.output import write, write_json
from ranktable.cli.parameters import FILE_HELP, OutputFormatOption
from ranktable.cli.table_input import sound_table
from ranktable.schema.text import printable


def digest(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help=FILE_HELP)
    ] = None,
    format: OutputFormatOption = "text",
) -> None:
    """Print the SHA-256 of the content of a table.

    It is the same for every formatting of this content.

    White space, the order of keys, numbers written as strings, and rank or world_rank
    make no difference.

    Example: ranktable digest sccl_rank_table.json
    """
    reads = [sound_table(file) for file in files or (None,)]
    found = [{"file": read.name, "digest": read.table.digest()} for read in reads]
    if format == "json":
        write_json(found)
    else:
        write(f"{item['digest']}  {printable(item['file'])}\n" for item in found)
