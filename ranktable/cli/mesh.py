"""``ranktable mesh``: which ranks and chips belong together in a parallel layout."""

from __future__ import annotations

import gc
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.failure import CommandError
from ranktable.cli.files import FILE_HELP
from ranktable.cli.laid_out import laid_out_table
from ranktable.cli.output import COLOR_HELP, Color, Form, style, write

if TYPE_CHECKING:
    from ranktable.layout.parallel import ParallelLayout

DEFAULT_PRESET = "megatron"


class Peer(str, Enum):
    """Libraries whose order and expert style can be had by name."""

    MEGATRON = "megatron"
    DEEPSPEED = "deepspeed"
    TORCHTITAN = "torchtitan"
    SCALETORCH = "scaletorch"
    VLLM = "vllm"
    JAX = "jax"


class ExpertStyle(str, Enum):
    """Whose meaning ep has."""

    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    DEEPSPEED = "deepspeed"
    SCALETORCH = "scaletorch"
    VLLM = "vllm"


def _size(text: str) -> object:
    return typer.Option(metavar="SIZE", help=text)


def mesh(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help=FILE_HELP)] = None,
    tp: Annotated[int, _size("Tensor parallel ranks.")] = 1,
    cp: Annotated[int, _size("Context parallel ranks.")] = 1,
    pp: Annotated[int, _size("Stages of the pipeline.")] = 1,
    dp: Annotated[
        int | None, _size("Data parallel ranks; by default, and with -1, the rest.")
    ] = None,
    ep: Annotated[int | None, _size("Expert parallel ranks.")] = None,
    etp: Annotated[int | None, _size("Ranks that share one expert.")] = None,
    dp_replicate: Annotated[int, _size("Copies within dp, each sharded.")] = 1,
    order: Annotated[
        str | None,
        typer.Option(metavar="ORDER", help="The axes, fastest first: tp-cp-ep-dp-pp."),
    ] = None,
    ep_style: Annotated[
        ExpertStyle | None, typer.Option(help="Whose meaning --ep has.")
    ] = None,
    preset: Annotated[
        Peer | None, typer.Option(help="Order and expert style of a library.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Groups to show: tp,dp-cp; default each."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(metavar="R", help="Show only this rank.")
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Form, typer.Option(help="Form of the output.")
    ] = Form.TEXT,
    color: Annotated[Color, typer.Option(help=COLOR_HELP)] = Color.AUTO,
) -> None:
    """Show the parallel groups of a job: their ranks, coordinates, nodes and chips.

    Beyond 16 ranks, nodes and groups that are alike share a line; in it, i is the
    number of the node or of the group, or counts from 0 where the line says how far.

    Example: ranktable mesh sccl_rank_table.json --tp 4 --dp -1
    """
    from ranktable.layout.communicator import communicators  # noqa: PLC0415

    if preset is not None and (order is not None or ep_style is not None):
        raise CommandError("--preset is an order and an --ep-style; give it or them")
    gc.disable()  # nothing here makes cycles, and collecting is a third of the time
    name, table = laid_out_table(file)
    if rank is not None and not 0 <= rank < table.world_size:
        raise CommandError(f"rank {rank} is not among the {table.world_size} ranks")
    given = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "ep": ep, "etp": etp}
    sizes = {name: size for name, size in given.items() if size is not None}
    sizes["dp_replicate"] = dp_replicate
    layout = make_layout(sizes, order, ep_style, preset, table.world_size)
    found = communicators(table, layout, None if groups is None else groups.split(","))
    if format is Form.JSON:
        from ranktable.report.mesh_data import render_mesh_json  # noqa: PLC0415

        write(render_mesh_json(name, found, rank))
        return
    from ranktable.report.mesh_text import render_mesh, render_rank  # noqa: PLC0415

    if rank is None:
        write(render_mesh(name, found, style(color)))
    else:
        write(render_rank(found, rank, style(color)))


def make_layout(
    sizes: dict[str, int],
    order: str | None,
    ep_style: ExpertStyle | None,
    preset: Peer | None,
    world_size: int,
) -> ParallelLayout:
    """Return the layout of some options; dp is what the others leave.

    Raises:
        LayoutError: There is no such layout.
    """
    from ranktable.layout.experts import OWN_AXIS  # noqa: PLC0415
    from ranktable.layout.parallel import ParallelLayout  # noqa: PLC0415
    from ranktable.layout.presets import find_preset  # noqa: PLC0415
    from ranktable.layout.sizes import INFERRED  # noqa: PLC0415

    default = find_preset(preset.value if preset else DEFAULT_PRESET)
    style = default.ep_style if ep_style is None else ep_style.value
    factors = ("tp", "cp", "pp", *(["ep"] if style == OWN_AXIS else []))
    # dp is what is left, unless another size is that.
    rest = 1 if any(sizes.get(name) == INFERRED for name in factors) else INFERRED
    return ParallelLayout(
        **{"dp": rest, **sizes},
        order=default.order if order is None else order,
        ep_style=style,
        world_size=world_size,
    )
