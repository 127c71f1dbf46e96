"""``ranktable split``: write one table for each node."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.options import GroupName  # noqa: TC001 - typer reads it
from ranktable.cli.output import CommandError, is_standard_output
from ranktable.cli.parameters import FileArgument, flag, valued
from ranktable.cli.progress import Progress, progress
from ranktable.cli.table_input import (
    STANDARD_INPUT_NAME,
    refuse_without_ranks,
    sound_table,
    with_ranks,
)
from ranktable.cluster.splitting import begins_at_zero, split_by_node
from ranktable.cluster.tables_of_groups import (
    GROUPED,
    split_groups_by_node,
    written_tables_of,
)
from ranktable.schema.diagnostic import counted, printable
from ranktable.schema.files import is_open_already
from ranktable.schema.formats import by_name
from ranktable.schema.writing import create_folder, dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.model import RankTable


class Unit(str, Enum):
    """What each file has: a node or a group."""

    NODE = "node"
    GROUP = "group"


def split(
    file: FileArgument = None,
    by: Annotated[
        Unit, typer.Option(help="Write one file per node, or per group.")
    ] = Unit.NODE,
    server_group: GroupName = None,
    renumber: Annotated[
        bool, flag("Number the ranks of every file from 0.", "--renumber")
    ] = False,
    output: Annotated[
        str | None,
        valued(
            "DIR",
            "A new or empty folder; by default it is named after FILE.",
            "--output",
            "-o",
        ),
    ] = None,
) -> None:
    """Split a rank table into one file per node, named after its host or its number.

    A table of groups (server-groups) becomes one table of groups per server, or with
    --by group one rank table per group.

    The ranks stay as they are, so that merge makes the same table from the files. A
    file whose ranks do not begin at 0 is not a sound table by itself; a note says so.
    Either all files are written or none.

    Example: ranktable split sccl_rank_table.json -o nodes
    """
    if by is Unit.GROUP:
        _split_by_group(file, server_group, output, renumber=renumber)
        return
    read = sound_table(file, needs_ranks=False)
    if server_group is not None or read.table.format != GROUPED:
        read = with_ranks(read, server_group)
    elif renumber:
        raise CommandError(
            "--renumber numbers the ranks of one job; name the group with "
            "--server-group"
        )
    name, table = read.name, read.table
    folder = _default_folder(name, by) if output is None else output
    _refuse_folder(folder)
    with progress() as line:
        files = (
            split_groups_by_node(table)
            if table.format == GROUPED
            else split_by_node(table, renumber=renumber)
        )
        create_folder(folder, _shown(files, len(table.nodes), line))
    wrote = counted(len(table.nodes), "file")
    sys.stderr.write(f"wrote {wrote} to {printable(folder)}\n")
    if table.format == GROUPED:
        return
    others = sum(not begins_at_zero(node) for node in table.nodes)
    if others and not renumber:
        is_written = by_name(table.format).has_written_ranks
        sys.stderr.write(_note(others, table) if is_written else _NO_RANKS)


def _split_by_group(
    file: str | None, group: str | None, output: str | None, *, renumber: bool
) -> None:
    if renumber:
        raise CommandError(
            "--renumber goes with --by node; groups have their own ranks"
        )
    if group is not None:
        raise CommandError("--server-group goes with --by node; --by group writes all")
    read = sound_table(file, needs_ranks=False)
    name, table = read.name, read.table
    parts = written_tables_of(table)
    parts.pop("", None)  # the table itself, if it has no groups
    if not parts:
        refuse_without_ranks(table, name)
        raise CommandError(f"{name} is not a table of groups; --by node splits it")
    folder = _default_folder(name, Unit.GROUP) if output is None else output
    _refuse_folder(folder)
    create_folder(folder, ((f"{key}.json", dumps(one)) for key, one in parts.items()))
    sys.stderr.write(f"wrote {counted(len(parts), 'file')} to {printable(folder)}\n")


_NO_RANKS = """\
note: a file of this format names no ranks, so those of every file begin at 0
help: ranktable merge --renumber puts the files together in the order they are given
"""


def _note(others: int, table: RankTable) -> str:
    verb = "is not a sound table" if others == 1 else "are not sound tables"
    return (
        f"note: {others} of {counted(len(table.nodes), 'file')} {verb} alone, because "
        "their ranks do not begin at 0\n"
        "help: ranktable merge puts them together; --renumber makes each one sound\n"
    )


def _default_folder(name: str, by: Unit) -> str:
    is_stream = name == STANDARD_INPUT_NAME or is_open_already(name)
    path = Path("table" if is_stream else name)
    return str(path.with_name(f"{path.stem}-{by.value}s"))


def _refuse_folder(folder: str) -> None:
    """Raise CommandError unless a folder is new or empty."""
    path = Path(folder)
    if not folder:
        raise CommandError("--output is empty; name a folder")
    if is_standard_output(folder):
        raise CommandError("several files do not go to standard output; name a folder")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise CommandError(f"the folder {parent} does not exist; create it first")
    if (path.exists() or path.is_symlink()) and not path.is_dir():
        raise CommandError(f"{folder} is not a folder")
    if path.is_dir() and any(path.iterdir()):
        raise CommandError(f"the folder {folder} is not empty; --output names another")


def _shown(
    files: Iterator[tuple[str, bytes]], total: int, line: Progress
) -> Iterator[tuple[str, bytes]]:
    for number, item in enumerate(files, 1):
        line.show(f"writing file {number} of {total}")
        yield item
