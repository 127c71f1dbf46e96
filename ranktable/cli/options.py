"""Options of several commands: the layout, racks, links between chips, and bytes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ranktable.cli import completion
from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    OutputFormat,
    show_findings,
)
from ranktable.cli.parameters import valued
from ranktable.cli.sources import read_input
from ranktable.cli.table_input import spec_in
from ranktable.cluster.host_lists import fold_hosts
from ranktable.layout.boundaries import (
    Hierarchy,
    Level,
    boundaries_of,
    counted_levels,
    grouped_order,
    is_level_list,
    super_pods,
)
from ranktable.layout.grid import INFERRED, find_preset
from ranktable.layout.parallel import OWN_AXIS, ParallelLayout, remembered, spelt
from ranktable.layout.planning import reorder_nodes
from ranktable.schema.declare import LAYOUT_KEY, TOPOLOGY_KEY
from ranktable.schema.file_kind import DESCRIPTIONS
from ranktable.schema.remembered_layout import SIZES
from ranktable.schema.text import counted, printable
from ranktable.schema.topology import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.change.facts import CostFacts
    from ranktable.schema.file_kind import Source
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology


DEFAULT_PRESET: Final = "megatron"


def warn_of_refusal(layout: ParallelLayout) -> None:
    """Print a warning on standard error if Megatron refuses the order of a layout."""
    if layout.refusal is not None:
        sys.stderr.write(f"warning: {layout.refusal}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """The options of the layout."""

    tp: Annotated[int | None, valued("SIZE", "Tensor parallel ranks.")] = None
    cp: Annotated[int | None, valued("SIZE", "Context parallel ranks.")] = None
    pp: Annotated[int | None, valued("SIZE", "Stages of the pipeline.")] = None
    dp: Annotated[
        int | None,
        valued("SIZE", "Data parallel ranks; by default, and with -1, the rest."),
    ] = None
    ep: Annotated[int | None, valued("SIZE", "Expert parallel ranks.")] = None
    etp: Annotated[int | None, valued("SIZE", "Ranks that share one expert.")] = None
    dp_replicate: Annotated[
        int | None, valued("SIZE", "Replicas within dp; each is sharded.")
    ] = None
    order: Annotated[
        str | None,
        valued(
            "ORDER", "Order of the axes; the first one changes fastest: tp-cp-ep-dp-pp."
        ),
    ] = None
    ep_style: Annotated[
        str | None,
        valued(
            "LIBRARY",
            "Library whose meaning of --ep is used, as megatron or vllm.",
            completes=completion.ep_styles,
        ),
    ] = None
    preset: Annotated[
        str | None,
        valued(
            "LIBRARY",
            "Order and expert style of a library, as torchtitan or jax.",
            completes=completion.presets,
        ),
    ] = None

    @property
    def are_given(self) -> bool:
        """Whether an option is given."""
        return self != LayoutOptions()

    def refuse_clash(self) -> None:
        """Raise CommandError if a preset is given together with its own options."""
        if self.preset and (self.order is not None or self.ep_style is not None):
            raise CommandError(
                "--preset is an order and an --ep-style; give it or them"
            )

    def layout(
        self,
        table: RankTable,
        *,
        with_dp: bool = True,
        is_needed: bool = False,
        may_lack_ranks: bool = False,
        world_size: int | None = None,
    ) -> ParallelLayout:
        """Return the layout of a table: the stored one, or the one that is given.

        Args:
            table: The table.
            with_dp: Whether to use the given dp; if not, it follows from the other
                sizes.
            is_needed: Whether it is an error if there is no layout.
            may_lack_ranks: Whether the last ranks of the layout may be missing.
            world_size: Number of ranks, by default that of the table.

        Raises:
            CommandError: An option contradicts the stored layout, or a preset the other
                options; the stored layout does not match the table; or there is none.
            LayoutError: The layout is not valid.
        """
        self.refuse_clash()
        known = remembered(table)
        if known is not None:
            _refuse_other_size(known, table, may_lack_ranks=may_lack_ranks)
            self._refuse_contradiction(known, with_dp=with_dp)
            return known
        if is_needed and not self.are_given:
            raise CommandError(
                "the layout of the ranks is not known; give the sizes, such as "
                "--tp 8 --pp 4, or --dp -1 where every rank holds the whole model"
            )
        return self.given_layout(world_size or table.world_size, with_dp=with_dp)

    def whole_copies(self, world_size: int) -> int:
        """Return a number of ranks, with those that the last copy lacks."""
        sizes = [self.tp or 1, self.cp or 1, self.pp or 1]
        is_given = min(sizes) > 0 and self.dp in (None, INFERRED)
        return world_size + (-world_size % prod(sizes) if is_given else 0)

    def given_layout(self, world_size: int, *, with_dp: bool = True) -> ParallelLayout:
        """Return the layout of the options; dp follows from the other sizes.

        Raises:
            CommandError: A preset is given together with its own options.
            LayoutError: The layout is not valid.
        """
        self.refuse_clash()
        sizes = {name: getattr(self, name) for name in SIZES}
        if not with_dp:
            del sizes["dp"]
        sizes = {name: size for name, size in sizes.items() if size is not None}
        default = find_preset(DEFAULT_PRESET if self.preset is None else self.preset)
        style = default.ep_style if self.ep_style is None else self.ep_style
        factors = ("tp", "cp", "pp", *(["ep"] if style == OWN_AXIS else []))
        # dp is the rest, unless another size is -1.
        rest = 1 if any(sizes.get(name) == INFERRED for name in factors) else INFERRED
        return ParallelLayout(
            **{"dp": rest, **sizes},
            order=default.order if self.order is None else self.order,
            ep_style=style,
            world_size=world_size,
        )

    def _refuse_contradiction(self, known: ParallelLayout, *, with_dp: bool) -> None:
        given: dict[str, object] = {name: getattr(self, name) for name in SIZES}
        given["order"] = self.order
        given["ep_style"] = self.ep_style
        if self.preset is not None:
            preset = find_preset(self.preset)
            given |= {"order": preset.order, "ep_style": preset.ep_style}
        for name, value in given.items():
            if value in (None, INFERRED) or (name == "dp" and not with_dp):
                continue
            if value != getattr(known, name):
                option = f"--{name.replace('_', '-')}"
                raise CommandError(
                    f"{option} {value} contradicts the table, which remembers "
                    f'{spelt(known)}; leave it out, or change "layout" in the table'
                )


def _refuse_other_size(
    known: ParallelLayout, table: RankTable, *, may_lack_ranks: bool
) -> None:
    """Raise CommandError if a stored layout does not match a table.

    A table may have gaps that show how many ranks are missing.
    """
    end = table.rank_end
    has_gaps = end > table.world_size
    may_be_larger = may_lack_ranks or has_gaps
    if known.world_size < end or not (may_be_larger or known.world_size == end):
        size = f"rank {end - 1}" if has_gaps else str(table.world_size)
        raise CommandError(
            "the layout that the table remembers is one of "
            f"{counted(known.world_size, 'rank')}, and the table has "
            f'{size}; change or remove "{LAYOUT_KEY}" in the table'
        )


RACKS_HELP = (
    "Racks of the nodes: a list of hosts and racks, a cluster spec, topology.conf, or "
    "how many nodes each has: rack=4,pod=16."
)
RacksOption = Annotated[str | None, valued("RACKS", RACKS_HELP)]
LinksOption = Annotated[
    str | None,
    valued(
        "LINKS",
        "Links of every host: sophgo-8, or a file with a matrix or pairs; by default "
        "those that the table names.",
        completes=completion.links,
    ),
]
BytesOption = Annotated[
    str | None,
    valued(
        "LIST",
        "Bytes that each kind of group sends in a step: tp=16GiB,dp=2.25GiB.",
        "--bytes",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """Options for racks, links between chips, and bytes."""

    racks: RacksOption = None
    links: LinksOption = None
    bytes_: BytesOption = None

    def facts(self, table: RankTable, more: Sequence[str] = ()) -> CostFacts:
        """Return the facts besides the table that decide about a change.

        Args:
            table: The table.
            more: New hosts, or all hosts of a changed table. A list of levels counts
                new ones after the table's spares, unless they are where one is gone.

        Raises:
            CommandError: An option is malformed, or contradicts the table.
        """
        from ranktable.layout.change.facts import CostFacts
        from ranktable.layout.change.nodes import node_names

        racks = None
        if self.racks is not None:
            spares = [str(spare.host) for spare in table.spares]
            own = node_names(table.nodes)
            # A host in the place of one that is gone stands in its rack.
            gone, come = {*own} - {*more}, {*more} - {*own}
            instead = {
                new: old
                for old, new in zip(own, more, strict=False)
                if old in gone and new in come
            }
            names = [*own, *spares, *(one for one in more if one not in instead)]
            names = list(dict.fromkeys(names))
            racks = read_racks(self.racks, names, "text", Color.AUTO)
            if is_level_list(self.racks):
                racks = racks.with_hosts(instead)
        return CostFacts(
            sizes=None if self.bytes_ is None else read_bytes(self.bytes_),
            racks=racks,
            racks_file=self.racks or "",
            links=links_of(self.links, table),
        )


def links_of(links: str | None, table: RankTable) -> Topology | None:
    """Return the links between chips: the given ones, or those that the table names.

    Raises:
        CommandError: Both are known and differ.
    """
    named = table.extra.get(TOPOLOGY_KEY)
    if links is None:
        # A table must not decide which files are read.
        return next((one for one in BUILT_IN if one.name == named), None)
    if isinstance(named, str) and named != links:
        raise CommandError(
            f"--links {links} contradicts the table, which remembers {named}; leave "
            f'it out, or change "{TOPOLOGY_KEY}" in the table'
        )
    from ranktable.schema.topology_file import find_topology

    return find_topology(links)


def read_bytes(text: str) -> dict[str, float]:
    """Return the bytes of every axis, given ``tp=16GiB,dp=2.25GiB``.

    Raises:
        CommandError: It has another form.
    """
    from ranktable.layout.traffic import parse_size

    found: dict[str, float] = {}
    for item in text.split(","):
        axes, equals, size = item.partition("=")
        if not equals or not axes:
            raise CommandError(f"--bytes: {item!r} is not axes and bytes, as tp=16GiB")
        if axes in found:
            raise CommandError(f"--bytes: {axes} is given twice")
        found[axes] = parse_size(size)
    return found


def holders(
    racks: str | None, table: RankTable, form: OutputFormat, color: Color
) -> list[Boundary]:
    """Return the groups of nodes: the table's super pods, and the given racks.

    Raises:
        CommandError: The racks cannot be read.
    """
    pods = super_pods(table)
    found = [] if pods is None else [pods]
    if racks is not None:
        hosts: Sequence[str | None] = table.hosts
        if is_level_list(racks) and not os.path.exists(racks):
            hosts = [host or f"node {at}" for at, host in enumerate(hosts)]
        named = [host for host in hosts if host is not None]
        read = read_racks(racks, named, form, color)
        found += boundaries_of(read, hosts, file=racks)
    return sorted(found, key=lambda boundary: -len(boundary.labels))


def read_racks(
    racks: str, names: Sequence[str], form: OutputFormat, color: Color
) -> Hierarchy:
    """Return the groups of nodes in a file, or those of a list of levels.

    Args:
        racks: The file or the list.
        names: Names of the nodes, which a list of levels counts.
        form: Form of findings about the file.
        color: Whether these are colored.

    Raises:
        CommandError: The racks cannot be read.
    """
    if is_level_list(racks) and not os.path.exists(racks):
        return counted_levels(racks, names)
    from ranktable.cluster.specs.read_spec import looks_like_spec
    from ranktable.layout.rack_files import (
        MAX_SIZE_BYTES,
        is_known_by_content,
        read_rack_file,
    )

    source = read_input(racks, MAX_SIZE_BYTES)
    name, data = source
    is_yaml = racks.endswith(DESCRIPTIONS[:2])
    if looks_like_spec(data) or (is_yaml and not is_known_by_content(data)):
        return _racks_of_spec(source)
    report, hierarchy = read_rack_file(data, file=name)
    if hierarchy is None:
        show_findings([report], "json" if form == "json" else None, color)
        raise typer.Exit(DEFECTS_FOUND)
    if report.totals:
        show_findings([report], None, color, aside=True)
    if hierarchy.refusal:
        raise CommandError(f"{printable(name)}: {hierarchy.refusal}")
    return hierarchy


def in_rack_order(table: RankTable, racks: str) -> tuple[RankTable, str]:
    """Return a table in which the nodes of each rack follow each other, and a line.

    Racks, and nodes in a rack, keep the order of their ranks. The line says in which
    order the hosts are.

    Raises:
        CommandError: The racks cannot be read, or the table names no hosts.
    """
    first = [node.devices[0].rank for node in table.nodes]
    places = sorted(range(len(first)), key=first.__getitem__)
    hosts = [host for at in places if (host := table.hosts[at]) is not None]
    if len(hosts) < table.num_nodes:
        raise CommandError(
            "--racks needs the names of the hosts: gen --hosts LIST, or convert "
            "--hosts LIST"
        )
    levels = read_racks(racks, hosts, "text", Color.AUTO)
    order = grouped_order(boundaries_of(levels, hosts, file=racks), len(hosts))
    names = printable(" and ".join(level.name for level in levels.levels))
    if order == [*range(table.num_nodes)]:
        return table, f"the hosts follow each other by {names} already\n"
    listed = printable(fold_hosts([hosts[node] for node in order]))
    placed = reorder_nodes(table, [places[node] for node in order])
    return placed, f"hosts in the order of {names}: {listed}\n"


def _racks_of_spec(source: Source) -> Hierarchy:
    """Return the racks of a cluster spec.

    Raises:
        CommandError: It has none, or is not sound.
    """
    spec = spec_in(source)
    if spec.racks is None or spec.hosts is None:
        raise CommandError(
            f"{source.name} names no {'racks' if spec.hosts else 'hosts'}"
        )
    labels = [f"rack {rack + 1}" for rack in spec.racks]
    groups = dict(zip(spec.hosts, labels, strict=True))
    return Hierarchy(levels=(Level(name="rack", groups=groups),))
