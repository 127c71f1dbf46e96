"""The files of a plan: the table, host files and a rank file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cli.failure import CommandError
from ranktable.cli.output import write
from ranktable.cli.output_file import output_file
from ranktable.cli.table_file import STANDARD_OUTPUT
from ranktable.schema.messages import counted, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable


def put_files(
    texts: Sequence[tuple[str, bytes]],
    table: RankTable,
    *,
    is_better: bool,
    force: bool,
) -> None:
    """Write every file, or none if one of them holds something else.

    Args:
        texts: Path and bytes of every file; ``-`` stands for standard output.
        table: The table, for its size.
        is_better: Whether the placement is a new one.
        force: Whether to replace files.

    Raises:
        CommandError: A file holds something else, or two have one name.
    """
    from ranktable.schema.writing import replace_file  # noqa: PLC0415 - not for --help

    paths = [path for path, _ in texts]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise CommandError(f"{twice} is to hold two different things")
    named = [(_named(path), data) for path, data in texts]
    changed = [(name, data) for name, data in named if _is_other(name, data)]
    for name, _ in changed:
        if name != STANDARD_OUTPUT and Path(name).exists() and not force:
            raise CommandError(
                f"{name} holds something else; --force replaces it, another name "
                "leaves it"
            )
    size = f"{counted(len(table.nodes), 'node')}, {counted(table.world_size, 'rank')}"
    kept = "" if is_better else ", in the old order"
    for name, data in named:
        if name == STANDARD_OUTPUT:
            write([data.decode()])
            continue
        done = "unchanged"
        if (name, data) in changed:
            replace_file(name, data)
            done = "wrote"
        sys.stderr.write(f"{done} {printable(name)}: {size}{kept}\n")


def _named(path: str) -> str:
    return path if path == STANDARD_OUTPUT else output_file(path)


def _is_other(name: str, data: bytes) -> bool:
    path = Path(name)
    return not path.is_file() or path.read_bytes() != data
