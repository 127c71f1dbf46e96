"""``ranktable plan``: which groups cross which boundary, and a better placement."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

from ranktable.cli.app import with_options
from ranktable.cli.options import (
    BytesOption,
    LayoutOptions,
    LinksOption,
    RacksOption,
    holders,
    links_of,
    read_bytes,
    warn_of_refusal,
)
from ranktable.cli.output import (
    Color,
    CommandError,
    is_standard_output,
    output_file,
    put_text,
    style_of,
    write,
)
from ranktable.cli.parameters import (
    ColorOption,
    FileArgument,
    OutputFormatOption,
    ReplaceFileOption,
    number,
    valued,
)
from ranktable.cli.table_input import sound_table
from ranktable.layout.parallel import remembering
from ranktable.layout.planning import make_plan, reorder_nodes
from ranktable.layout.rings import RingRows, ring_rows
from ranktable.layout.traffic import Model, given_flows, model_flows
from ranktable.report.plan_renderers import render_plan, render_plan_json
from ranktable.report.terminal import table_size
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.planning import Plan
    from ranktable.layout.traffic import Flow
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology

MAX_NUMBER = 10**12
"""Largest number of tokens, layers and so on; products of a few still fit a float."""

_MODEL = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")
_PARAMETERS = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMBT]?)")
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def _number(text: str) -> object:
    return number("N", text, min=1, max=MAX_NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficOptions:
    """What is sent in a step, given by a model or in bytes."""

    model: Annotated[str | None, valued("LxH", "Layers and hidden size: 32x4096.")] = (
        None
    )
    seq: Annotated[int | None, _number("Tokens of a sequence.")] = None
    micro: Annotated[int | None, _number("Microbatches of a step and replica.")] = None
    micro_size: Annotated[int, _number("Sequences of a microbatch.")] = 1
    params: Annotated[
        str | None, valued("NUMBER", "Parameters: 70B; by default 12 L H H.")
    ] = None
    kv_hidden: Annotated[
        int | None, _number("Size of a token's keys, for cp; by default H.")
    ] = None
    topk: Annotated[int | None, _number("Experts that a token goes to.")] = None
    experts: Annotated[
        int | None, _number("Experts of every layer; by default as many as ep.")
    ] = None
    expert_params: Annotated[
        str | None,
        valued(
            "NUMBER",
            "Parameters of all experts: 640B; of --params by default all but 4 L H H.",
        ),
    ] = None
    interleave: Annotated[int, _number("Virtual stages of each rank.")] = 1
    bytes_: BytesOption = None

    def shape(self) -> Model | None:
        """Return the model that the options describe, None if there is none.

        Raises:
            CommandError: An option is malformed, missing or has no effect.
        """
        if self.model is None:
            self._refuse_idle()
            return None
        if self.bytes_ is not None:
            raise CommandError("--model and --bytes say the same; give one of them")
        if self.experts is not None and self.expert_params is not None:
            raise CommandError(
                "--experts and --expert-params say the same; give one of them"
            )
        match = _MODEL.fullmatch(self.model)
        if match is None:
            raise CommandError(
                f"--model: {self.model!r} is not layers x hidden, as 32x4096"
            )
        if self.seq is None or self.micro is None:
            told = {"--seq": self.seq, "--micro": self.micro}
            missing = " and ".join(name for name, value in told.items() if not value)
            raise CommandError(f"--model needs {missing} to say how much is sent")
        return Model(
            layers=int(match[1]),
            hidden=int(match[2]),
            sequence=self.seq,
            microbatches=self.micro,
            microbatch=self.micro_size,
            parameters=_parameters("--params", self.params),
            kv_hidden=self.kv_hidden,
            topk=self.topk,
            experts=self.experts,
            expert_parameters=_parameters("--expert-params", self.expert_params),
            interleave=self.interleave,
        )

    def _refuse_idle(self) -> None:
        """Raise CommandError for options of a model without ``--model``."""
        for each in fields(self):
            is_given = getattr(self, each.name) != each.default
            if is_given and each.name != "bytes_":
                option = f"--{each.name.replace('_', '-')}"
                raise CommandError(f"{option} is about a model; give --model too")

    def flows(self, shape: Model | None, layout: ParallelLayout) -> Sequence[Flow]:
        """Return what is sent along every axis.

        Raises:
            CommandError: ``--bytes`` is malformed.
        """
        if shape is not None:
            return model_flows(shape, layout)
        return (
            () if self.bytes_ is None else given_flows(read_bytes(self.bytes_), layout)
        )


def _parameters(option: str, text: str | None) -> int | None:
    """Return the parameters in 70B or 6442450944, None if none are given."""
    if text is None:
        return None
    match = _PARAMETERS.fullmatch(text)
    number = 0 if match is None else round(float(match[1]) * _THOUSANDS[match[2]])
    if number < 1:
        raise CommandError(
            f"{option}: {text!r} is not a number such as 70B or 6442450944"
        )
    return number


@with_options(layout_options=LayoutOptions, traffic=TrafficOptions)
def plan(
    *,
    file: FileArgument = None,
    layout_options: LayoutOptions,
    racks: RacksOption = None,
    links: LinksOption = None,
    traffic: TrafficOptions,
    groups: Annotated[
        str | None, valued("LIST", "More groups to show: dp-cp,embedding.")
    ] = None,
    output: Annotated[
        str | None,
        valued("FILE", "Write the table with the better order.", "--output", "-o"),
    ] = None,
    force: ReplaceFileOption = False,
    format: OutputFormatOption = "text",
    color: ColorOption = Color.AUTO,
) -> None:
    """Compare traffic between nodes and racks with a lower bound.

    The lower bound holds for every placement of the ranks. If the bytes are known, a
    better order of the nodes is looked for, in which every node keeps consecutive
    ranks.

    Example: ranktable plan sccl_rank_table.json --tp 4 --model 2x64 --seq 8 --micro 4
    """
    layout_options.refuse_clash()
    if output is not None:
        output_file(output)  # a wrong name is said before the work
    shape = traffic.shape()
    if output is not None and shape is None and traffic.bytes_ is None:
        raise CommandError(
            "the bytes that are sent are not known; give --model with --seq and "
            "--micro, or --bytes"
        )
    read = sound_table(file)
    table = read.table
    layout = layout_options.layout(table)
    warn_of_refusal(layout)
    made = make_plan(
        table,
        layout,
        flows=traffic.flows(shape, layout),
        boundaries=holders(racks, table, format, color),
        shown=() if groups is None else groups.split(","),
    )
    chips = links_of(links, table)
    placed = reorder_nodes(table, made.node_order) if made.is_better else table
    rings = None if chips is None else _rings(chips, table, placed, made)
    pieces = (
        render_plan_json(read.name, made, rings)
        if format == "json"
        else render_plan(read.name, made, style_of(color), rings)
    )
    if is_standard_output(output):
        sys.stderr.writelines(pieces)
    else:
        write(pieces)
    if output is not None:
        placed = remembering(placed, layout, topology=links)
        size = table_size(table) + ("" if made.is_better else ", in the old order")
        known = {read.name: read.data}
        put_text(output, dumps(placed), size, force=force, read=known)


def _rings(
    chips: Topology, table: RankTable, placed: RankTable, made: Plan
) -> RingRows:
    costs = made.costs
    before, after = (
        ring_rows(one, costs.layout, chips, costs.row_names) for one in (table, placed)
    )
    return RingRows(before=before, after=after)
