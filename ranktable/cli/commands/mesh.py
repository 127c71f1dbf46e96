"""``ranktable mesh``: which ranks and chips belong together in a parallel layout."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from ranktable.cli import CommandError
from ranktable.cli.files import FILE_HELP, sound_table
from ranktable.cli.options import LayoutOptions, warn_of_refusal, with_options
from ranktable.cli.output import COLOR_HELP, Color, OutputFormat, style, write
from ranktable.layout.communicator import communicators
from ranktable.report.mesh import render_mesh, render_mesh_json, render_rank


@with_options(layout_options=LayoutOptions)
def mesh(
    *,
    file: Annotated[str | None, typer.Argument(metavar="FILE", help=FILE_HELP)] = None,
    layout_options: LayoutOptions,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Groups to show: tp,dp-cp,embedding; default each."
        ),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(metavar="R", help="Show only this rank.")
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        OutputFormat, typer.Option(help="Form of the output.")
    ] = OutputFormat.TEXT,
    color: Annotated[Color, typer.Option(help=COLOR_HELP)] = Color.AUTO,
) -> None:
    """Show the parallel groups of a job: their ranks, coordinates, nodes and chips.

    Beyond 16 ranks, nodes and groups that are alike share a line; in it, i is the
    number of the node or of the group, or counts from 0 where the line says how far.

    Example: ranktable mesh sccl_rank_table.json --tp 4 --dp -1
    """
    layout_options.refuse_clash()
    gc.disable()  # nothing here makes cycles, and collecting is a third of the time
    name, table, _ = sound_table(file)
    if rank is not None and not 0 <= rank < table.world_size:
        raise CommandError(f"rank {rank} is not among the {table.world_size} ranks")
    layout = layout_options.layout(table)
    warn_of_refusal(layout)
    found = communicators(table, layout, None if groups is None else groups.split(","))
    if format is OutputFormat.JSON:
        write(render_mesh_json(name, found, rank))
        return

    if rank is None:
        write(render_mesh(name, found, style(color)))
    else:
        write(render_rank(found, rank, style(color)))
