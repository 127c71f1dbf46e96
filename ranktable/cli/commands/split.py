"""``ranktable split``: one table becomes one a node."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import CommandError
from ranktable.cli.files import FILE_HELP, STANDARD_INPUT_NAME, sound_table
from ranktable.cli.progress import Progress, progress
from ranktable.cluster.splitting import begins_at_zero, split_by_node
from ranktable.schema.atomic_files import create_folder
from ranktable.schema.messages import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.model import RankTable


class Unit(str, Enum):
    """What a file is about."""

    NODE = "node"


def split(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help=FILE_HELP)] = None,
    by: Annotated[Unit, typer.Option("--by", help="What becomes a file.")] = Unit.NODE,
    renumber: Annotated[
        bool,
        typer.Option("--renumber", help="Let the ranks of every file begin at 0."),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="A new or empty folder; by default FILE's name with -nodes.",
        ),
    ] = None,
) -> None:
    """Split a rank table into one file a node, named after its host or its number.

    The ranks stay as they are, so that merge makes the same table of the files; where
    they do not begin at 0, a file is not a sound table by itself, and a note says so.
    All files are written, or none.

    Example: ranktable split sccl_rank_table.json -o nodes
    """
    assert by is Unit.NODE  # noqa: S101 - the only one there is
    name, table, _ = sound_table(file)
    folder = output or _default_folder(name)
    _refuse_folder(folder)
    with progress() as line:
        files = split_by_node(table, renumber=renumber)
        create_folder(folder, _shown(files, len(table.nodes), line))
    wrote = counted(len(table.nodes), "file")
    sys.stderr.write(f"wrote {wrote} to {printable(folder)}\n")
    others = sum(not begins_at_zero(node) for node in table.nodes)
    if others and not renumber:
        sys.stderr.write(_note(others, table))


def _note(others: int, table: RankTable) -> str:
    verb = "is not a sound table" if others == 1 else "are not sound tables"
    return (
        f"note: {others} of {counted(len(table.nodes), 'file')} {verb} alone, because "
        "the ranks begin elsewhere than at 0\n"
        "help: ranktable merge puts them together; --renumber makes each one sound\n"
    )


def _default_folder(name: str) -> str:
    path = Path("table" if name == STANDARD_INPUT_NAME else name)
    return str(path.with_name(f"{path.stem}-nodes"))


def _refuse_folder(folder: str) -> None:
    """Raise CommandError unless a folder is new or empty."""
    path = Path(folder)
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
