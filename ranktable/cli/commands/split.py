"""``ranktable split``: write one table for each node."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ranktable.cli.output import CommandError, is_standard_output
from ranktable.cli.parameters import FileArgument, flag, valued
from ranktable.cli.sources import STANDARD_INPUT_NAME
from ranktable.cli.table_input import sound_table
from ranktable.cluster.splitting import begins_at_zero, split_by_node
from ranktable.schema.files import is_open_already
from ranktable.schema.text import counted, printable
from ranktable.schema.writing import create_folder

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable


def split(
    file: FileArgument = None,
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
    """Split a rank table into one file per node.

    A file is named after its host or the number of its node. The ranks stay as they
    are, so that merge makes the same table from the files. A file whose ranks do not
    begin at 0 is not a sound table by itself; a note says so. Either all files are
    written or none.

    Example: ranktable split sccl_rank_table.json -o nodes
    """
    read = sound_table(file)
    name, table = read.name, read.table
    folder = _default_folder(name) if output is None else output
    _refuse_folder(folder)
    create_folder(folder, split_by_node(table, renumber=renumber))
    wrote = counted(len(table.nodes), "file")
    sys.stderr.write(f"wrote {wrote} to {printable(folder)}\n")
    others = sum(not begins_at_zero(node) for node in table.nodes)
    if others and not renumber:
        sys.stderr.write(_note(others, table))


def _note(others: int, table: RankTable) -> str:
    verb = "is not a sound table" if others == 1 else "are not sound tables"
    return (
        f"note: {others} of {counted(len(table.nodes), 'file')} {verb} alone, because "
        "their ranks do not begin at 0\n"
        "help: ranktable merge puts them together; --renumber makes each one sound\n"
    )


def _default_folder(name: str) -> str:
    is_stream = name == STANDARD_INPUT_NAME or is_open_already(name)
    path = Path("table" if is_stream else name)
    return str(path.with_name(f"{path.stem}-nodes"))


def _refuse_folder(folder: str) -> None:
    """Raise CommandError unless a folder is new or empty."""
    path = Path(folder)
    if is_standard_output(folder):
        raise CommandError("several files do not go to standard output; name a folder")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise CommandError(f"the folder {parent} does not exist; create it first")
    if (path.exists() or path.is_symlink()) and not path.is_dir():
        raise CommandError(f"{folder} is not a folder")
    if path.is_dir() and any(path.iterdir()):
        raise CommandError(f"the folder {folder} is not empty; --output names another")
