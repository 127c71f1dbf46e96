"""``ranktable gen``: chips on the command line, a sound table in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.failure import CommandError
from ranktable.cli.output import write
from ranktable.cli.output_file import DEFAULT_FILE, output_file
from ranktable.runtime.table import VARIABLE
from ranktable.schema.wording import counted, printable

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable


def gen(
    device_id: Annotated[
        str,
        typer.Option(
            "--device-id",
            "--device_id",
            metavar="LISTS",
            help="Chips of each node in rank order: '[[0..7]]', '[[3,1,0,2],[0..3]]'.",
        ),
    ],
    device_ip: Annotated[
        str | None,
        typer.Option(
            "--device-ip",
            "--device_ip",
            metavar="LISTS",
            help="Addresses: one a node, \"['10.0.0.5','10.0.0.6']\", or one a chip.",
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Host of each node: n[001-128],login."),
    ] = None,
    emulator: Annotated[
        bool,
        typer.Option("--emulator", help="The addresses are those of emulated devices."),
    ] = False,
    ring: Annotated[
        str | None,
        typer.Option(
            metavar="TOPOLOGY",
            help="Put each node's chips in ring order: sophgo-8, or a file of links.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"By default ${VARIABLE}, else {DEFAULT_FILE}; - prints the table.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a file that holds a different table."),
    ] = False,
) -> None:
    """Generate a rank table.

    Each rank stands twice, as rank and as world_rank, so that both readers of the
    vendor find it. Nothing is written when something is wrong.

    Example: ranktable gen --device-id '[[0..7]]' --ring sophgo-8
    """
    from ranktable.schema.writing import dumps  # noqa: PLC0415 - not for --help

    table = _table(device_id, device_ip, hosts, ring, is_emulated=emulator)
    data = dumps(table)
    _warn(data, ring)
    if output == "-":
        write([data.decode()])
        return
    name = output_file(output)
    done = _write(name, table, data, force=force)
    nodes = counted(len(table.nodes), "node")
    ranks = counted(table.world_size, "rank")
    sys.stderr.write(f"{done} {printable(name)}: {nodes}, {ranks}\n")


def _warn(data: bytes, ring: str | None) -> None:
    """Say on standard error what ``validate`` will note about the table."""
    from ranktable.schema.check import check  # noqa: PLC0415 - not for --help

    for diagnostic in check(data, topology=ring, limit=1).diagnostics:
        severity = diagnostic.severity.value
        sys.stderr.write(f"{severity}[{diagnostic.code}]: {diagnostic.message}\n")
        if diagnostic.hint is not None:
            sys.stderr.write(f"help: {diagnostic.hint}\n")


def _table(
    device_id: str,
    device_ip: str | None,
    hosts: str | None,
    ring: str | None,
    *,
    is_emulated: bool,
) -> RankTable:
    from ranktable.cluster.argument import ArgumentError  # noqa: PLC0415
    from ranktable.cluster.device_list import (  # noqa: PLC0415 - not for --help
        parse_address_list,
        parse_device_list,
    )
    from ranktable.cluster.generate import make_table, ring_order  # noqa: PLC0415
    from ranktable.schema.topology_file import find_topology  # noqa: PLC0415

    try:
        option = "--device-id"
        parsed = parse_device_list(device_id)
        chips = [[chip.device_id for chip in node] for node in parsed]
        option = "--ring"
        if ring is not None:
            topology = find_topology(ring)
            chips = [ring_order(node, topology) for node in chips]
        option = "--device-ip"
        addresses = None
        if device_ip is not None:
            addresses = parse_address_list(device_ip, [len(node) for node in chips])
        elif is_emulated:
            raise CommandError("--emulator needs the addresses: --device-ip LISTS")
        option = "--hosts"
        names = None if hosts is None else _hosts(hosts, len(chips))
    except ArgumentError as error:
        raise CommandError(f"{option}: {error}") from None
    return make_table(chips, addresses=addresses, hosts=names, is_emulated=is_emulated)


def _hosts(text: str, num_nodes: int) -> list[str]:
    """Return the host of each node."""
    from ranktable.cluster.argument import ArgumentError  # noqa: PLC0415
    from ranktable.cluster.hosts import expand_hosts  # noqa: PLC0415

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


def _write(name: str, table: RankTable, data: bytes, *, force: bool) -> str:
    """Write the file unless it holds another table; return what was done."""
    from ranktable.schema.check import check  # noqa: PLC0415 - not for --help
    from ranktable.schema.writing import replace_file  # noqa: PLC0415

    path = Path(name)
    if path.is_file() and not force:
        if path.read_bytes() == data:
            return "unchanged"
        there = check(path).table
        if there is None or there.digest() != table.digest():
            what = "a different table" if there else "something else"
            raise CommandError(
                f"{name} holds {what}; --force replaces it, --output names another"
            )
    replace_file(name, data)
    return "wrote"
