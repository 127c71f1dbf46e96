"""``ranktable mesh``: which ranks and chips belong together in a parallel layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ranktable.cli.app import with_options
from ranktable.cli.options import (
    TOPOLOGY_HELP,
    LayoutOptions,
    racks_of,
    warn_of_refusal,
)
from ranktable.cli.output import Color, CommandError, OutputFormat, style, write
from ranktable.cli.parameters import (
    ColorOption,
    FileArgument,
    OutputFormatOption,
    flag,
    number,
    valued,
)
from ranktable.cli.table_input import (
    TableFile,
    sound_table,
)
from ranktable.cluster.generate import make_table
from ranktable.layout.boundaries import node_boundary
from ranktable.layout.communicator import communicators
from ranktable.layout.suggesting import (
    Suggestion,
    domains_of_ranks,
    legal_layouts,
    spread_of,
)
from ranktable.report.mesh_renderers import (
    MAX_SUGGESTIONS,
    render_mesh,
    render_mesh_json,
    render_rank,
    render_suggestions,
    render_suggestions_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.layout.boundaries import Boundary
    from ranktable.schema.model import RankTable

MAX_RANKS = 1_000_000
"""Most ranks of a job without a table."""


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
    suggest: Annotated[
        bool, flag("List the sizes that the ranks can have.", "--suggest")
    ] = False,
    world_size: Annotated[
        int | None,
        number("N", "With --suggest: ranks, instead of a table.", min=1, max=MAX_RANKS),
    ] = None,
    per_node: Annotated[
        int | None, number("N", "With --world-size: ranks of a node.", min=1)
    ] = None,
    topology: Annotated[
        str | None, valued("TOPOLOGY", f"With --suggest. {TOPOLOGY_HELP}")
    ] = None,
    format: OutputFormatOption = OutputFormat.TEXT,
    color: ColorOption = Color.AUTO,
) -> None:
    """Show the parallel groups of a job: their ranks, coordinates, nodes and chips.

    With more than 16 ranks, similar nodes and similar groups share a line. In such a
    line, i is the number of the node or group; where the line gives a range, i counts
    through it from 0.

    Example: ranktable mesh sccl_rank_table.json --tp 4 --dp -1

    Example: ranktable mesh --suggest --world-size 64 --per-node 8 --topology rack=4
    """
    layout_options.refuse_clash()
    if suggest:
        if groups is not None or rank is not None:
            raise CommandError("--suggest shows sizes; leave --groups and --rank out")
        table = _ranks(file, world_size, per_node)
        is_placed = world_size is None or per_node is not None
        _suggest(table, layout_options, topology, format, color, is_placed=is_placed)
        return
    if world_size is not None or per_node is not None or topology is not None:
        raise CommandError("--world-size, --per-node and --topology go with --suggest")
    kinds = None if groups is None else groups.split(",")

    def shown(read: TableFile) -> Iterator[str]:
        table = read.table
        if rank is not None and not 0 <= rank < table.world_size:
            raise CommandError(f"rank {rank} is not among the {table.world_size} ranks")
        layout = layout_options.layout(table)
        warn_of_refusal(layout)
        found = communicators(table, layout, kinds)
        if format is OutputFormat.JSON:
            return render_mesh_json(read.name, found, rank)
        if rank is None:
            return render_mesh(read.name, found, style(color))
        return render_rank(found, rank, style(color))

    write(shown(sound_table(file)))


def _ranks(
    file: str | None,
    world_size: int | None,
    per_node: int | None,
) -> RankTable:
    """Return the table of a file, or nodes with the requested number of ranks."""
    if world_size is None:
        if per_node is not None:
            raise CommandError("--per-node goes with --world-size; a table has nodes")
        return sound_table(file).table
    if file is not None:
        raise CommandError("give a table or --world-size, not both")
    size = per_node or world_size
    starts = range(0, world_size, size)
    return make_table([range(min(size, world_size - start)) for start in starts])


def _suggest(
    table: RankTable,
    options: LayoutOptions,
    topology: str | None,
    form: OutputFormat,
    color: Color,
    *,
    is_placed: bool,
) -> None:
    """Show every layout that the ranks can have."""
    fixed, more = options.split()
    boundaries: list[Boundary] = [node_boundary(table)] if is_placed else []
    if topology is not None:
        if not is_placed:
            raise CommandError("--topology holds nodes; give --per-node or a table")
        boundaries += racks_of(topology, table, form, color)
    layouts = list(legal_layouts(table.world_size, fixed, more))
    if not layouts:
        raise CommandError(f"{table.world_size} ranks have no layout of these sizes")
    # Layouts whose tp groups fit into a node come first.
    held = len(table.nodes[0].devices)
    layouts.sort(key=lambda one: held % one.tp != 0)
    shown = layouts[:MAX_SUGGESTIONS]
    owners = list(table.node_ranks)
    domains = domains_of_ranks(boundaries, owners)
    found = [Suggestion(one, spread_of(one, domains)) for one in shown]
    if form is OutputFormat.JSON:
        write(render_suggestions_json(table.world_size, found))
        return
    left = len(layouts) - len(shown)
    write(render_suggestions(table.world_size, found, left, style(color)))
