"""``ranktable renumber``: ranks without gaps, after some were lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import CommandError
from ranktable.cli.change_output import Again, ChangeOutput
from ranktable.cli.commands.shrink import places_of
from ranktable.cli.files import TableFile, check_file, table_in
from ranktable.cli.new_nodes import part_of
from ranktable.cli.options import LayoutOptions, with_options
from ranktable.layout.change.names import named
from ranktable.layout.change.renumbering import Policy
from ranktable.layout.change.renumbering import renumber as change
from ranktable.schema.diagnostic import Options
from ranktable.schema.rules.ranks import WRONG_LOCAL_RANK

if TYPE_CHECKING:
    from ranktable.schema.columns import Columns

_RANKS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@with_options(layout_options=LayoutOptions, result=ChangeOutput)
def renumber(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Rank table, or - for standard input.")
    ],
    policy: Annotated[
        Policy,
        typer.Option(
            help="fill: the last nodes move into the gaps, so that few ranks move; "
            "shift: the order stays, all after the first gap move; stable: none "
            "moves, spares fill the gaps."
        ),
    ],
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            metavar="NODES",
            help="Nodes that are lost: hosts such as n[03-05], or numbers of nodes "
            "that have none.",
        ),
    ] = None,
    drop_ranks: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="More ranks that are lost: 1,4-5."),
    ] = None,
    layout_options: LayoutOptions,
    again: Again = False,
    result: ChangeOutput,
) -> None:
    """Give the ranks of a table numbers without gaps, after nodes or chips were lost.

    The table may have the gaps already. With sizes, nothing is written unless they fit
    the ranks that are left; shrink finds sizes that do. Done again, it changes nothing.

    Example: ranktable renumber sccl_rank_table.json --policy fill --drop-ranks 1,4-5
    """
    result.prepare()
    read = _table(file)
    table = read.table
    lost = places_of(table, drop or [], again=again)
    ranks = [] if drop_ranks is None else _ranks(drop_ranks)
    found = change(named(table), policy, nodes=lost, ranks=ranks)
    if layout_options.are_given:
        layout_options.layout(found.world_size)
    result.put(read, found)


def _table(file: str) -> TableFile:
    """Return a table whose ranks may have gaps."""
    report = check_file(file, Options(limit=5))
    # Where chips were taken out of a node, its local ranks have gaps too.
    also = [WRONG_LOCAL_RANK.code] if _count_up(report.columns) else []
    table = part_of(report, also)
    if table is None:
        table = table_in(report)
    return TableFile(report.file, table, report.data or b"")


def _count_up(columns: Columns | None) -> bool:
    """Whether the local ranks of every node are in order, with gaps or without."""
    if columns is None:
        return False
    nodes = [columns.local_ranks[start:end] for _, start, end in columns.nodes()]
    written = [[rank for rank in node if rank is not None] for node in nodes]
    return all(ranks == sorted(set(ranks)) for ranks in written)


def _ranks(text: str) -> list[int]:
    """Return the ranks in ``1,4-5``.

    Raises:
        CommandError: It is no such list, or names one twice.
    """
    found: dict[int, None] = {}
    for item in text.split(","):
        match = _RANKS.fullmatch(item)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise CommandError(f"--drop-ranks: {item!r} is not a rank; write 1,4-5")
        for rank in range(int(match[1]), int(match[2] or match[1]) + 1):
            if rank in found:
                raise CommandError(f"--drop-ranks names {rank} twice")
            found[rank] = None
    return list(found)
