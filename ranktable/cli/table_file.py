"""The file of a table that a command has made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cli.failure import CommandError
from ranktable.cli.output import write
from ranktable.cli.output_file import output_file
from ranktable.schema.messages import counted, printable

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable

STANDARD_OUTPUT = "-"


def put_table(
    output: str | None, table: RankTable, data: bytes, *, force: bool
) -> None:
    """Print a table, or write it to its file and say so on standard error.

    Raises:
        CommandError: The file holds another table, and that is not to be replaced.
    """
    if output == STANDARD_OUTPUT:
        write([data.decode()])
        return
    name = output_file(output)
    done = _write(name, table, data, force=force)
    nodes = counted(len(table.nodes), "node")
    ranks = counted(table.world_size, "rank")
    sys.stderr.write(f"{done} {printable(name)}: {nodes}, {ranks}\n")


def _write(name: str, table: RankTable, data: bytes, *, force: bool) -> str:
    """Write the file unless it holds another table; return what was done."""
    from ranktable.schema.check import check  # noqa: PLC0415 - not for --help
    from ranktable.schema.writing import replace_file  # noqa: PLC0415

    path = Path(name)
    if path.is_file() and not force:
        if path.read_bytes() == data:
            return "unchanged"
        there = check(path).table
        if there is None or there.digest() != table.digest():
            what = "a different table" if there else "something else"
            raise CommandError(
                f"{name} holds {what}; --force replaces it, --output names another"
            )
    replace_file(name, data)
    return "wrote"
