"""``ranktable gen``: make a sound table from chips or from a cluster spec."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from ranktable.cli import completion
from ranktable.cli.app import with_options
from ranktable.cli.options import LayoutOptions, in_rack_order
from ranktable.cli.output import CommandError, about, put_table
from ranktable.cli.parameters import (
    NewTableOption,
    ReplaceTableOption,
    RootOption,
    RunProgramsOption,
    flag,
    valued,
)
from ranktable.cli.table_input import table_of_spec
from ranktable.cli.this_node import ROOT, probe_node
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.discovery.device_nodes import vendor_of_node
from ranktable.cluster.generate import (
    grouped_ring_order,
    make_table,
    parse_address_list,
    parse_device_list,
    ring_order,
)
from ranktable.cluster.host_lists import expand_hosts
from ranktable.layout.parallel import neighbouring_tp, remembering
from ranktable.schema.formats import DEFAULT
from ranktable.schema.report import Options
from ranktable.schema.table_readers import reader_by_name
from ranktable.schema.text import counted
from ranktable.schema.topology_file import find_topology
from ranktable.schema.writing import dumps_judged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.finding import Finding
    from ranktable.schema.model import RankTable
    from ranktable.schema.table_readers import TableReader
    from ranktable.schema.topology import Topology


@with_options(layout_options=LayoutOptions)
def gen(
    *,
    device_id: Annotated[
        str | None,
        valued(
            "LISTS",
            "Chips of each node in rank order, '[[3,1,0,2],[0..3]]', or of every host, "
            "'[[0..7]]'; by default those of ranktable probe.",
            "--device-id",
            "--device_id",
        ),
    ] = None,
    spec: Annotated[
        str | None,
        valued(
            "FILE", "Read nodes, chips, ring and addresses from a cluster spec instead."
        ),
    ] = None,
    device_ip: Annotated[
        str | None,
        valued(
            "LISTS",
            "Addresses: one per node, \"['10.0.0.5','10.0.0.6']\", or one per chip.",
            "--device-ip",
            "--device_ip",
        ),
    ] = None,
    hosts: Annotated[
        str | None, valued("LIST", "Host of each node: n[001-128],login.")
    ] = None,
    emulator: Annotated[
        bool, flag("The addresses are those of emulated devices.", "--emulator")
    ] = False,
    ring: Annotated[
        str | None,
        valued(
            "TOPOLOGY",
            "Put each node's chips in ring order: sophgo-8, or a file of links; "
            "with --tp one whose groups are rings too.",
            completes=completion.links,
        ),
    ] = None,
    racks: Annotated[
        str | None,
        valued(
            "RACKS",
            "Put the hosts of one rack together: topology.conf or another file of "
            "racks, as for plan.",
        ),
    ] = None,
    reader: Annotated[
        str | None,
        valued(
            "READER",
            "Communication library of the job: sccl, hccl or nccl; by default as the "
            "chips of this node say.",
            "--for",
            completes=completion.readers,
        ),
    ] = None,
    layout_options: LayoutOptions,
    output: NewTableOption = None,
    force: ReplaceTableOption = False,
    root: RootOption = ROOT,
    run_programs: RunProgramsOption = False,
) -> None:
    """Generate a rank table.

    Each rank is written twice, as rank and as world_rank, because the vendor's two
    readers read different keys. If there is an error, nothing is written. Without
    --device-id the table has this node, with its host name and its chips. Sizes such as
    --tp are saved in the table, for the commands that need them.

    Example: ranktable gen --device-id '[[0..7]]' --ring sophgo-8
    """
    vendor = vendor_of_node(root)
    if spec is not None:
        _refuse_beside_spec(device_id, device_ip, hosts, ring)

        table, ring = table_of_spec(spec, is_emulated=emulator)
        layout = _layout(layout_options, table.world_size)
        links = None if ring is None else find_topology(ring)
    else:
        chips = (
            _given(device_id, hosts)
            if device_id is not None
            else _seen(root, hosts, run_programs=run_programs)
        )
        vendor = chips.vendor or vendor
        layout = _layout(layout_options, sum(map(len, chips.device_ids)))
        links = None if ring is None else find_topology(ring)
        if links is not None:
            tp = 1 if layout is None else neighbouring_tp(layout)
            with about("--ring" if tp == 1 else f"--ring {ring} --tp {tp}"):
                chips = _in_ring_order(chips, links, tp)
        table = _table(chips, device_ip, hosts, is_emulated=emulator)
    if racks is not None:
        table, said = in_rack_order(table, racks)
        sys.stderr.write(said)
    if layout is not None or ring is not None:
        table = remembering(table, layout, topology=ring)
    library = None if reader is None else _reader(reader)
    if vendor is None and library is None:  # without device nodes a tool may know
        vendor = probe_node(root, run_programs=run_programs, host="this-node").vendor
    options = Options(topology=links, limit=1, reader=library, vendor=vendor)
    data, found = dumps_judged(table, DEFAULT, options=options)
    _say(found)
    put_table(output, table, data, force=force)


def _reader(name: str) -> TableReader:
    """Return the reader with this name.

    Raises:
        CommandError: There is none.
    """
    try:
        return reader_by_name(name)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _layout(options: LayoutOptions, world_size: int) -> ParallelLayout | None:
    """Return the layout that is given, None if none is given."""
    return None if options == LayoutOptions() else options.given_layout(world_size)


def _refuse_beside_spec(
    device_id: str | None, device_ip: str | None, hosts: str | None, ring: str | None
) -> None:
    """Raise CommandError for an option whose value is in the spec."""
    options = {
        "--device-id": device_id,
        "--device-ip": device_ip,
        "--hosts": hosts,
        "--ring": ring,
    }
    given = [option for option, value in options.items() if value is not None]
    if given:
        raise CommandError(f"--spec and {given[0]} do not go together")


def _say(found: Iterable[Finding]) -> None:
    """Print on standard error what ``validate`` will note about the table."""
    first: dict[str, Finding] = {}
    for finding in found:
        first.setdefault(finding.rule.code, finding)
    for finding in first.values():
        rule = finding.rule
        sys.stderr.write(f"{rule.severity.value}[{rule.code}]: {finding.message}\n")
        if finding.hint is not None:
            sys.stderr.write(f"help: {finding.hint}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _GivenChips:
    """The chips of every node, and other facts from a probe."""

    device_ids: list[list[int]]
    hosts: list[str] | None = None
    addresses: dict[int, str] = field(default_factory=dict)
    vendor: str | None = None


def _given(text: str, hosts: str | None) -> _GivenChips:
    """Return the chips that an option lists; one list holds for every host."""
    with about("--device-id"):
        parsed = parse_device_list(text)
    device_ids = [[chip.device_id for chip in node] for node in parsed]
    if hosts is not None and len(device_ids) == 1:
        with about("--hosts"):
            device_ids *= max(1, len(expand_hosts(hosts)))
    return _GivenChips(device_ids=device_ids)


def _seen(root: str, hosts: str | None, *, run_programs: bool) -> _GivenChips:
    """Return the chips of this node, whose own name is not needed beside hosts."""
    name = None if hosts is None else "this-node"
    found = probe_node(root, run_programs=run_programs, host=name)
    if not found.chips:
        reasons = "; ".join(f"{item.what}: {item.why}" for item in found.unseen)
        raise CommandError(
            f"no --device-id is given, and no chips were found on {found.host}\n"
            f"looked for {reasons}\n"
            "help: write the chips, for example --device-id '[[0..7]]', or --spec FILE"
        )
    return _GivenChips(
        device_ids=[[chip.device_id for chip in found.chips]],
        hosts=[found.host],
        addresses={c.device_id: c.address for c in found.chips if c.address},
        vendor=found.vendor,
    )


def _table(
    chips: _GivenChips,
    device_ip: str | None,
    hosts: str | None,
    *,
    is_emulated: bool,
) -> RankTable:
    device_ids, names = chips.device_ids, chips.hosts
    addresses: list[list[str | None]] | None = None
    if device_ip is not None:
        sizes = [len(node) for node in device_ids]
        with about("--device-ip"):
            addresses = [list(node) for node in parse_address_list(device_ip, sizes)]
    elif is_emulated:
        raise CommandError("--emulator needs the addresses: --device-ip LISTS")
    elif chips.addresses:
        addresses = [[chips.addresses.get(i) for i in node] for node in device_ids]
    if hosts is not None:
        with about("--hosts"):
            names = _hosts(hosts, len(device_ids))
    return make_table(
        device_ids, addresses=addresses, hosts=names, is_emulated=is_emulated
    )


def _in_ring_order(chips: _GivenChips, topology: Topology, tp: int) -> _GivenChips:
    """Return the chips of each node in ring order, which closes groups of tp too."""
    if tp == 1:
        found = [ring_order(node, topology) for node in chips.device_ids]
        return replace(chips, device_ids=found)
    orders = [grouped_ring_order(node, topology, tp) for node in chips.device_ids]
    for order in orders:
        if not order.is_proven:
            listed = ",".join(map(str, order.chips))
            sys.stderr.write(
                f"note: the order {listed} takes {order.hops} hops around the groups "
                f"of {tp}; a short search found none better\n"
            )
    return replace(chips, device_ids=[list(order.chips) for order in orders])


def _hosts(text: str, num_nodes: int) -> list[str]:
    """Return the host of each node."""
    hosts = expand_hosts(text)
    if len(hosts) != num_nodes:
        raise ArgumentError(
            f"{counted(len(hosts), 'host')} for {counted(num_nodes, 'node')}",
            hint="give one host a node, in the order of the nodes",
        )
    if len(set(hosts)) < len(hosts):
        twice = next(host for host in hosts if hosts.count(host) > 1)
        raise ArgumentError(f"the host {twice} is given twice")
    return hosts
