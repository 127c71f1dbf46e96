"""``ranktable subset``: the table of some ranks."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from ranktable.cli import CommandError
from ranktable.cli.input_output import put_table, sound_table
from ranktable.cli.options import GroupName  # noqa: TC001 - typer reads it
from ranktable.cli.parameters import FileArgument, ReplaceFileOption
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.splitting import subset as part_of
from ranktable.schema.diagnostic import RankTableError
from ranktable.schema.format import NotExpressibleError
from ranktable.schema.writing import dumps

_RANKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def subset(
    ranks: Annotated[
        str,
        typer.Option(
            "--ranks",
            metavar="LIST",
            help="Ranks in the order of their new numbers: 0-7,16.",
        ),
    ],
    file: FileArgument = None,
    server_group: GroupName = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="By default standard output."
        ),
    ] = "-",
    force: ReplaceFileOption = False,
) -> None:
    """Write the table of some ranks, renumbered from 0, for a communicator.

    Super pods without servers are left out. From a table of groups (server-groups),
    one group is written as a table of HCCL.

    Example: ranktable subset sccl_rank_table.json --ranks 0-3
    """
    read = sound_table(file, group=server_group)
    try:
        table = part_of(read.table, _ranks(ranks, read.table.world_size))
        data = dumps(table)
    except ArgumentError as error:
        raise CommandError(f"--ranks: {error}") from None
    except NotExpressibleError as error:
        raise CommandError(f"{read.name}: {error}") from None
    except RankTableError as error:
        raise CommandError(
            f"these ranks alone are not a sound table: {error}"
        ) from None
    put_table(output, table, data, force=force, read={read.name: read.data})


def _ranks(text: str, size: int) -> list[int]:
    """Return the ranks in ``0-7,16``.

    Raises:
        CommandError: It is not such a list, or leaves the table.
    """
    found: list[int] = []
    for item in text.split(","):
        match = _RANKS.fullmatch(item.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise CommandError(f"--ranks: {item!r} is not a rank; write 0-7,16")
        if last >= size:
            raise CommandError(
                f"--ranks: the table has no rank {last}, only {size} ranks"
            )
        found += range(first, last + 1)
    return found
