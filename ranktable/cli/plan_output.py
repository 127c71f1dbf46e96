"""The files of a plan: the table, host files and a rank file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cli.failure import CommandError
from ranktable.cli.output import write
from ranktable.cli.output_files import (
    OutputFile,
    is_standard_output,
    output_file,
    put_files,
    table_size,
    tell_written,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cli.files import TableFile


def put_plan(
    texts: Sequence[tuple[str, bytes]], read: TableFile, *, is_better: bool, force: bool
) -> None:
    """Write every file, or none if one of them holds something else.

    Args:
        texts: Path and bytes of every file; ``-`` stands for standard output.
        read: The table that was read.
        is_better: Whether the placement is a new one.
        force: Whether to replace files.

    Raises:
        CommandError: A file holds something else, or two have one name.
    """
    paths = [path for path, _ in texts]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise CommandError(f"{twice} is to hold two different things")
    files = [
        OutputFile(path=output_file(path), data=data)
        for path, data in texts
        if not is_standard_output(path)
    ]
    said = put_files(
        files,
        force=force,
        instead="another name leaves it",
        read={read.name: read.data},
    )
    write(data.decode() for path, data in texts if is_standard_output(path))
    kept = "" if is_better else ", in the old order"
    for file, done in zip(files, said, strict=True):
        tell_written(done, file.path, f"{table_size(read.table)}{kept}")
