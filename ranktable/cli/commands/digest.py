"""``ranktable digest``: whether two files say the same."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from ranktable.cli import CommandError, OutputFormat, write
from ranktable.cli.files import FILE_HELP, TableFile, sound_table
from ranktable.schema.diagnostic import printable
from ranktable.schema.vendor_digest import hccl_digest


class Sense(str, Enum):
    """Who compares."""

    HCCL = "hccl"


def digest(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help=FILE_HELP)
    ] = None,
    as_: Annotated[
        Sense | None,
        typer.Option(
            "--as",
            help="hccl: of what HCCL compares, the parsed text of 1.x with sorted "
            "keys, the bytes of 2.0.",
            show_default="what the table says",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        OutputFormat, typer.Option(help="Form of the output.")
    ] = OutputFormat.TEXT,
) -> None:
    """Print the SHA-256 of the content of a table, whatever its formatting.

    Tables that differ only in blanks, the order of keys, strings or integers, or in
    rank against world_rank have the same digest.

    Example: ranktable digest sccl_rank_table.json
    """
    found = []
    for file in files or (None,):
        read = sound_table(file, needs_ranks=False)
        text = read.table.digest() if as_ is None else _as_hccl(read)
        found.append({"file": read.name, "digest": text})
    if format is OutputFormat.JSON:
        write([json.dumps(found, indent=2) + "\n"])
    else:
        write(f"{item['digest']}  {printable(item['file'])}\n" for item in found)


def _as_hccl(read: TableFile) -> str:
    """Return the digest of what HCCL compares.

    Raises:
        CommandError: HCCL reads no such file.
    """
    wrapper = read.table.wrapper
    data = read.data if wrapper is None else wrapper.inner.encode()
    found = hccl_digest(read.table.format, data)
    if found is None:
        raise CommandError(
            f"{read.name}: HCCL does not read format {read.table.format}"
        )
    return found
