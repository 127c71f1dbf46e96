"""``ranktable mesh``: which ranks and chips belong together in a parallel layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ranktable.cli.app import with_options
from ranktable.cli.options import LayoutOptions, warn_of_refusal
from ranktable.cli.output import Color, CommandError, style_of, write
from ranktable.cli.parameters import (
    ColorOption,
    FileArgument,
    OutputFormatOption,
    valued,
)
from ranktable.cli.table_input import TableFile, sound_table
from ranktable.layout.communicator import communicators
from ranktable.report.mesh_renderers import render_mesh, render_mesh_json, render_rank

if TYPE_CHECKING:
    from collections.abc import Iterator


@with_options(layout_options=LayoutOptions)
def mesh(
    *,
    file: FileArgument = None,
    layout_options: LayoutOptions,
    groups: Annotated[
        str | None,
        valued("LIST", "Groups to show: tp,dp-cp,embedding; by default all."),
    ] = None,
    rank: Annotated[int | None, valued("R", "Show only this rank.")] = None,
    format: OutputFormatOption = "text",
    color: ColorOption = Color.AUTO,
) -> None:
    """Show the parallel groups of a job: ranks, nodes and chips.

    With more than 16 ranks, similar nodes and similar groups share a line. In such a
    line, i is the number of the node or group; where the line gives a range, i counts
    through it from 0.

    Example: ranktable mesh sccl_rank_table.json --tp 4 --dp -1
    """
    layout_options.refuse_clash()
    kinds = None if groups is None else groups.split(",")

    def shown(read: TableFile) -> Iterator[str]:
        table = read.table
        if rank is not None and not 0 <= rank < table.world_size:
            raise CommandError(f"rank {rank} is not among the {table.world_size} ranks")
        layout = layout_options.layout(table)
        warn_of_refusal(layout)
        found = communicators(table, layout, kinds)
        if format == "json":
            return render_mesh_json(read.name, found, rank)
        if rank is None:
            return render_mesh(read.name, found, style_of(color))
        return render_rank(found, rank, style_of(color))

    write(shown(sound_table(file)))
