"""What decides about a placement beside the table: racks, links, bytes, the model."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    FindingsFormat,
    OutputFormat,
    completion,
    show_findings,
)
from ranktable.cli.input_output import read_input
from ranktable.layout.boundaries import (
    boundaries_of,
    boundaries_of_levels,
    is_level_list,
    super_pods,
)
from ranktable.layout.change.site import Site
from ranktable.layout.topologies.reading import MAX_JSON_BYTES, read_topology
from ranktable.layout.traffic import (
    Model,
    given_flows,
    model_flows,
    parse_rate,
    parse_size,
)
from ranktable.schema.format import TOPOLOGY_KEY
from ranktable.schema.topology import BUILT_IN
from ranktable.schema.topology_file import find_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.boundaries import Boundary, Hierarchy
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.traffic import Flow
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology

_MODEL = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")
_PARAMETERS = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([KMBT]?)")
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}

TOPOLOGY_HELP = (
    "Racks and pods of the nodes: Slurm's topology.conf, topology.yaml or the output "
    "of scontrol show topology, that of kubectl get nodes -o json, a list of hosts and "
    "racks, or how many nodes each has: rack=4,pod=16."
)
LINKS_HELP = (
    "Links of every host: sophgo-8, or a file with a matrix or pairs; by default those "
    "that the table names."
)
BYTES_HELP = (
    "Bytes that each kind of group sends in a step: tp=16GiB,dp=2.25GiB,pp=256MiB."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """Racks, links of chips, and bytes."""

    topology: Annotated[
        str | None, typer.Option(metavar="TOPOLOGY", help=TOPOLOGY_HELP)
    ] = None
    links: Annotated[
        str | None,
        typer.Option(metavar="LINKS", help=LINKS_HELP, autocompletion=completion.links),
    ] = None
    bytes_: Annotated[
        str | None, typer.Option("--bytes", metavar="LIST", help=BYTES_HELP)
    ] = None

    def site(self, table: RankTable) -> Site:
        """Return what is known beside a table.

        Raises:
            CommandError: An option is malformed, or contradicts the table.
        """
        return Site(
            sizes=None if self.bytes_ is None else read_bytes(self.bytes_),
            racks=None if self.topology is None else self._racks,
            links=links_of(self.links, table),
        )

    def _racks(self, table: RankTable) -> Sequence[Boundary]:
        if self.topology is None:
            return ()
        return racks_of(self.topology, table, OutputFormat.TEXT, Color.AUTO)


def links_of(links: str | None, table: RankTable) -> Topology | None:
    """Return the links of the chips: those given, or those that the table names.

    Raises:
        CommandError: These are not the same.
    """
    named = table.extra.get(TOPOLOGY_KEY)
    if links is None:
        # A file is not read on the word of another file.
        return next((one for one in BUILT_IN if one.name == named), None)
    if isinstance(named, str) and named != links:
        raise CommandError(
            f"--links {links} contradicts the table, which remembers {named}; leave "
            f'it out, or change "{TOPOLOGY_KEY}" in the table'
        )
    return find_topology(links)


def read_bytes(text: str) -> dict[str, float]:
    """Return the bytes of every axis in ``tp=16GiB,dp=2.25GiB``.

    Raises:
        CommandError: It is none.
    """
    found: dict[str, float] = {}
    for item in text.split(","):
        axes, equals, size = item.partition("=")
        if not equals or not axes:
            raise CommandError(f"--bytes: {item!r} is not axes and bytes, as tp=16GiB")
        if axes in found:
            raise CommandError(f"--bytes: {axes} is given twice")
        found[axes] = parse_size(size)
    return found


def given_model(
    *,
    model: str | None,
    seq: int | None,
    micro: int | None,
    micro_size: int,
    params: str | None,
    kv_hidden: int | None,
    topk: int | None,
    experts: int | None,
    expert_params: str | None,
    interleave: int,
    sizes: str | None,
) -> Model | None:
    """Return the model that the options describe, None where there is none.

    Raises:
        CommandError: An option is malformed, missing or without a use.
    """
    told = {
        "--seq": seq,
        "--micro": micro,
        "--params": params,
        "--kv-hidden": kv_hidden,
        "--topk": topk,
        "--experts": experts,
        "--expert-params": expert_params,
        "--micro-size": None if micro_size == 1 else micro_size,
        "--interleave": None if interleave == 1 else interleave,
    }
    if model is None:
        idle = next((name for name, value in told.items() if value is not None), None)
        if idle is not None:
            raise CommandError(f"{idle} is about a model; give --model too")
        return None
    if sizes is not None:
        raise CommandError("--model and --bytes say the same; give one of them")
    if experts is not None and expert_params is not None:
        raise CommandError(
            "--experts and --expert-params say the same; give one of them"
        )
    match = _MODEL.fullmatch(model)
    if match is None:
        raise CommandError(f"--model: {model!r} is not layers x hidden, as 32x4096")
    if seq is None or micro is None:
        missing = " and ".join(name for name in ("--seq", "--micro") if not told[name])
        raise CommandError(f"--model needs {missing} to say how much is sent")

    return Model(
        layers=int(match[1]),
        hidden=int(match[2]),
        sequence=seq,
        microbatches=micro,
        microbatch=micro_size,
        parameters=None if params is None else _parameters(params),
        kv_hidden=kv_hidden,
        topk=topk,
        experts=experts,
        expert_parameters=(
            None
            if expert_params is None
            else _parameters(expert_params, "--expert-params")
        ),
        interleave=interleave,
    )


def read_bandwidths(text: str) -> dict[str, float]:
    """Return bytes a second by boundary in ``intra=400GB/s,node=50GB/s``.

    Raises:
        CommandError: It is not such a list.
    """
    found: dict[str, float] = {}
    for item in text.split(","):
        name, equals, rate = item.rpartition("=")
        if not equals or not name:
            raise CommandError(
                f"--bandwidth: {item!r} is not a boundary and bytes a second, as "
                "node=50GB/s"
            )
        if name in found:
            raise CommandError(f"--bandwidth: {name} is given twice")
        found[name] = parse_rate(rate)
    return found


def _parameters(text: str, option: str = "--params") -> int:
    match = _PARAMETERS.fullmatch(text)
    number = 0 if match is None else round(float(match[1]) * _THOUSANDS[match[2]])
    if number < 1:
        raise CommandError(
            f"{option}: {text!r} is not a number such as 70B or 6442450944"
        )
    return number


def flows_of(
    model: Model | None, sizes: str | None, layout: ParallelLayout
) -> tuple[Flow, ...]:
    """Return what is sent along every axis.

    Raises:
        CommandError: ``--bytes`` is malformed.
    """
    if model is not None:
        return model_flows(model, layout)
    return given_flows({} if sizes is None else read_bytes(sizes), layout)


def holders(
    topology: str | None, table: RankTable, form: OutputFormat, color: Color
) -> list[Boundary]:
    """Return what holds several nodes: the table's super pods and a topology.

    Raises:
        CommandError: The topology cannot be read.
    """
    pods = super_pods(table)
    found = [] if pods is None else [pods]
    if topology is not None:
        found += racks_of(topology, table, form, color)
    return sorted(found, key=lambda boundary: -len(boundary.labels))


def racks_of(
    topology: str, table: RankTable, form: OutputFormat, color: Color
) -> tuple[Boundary, ...]:
    """Return what holds several nodes according to a file or a list of levels.

    Raises:
        CommandError: The topology cannot be read.
    """
    if is_level_list(topology) and not os.path.exists(topology):  # noqa: PTH110 - any name, no Path needed
        return boundaries_of_levels(topology, table)
    return boundaries_of(_hierarchy(topology, form, color), table, file=topology)


@lru_cache(maxsize=1)  # a change looks at the racks of several tables
def _hierarchy(name: str, form: OutputFormat, color: Color) -> Hierarchy:
    """Return what a file says holds nodes; show what is wrong with it."""
    _, data = read_input(name, MAX_JSON_BYTES)
    report, hierarchy = read_topology(data, file=name)
    if hierarchy is None:
        show_findings(
            [report], FindingsFormat.JSON if form is OutputFormat.JSON else None, color
        )
        raise typer.Exit(DEFECTS_FOUND)
    if report.totals:
        show_findings([report], None, color, aside=True)
    return hierarchy
