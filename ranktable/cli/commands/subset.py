"""``ranktable subset``: write the table of some ranks."""

from __future__ import annotations

from typing import Annotated

from ranktable.cli.output import STANDARD_OUTPUT, CommandError, about, put_table
from ranktable.cli.parameters import (
    FileArgument,
    OutputOption,
    ReplaceFileOption,
    valued,
)
from ranktable.cli.table_input import sound_table
from ranktable.cluster.generate import parse_numbers
from ranktable.cluster.splitting import subset as part_of
from ranktable.schema.finding import RankTableError
from ranktable.schema.writing import dumps


def subset(
    ranks: Annotated[
        str, valued("LIST", "Ranks in the order of their new numbers: 0-7,16.")
    ],
    file: FileArgument = None,
    output: OutputOption = None,
    force: ReplaceFileOption = False,
) -> None:
    """Write the table of some ranks, renumbered from 0.

    This is the table of a communicator of these ranks. Super pods without servers are
    left out.

    Example: ranktable subset sccl_rank_table.json --ranks 0-3
    """
    read = sound_table(file)
    try:
        with about("--ranks"):
            chosen = parse_numbers(ranks, noun="a rank", example="0-7,16")
            table = part_of(read.table, chosen)
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
