"""``ranktable plan``: which groups cross which boundary, and a better placement."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ranktable.cli import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    OutputFormat,
    completion,
    style,
    write,
)
from ranktable.cli.app import with_options
from ranktable.cli.each_group import of_group, show_each, sound_tables
from ranktable.cli.input_output import (
    OutputFile,
    is_standard_output,
    output_file,
    put_files,
    sound_table,
    table_size,
    tell_written,
)
from ranktable.cli.options import GroupName, LayoutOptions, warn_of_refusal
from ranktable.cli.parameters import (
    ColorOption,
    FileArgument,
    OutputFormatOption,
    ReplaceFilesOption,
)
from ranktable.cli.site_options import (
    TOPOLOGY_HELP,
    flows_of,
    given_model,
    holders,
    links_of,
    read_bandwidths,
)
from ranktable.cluster.server_groups import with_group
from ranktable.layout.placing import place_ranks
from ranktable.layout.planning import Mode, is_spread, make_plan
from ranktable.layout.remembered import remembering
from ranktable.layout.rings import RingRows, ring_rows
from ranktable.layout.timing import PlanTimes, plan_times
from ranktable.report.plan_renderers import render_plan, render_plan_json
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cli.input_output import TableFile
    from ranktable.layout.planning import Plan
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology

MAX_NUMBER = 10**12
"""Of tokens, layers and the like; products of a few of them are floats still."""


def _number(text: str) -> object:
    return typer.Option(min=1, max=MAX_NUMBER, metavar="N", help=text)


def _file(text: str, *names: str) -> object:
    return typer.Option(*names, metavar="FILE", help=text)


@with_options(layout_options=LayoutOptions)
def plan(
    *,
    file: FileArgument = None,
    layout_options: LayoutOptions,
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="TOPOLOGY",
            help=TOPOLOGY_HELP,
        ),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            metavar="LINKS",
            help="Links of every host: sophgo-8, or a file with a matrix or pairs.",
            autocompletion=completion.links,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="LxH", help="Layers and hidden size: 32x4096.")
    ] = None,
    seq: Annotated[int | None, _number("Tokens of a sequence.")] = None,
    micro: Annotated[int | None, _number("Microbatches of a step and replica.")] = None,
    micro_size: Annotated[int, _number("Sequences of a microbatch.")] = 1,
    params: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Parameters: 70B; by default 12 L H H."),
    ] = None,
    kv_hidden: Annotated[
        int | None, _number("Size of a token's keys, for cp; by default H.")
    ] = None,
    topk: Annotated[int | None, _number("Experts that a token goes to.")] = None,
    experts: Annotated[
        int | None, _number("Experts of every layer; by default as many as ep.")
    ] = None,
    expert_params: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Parameters of all experts: 640B; of --params by default all but "
            "4 L H H.",
        ),
    ] = None,
    interleave: Annotated[int, _number("Virtual stages of each rank.")] = 1,
    bytes_: Annotated[
        str | None,
        typer.Option(
            "--bytes",
            metavar="LIST",
            help="What is sent in a step, instead of --model: tp=16GiB,dp=2.25GiB.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="More groups to show: dp-cp,embedding."),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Bandwidth of a rank, a node and a rack, to show times too: "
            "intra=400GB/s,node=50GB/s,rack=400Gbit/s.",
        ),
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS:BOUNDARY",
            help="Keep replicas in different failure domains: dp:rack; implies "
            "--mode node-order.",
        ),
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="Search for a better placement: whole nodes in another order, or any "
            "rank anywhere.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        _file("Write the better table; implies --mode node-order.", "--output", "-o"),
    ] = None,
    hostfile: Annotated[
        str | None, _file("Write Open MPI's host file for it.", "--hostfile")
    ] = None,
    rankfile: Annotated[
        str | None, _file("Write Open MPI's rank file for it.", "--rankfile")
    ] = None,
    slurm_hostfile: Annotated[
        str | None, _file("Write the SLURM_HOSTFILE for it.", "--slurm-hostfile")
    ] = None,
    force: ReplaceFilesOption = False,
    server_group: GroupName = None,
    format: OutputFormatOption = OutputFormat.TEXT,  # noqa: A002 - the name of the option
    color: ColorOption = Color.AUTO,
) -> None:
    """Compare the traffic between nodes and racks with a lower bound.

    The bound holds for every placement. A better one may reach it: with --mode
    node-order every node keeps consecutive ranks; with --mode free any rank may be
    anywhere, and RANK has to come from the table.

    Example: ranktable plan sccl_rank_table.json --tp 4 --model 32x4096 --seq 4096
    --micro 16
    """
    layout_options.refuse_clash()
    outputs = {
        "": output,
        "openmpi-hostfile": hostfile,
        "openmpi-rankfile": rankfile,
        "srun-hostfile": slurm_hostfile,
    }
    wanted = {
        kind: output_file(path) for kind, path in outputs.items() if path is not None
    }
    if (wanted or spread is not None) and mode is None:
        mode = Mode.NODE_ORDER
    shape = given_model(
        model=model,
        seq=seq,
        micro=micro,
        micro_size=micro_size,
        params=params,
        kv_hidden=kv_hidden,
        topk=topk,
        experts=experts,
        expert_params=expert_params,
        interleave=interleave,
        sizes=bytes_,
    )
    is_sent = shape is not None or bytes_ is not None
    if bandwidth is not None and not is_sent:
        raise CommandError(
            "--bandwidth needs what is sent: --model with --seq and --micro, or --bytes"
        )
    if mode is not None and not is_sent and spread is None:
        raise CommandError(
            "the bytes that are sent are not known; give --model with --seq "
            "and --micro, or --bytes"
        )
    ways = None if bandwidth is None else read_bandwidths(bandwidth)

    def planned(read: TableFile) -> Planned:
        table = read.table
        layout = layout_options.layout(table)
        warn_of_refusal(layout)
        made = make_plan(
            table,
            layout,
            flows=flows_of(shape, bytes_, layout),
            boundaries=holders(topology, table, format, color),
            mode=mode,
            shown=() if groups is None else groups.split(","),
            spread=spread,
        )
        times = None if ways is None else plan_times(made, ways)
        chips = links_of(links, table)
        placed = table
        if made.is_better and (wanted or chips):
            placed = place_ranks(table, made.after)
        if wanted:
            placed = remembering(placed, layout, topology=links)
        rings = None if chips is None else _rings(chips, table, placed, made)
        pieces = _rendered(read.name, made, rings, times, format, color)
        return Planned(made, pieces, _texts(read, placed, wanted))

    tables = _tables(file, server_group, is_written=bool(wanted))
    found = [(read, of_group(read, planned)) for read in tables]
    if any(map(is_standard_output, wanted.values())):
        sys.stderr.writelines(found[0][1].pieces)
    else:
        show_each({read.group: one.pieces for read, one in found}, format)
    if not all(is_spread(one.made) for _, one in found):
        raise typer.Exit(DEFECTS_FOUND)
    read, only = found[0]
    if only.texts:
        put_plan(only.texts, read, is_better=only.made.is_better, force=force)


def _tables(
    file: str | None, group: str | None, *, is_written: bool
) -> list[TableFile]:
    """Return a table, or each group; what is written is of one group."""
    if is_written:
        return [sound_table(file, group=group)]
    return sound_tables(file, group)


class Planned(NamedTuple):
    """The plan of one table, what is shown of it, and the files that are asked for."""

    made: Plan
    pieces: Iterator[str]
    texts: Sequence[tuple[str, bytes]]


def _rings(
    chips: Topology, table: RankTable, placed: RankTable, made: Plan
) -> RingRows:
    costs = made.costs
    before, after = (
        ring_rows(one, costs.layout, chips, costs.row_names) for one in (table, placed)
    )
    return RingRows(before=before, after=after)


def _texts(
    read: TableFile, placed: RankTable, wanted: dict[str, str]
) -> Sequence[tuple[str, bytes]]:
    """Return the path and the bytes of every file, before one of them is written."""
    table = placed
    if read.whole is not None:
        table = with_group(read.whole, read.group, placed)
    return [
        (path, _hostfile(placed, kind) if kind else dumps(table))
        for kind, path in wanted.items()
    ]


def _hostfile(placed: RankTable, kind: str) -> bytes:
    """Return a file for a launcher; its formats are loaded where one is written."""
    from ranktable.cluster.hostfiles.hostfile import (  # noqa: PLC0415 - rare
        WriterOptions,
        hostfile_from_table,
    )
    from ranktable.cluster.hostfiles.launcher_formats import (  # noqa: PLC0415 - rare
        format_of,
    )

    written = format_of(kind).write(hostfile_from_table(placed), WriterOptions())
    return written.encode()


def _rendered(
    name: str,
    made: Plan,
    rings: RingRows | None,
    times: PlanTimes | None,
    form: OutputFormat,
    color: Color,
) -> Iterator[str]:
    if form is OutputFormat.JSON:
        return render_plan_json(name, made, rings=rings, times=times)

    return render_plan(name, made, style(color), rings=rings, times=times)


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
