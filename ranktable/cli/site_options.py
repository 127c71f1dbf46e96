"""The options that say what decides about a placement beside the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli import Color, CommandError, OutputFormat, completion
from ranktable.layout.change.site import Site
from ranktable.layout.traffic import parse_size
from ranktable.schema.format import TOPOLOGY_KEY
from ranktable.schema.topology import BUILT_IN
from ranktable.schema.topology_file import find_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology

TOPOLOGY_HELP = (
    "What holds nodes: Slurm's topology.conf, topology.yaml or scontrol show topology, "
    "kubectl get nodes -o json, a list of hosts and racks, or numbers of nodes, "
    "rack=4,pod=16."
)
LINKS_HELP = (
    "Links of every host: sophgo-8, or a file with a matrix or pairs; by default those "
    "that the table names."
)
BYTES_HELP = "Bytes of a group and step: tp=16GiB,dp=2.25GiB,pp=256MiB."


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
        from ranktable.cli.plan_input import racks_of  # noqa: PLC0415 - rare

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
