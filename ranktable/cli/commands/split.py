"""``ranktable split``: write one table for each node."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ranktable.cli.output import (
    STANDARD_OUTPUT,
    CommandError,
    about,
    is_standard_output,
    put_table,
)
from ranktable.cli.parameters import FileArgument, ReplaceFileOption, flag, valued
from ranktable.cli.sources import STANDARD_INPUT_NAME
from ranktable.cli.table_input import sound_table
from ranktable.cluster.generate import parse_numbers
from ranktable.cluster.splitting import begins_at_zero, split_by_node, subset
from ranktable.schema.files import is_open_already
from ranktable.schema.finding import RankTableError
from ranktable.schema.text import counted, printable
from ranktable.schema.writing import create_folder, dumps

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable


def split(
    file: FileArgument = None,
    renumber: Annotated[
        bool, flag("Number the ranks of every file from 0.", "--renumber")
    ] = False,
    ranks: Annotated[
        str | None,
        valued("LIST", "Write one table of these ranks, in their new order: 3,1,0."),
    ] = None,
    output: Annotated[
        str | None,
        valued(
            "DIR",
            "A new or empty folder; by default it is named after FILE. With --ranks a "
            "file, by default standard output.",
            "--output",
            "-o",
        ),
    ] = None,
    force: ReplaceFileOption = False,
) -> None:
    """Split a rank table into one file per node, or take some ranks.

    A file is named after its host or the number of its node. The ranks stay as they
    are, so that merge makes the same table from the files. A file whose ranks do not
    begin at 0 is not a sound table by itself; a note says so. Either all files are
    written or none. The table of --ranks is that of a communicator: its ranks are
    renumbered from 0, and super pods without servers are left out.

    Example: ranktable split sccl_rank_table.json -o nodes
    ranktable split sccl_rank_table.json --ranks 3,1,0 -o some.json
    """
    if ranks is not None:
        if renumber:
            raise CommandError("--ranks numbers from 0 always; leave out --renumber")
        _write_ranks(file, ranks, output, force=force)
        return
    if force:
        raise CommandError("--force is for --ranks; the folder must be new or empty")
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


def _write_ranks(
    file: str | None, ranks: str, output: str | None, *, force: bool
) -> None:
    """Write the table of some ranks.

    Raises:
        CommandError: A rank is not in the table, or these alone are not a sound table.
    """
    read = sound_table(file)
    try:
        with about("--ranks"):
            chosen = parse_numbers(ranks, noun="a rank", example="0-7,16")
            table = subset(read.table, chosen)
        data = dumps(table)
    except RankTableError as error:
        raise CommandError(
            f"these ranks alone are not a sound table: {error}"
        ) from None
    put_table(
        STANDARD_OUTPUT if output is None else output,
        table,
        data,
        force=force,
        read={read.name: read.data},
    )


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
