"""``ranktable digest``: whether two files have the same content."""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from typing import Annotated

import typer

from ranktable.cli.output import CommandError, OutputFormat, write, write_json
from ranktable.cli.parameters import OutputFormatOption
from ranktable.cli.table_input import FILE_HELP, TableFile, sound_table
from ranktable.schema.diagnostic import printable

_PARSED = ("hccl-1.0", "hccl-1.1", "hccl-1.2", "hccl-lab", "hccl-cloud")
_AS_BYTES = ("hccl-2.0",)


class Sense(str, Enum):
    """Which comparison the digest is for."""

    HCCL = "hccl"


def digest(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help=FILE_HELP)
    ] = None,
    as_: Annotated[
        Sense | None,
        typer.Option(
            "--as",
            help="hccl: the digest of what HCCL compares: for 1.x the parsed text with "
            "sorted keys, for 2.0 the bytes.",
            show_default="what the table says",
        ),
    ] = None,
    format: OutputFormatOption = OutputFormat.TEXT,
) -> None:
    """Print the SHA-256 of the content of a table, whatever its formatting.

    White space, the order of keys, numbers written as strings, and rank or world_rank
    make no difference.

    Example: ranktable digest sccl_rank_table.json
    """
    found = []
    for file in files or (None,):
        read = sound_table(file, needs_ranks=False)
        text = read.table.digest() if as_ is None else _as_hccl(read)
        found.append({"file": read.name, "digest": text})
    if format is OutputFormat.JSON:
        write_json(found)
    else:
        write(f"{item['digest']}  {printable(item['file'])}\n" for item in found)


def _as_hccl(read: TableFile) -> str:
    """Return the digest of the content that HCCL compares.

    Raises:
        CommandError: HCCL does not read this format.
    """
    wrapper = read.table.wrapper
    data = read.data if wrapper is None else wrapper.inner.encode()
    found = hccl_digest(read.table.format, data)
    if found is None:
        raise CommandError(
            f"{read.name}: HCCL does not read format {read.table.format}"
        )
    return found


def hccl_digest(format_name: str, data: bytes) -> str | None:
    """Return the SHA-256 of what HCCL compares, None if it does not read the format.

    For version 1.x this is the parsed text with sorted keys and without blanks. For
    version 2.0 it is the bytes of the file, so formatting matters. HCCL itself compares
    a checksum of the same text.

    Source: HCCL's rank consistency checker, and ``rank_table_crc_bridge.cc``.
    """
    if format_name in _AS_BYTES:
        return hashlib.sha256(data).hexdigest()
    if format_name not in _PARSED:
        return None
    parsed = json.loads(data.decode("utf-8-sig"))
    text = json.dumps(parsed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
