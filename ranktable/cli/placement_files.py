"""The files that ``ranktable plan`` writes: the better table, and launchers' files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ranktable.cli.output import (
    STANDARD_OUTPUT,
    CommandError,
    OutputFile,
    is_standard_output,
    output_file,
    put_files,
    table_size,
    write,
)
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.cli.table_input import TableFile
    from ranktable.schema.model import RankTable


def placement_files(
    read: TableFile, placed: RankTable, wanted: Mapping[str, str]
) -> Sequence[tuple[str, bytes]]:
    """Return the path and the bytes of every file, before any of them is written."""
    return [
        (path, _hostfile(placed, kind) if kind else dumps(placed))
        for kind, path in wanted.items()
    ]


def _hostfile(placed: RankTable, kind: str) -> bytes:
    """Return a file for a launcher; its format is imported only if it is written."""
    from ranktable.cluster.hostfiles.hostfile import (
        WriterOptions,
        hostfile_from_table,
    )
    from ranktable.cluster.hostfiles.launcher_formats import (
        format_of,
    )

    written = format_of(kind).write(hostfile_from_table(placed), WriterOptions())
    return written.encode()


def put_placement(
    texts: Sequence[tuple[str, bytes]], read: TableFile, *, is_better: bool, force: bool
) -> None:
    """Write all files, or none if one of them has other content.

    Args:
        texts: Path and bytes of every file; ``-`` means standard output.
        read: The table that was read.
        is_better: Whether the placement differs from that of the table.
        force: Whether to replace files.

    Raises:
        CommandError: A file has other content, or two files have the same path.
    """
    targets = [
        STANDARD_OUTPUT if is_standard_output(path) else os.path.realpath(path)
        for path, _ in texts
    ]
    for at, (path, _) in enumerate(texts):
        if targets[at] in targets[:at]:
            raise CommandError(f"{path} is to hold two different things")
    kept = "" if is_better else ", in the old order"
    size = f"{table_size(read.table)}{kept}"
    files = [
        OutputFile(path=output_file(path), data=data, size=size)
        for path, data in texts
        if not is_standard_output(path)
    ]
    put_files(
        files,
        force=force,
        instead="another name leaves it",
        read={read.name: read.data},
    )
    write(data.decode() for path, data in texts if is_standard_output(path))
