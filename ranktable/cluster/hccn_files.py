"""The addresses of a table's devices, from one hccn.conf for each server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.discovery.ascend import parse_hccn
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.schema.text import folded, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.schema.model import RankTable


def addresses_from(
    given: Sequence[str], table: RankTable, read: Callable[[str], str]
) -> list[list[str]]:
    """Return the address of every device, from the hccn.conf of its server.

    Args:
        given: The files in the order of the servers, or each as HOST=FILE.
        table: The table whose devices get the addresses.
        read: Returns the text of a file.

    Raises:
        ArgumentError: A server has no file, or a file lacks a device.
    """
    files = _by_server(given, table)
    texts = {name: read(name) for name in files}
    found = []
    for place, node in enumerate(table.nodes):
        name = files[place]
        try:
            addresses = parse_hccn(texts[name])
        except NotDetectedError as error:
            raise ArgumentError(f"{printable(name)}: {error}") from None
        chips = [device.device_id for device in node.devices]
        missing = sorted(chip for chip in chips if chip not in addresses)
        if missing:
            host = f"node {place}" if node.host is None else printable(node.host)
            keys = f"address_{missing[0]}" if len(missing) == 1 else "addresses"
            raise ArgumentError(
                f"{printable(name)} has no {keys} of device {folded(missing)} "
                f"of {host}",
                hint="set it with hccn_tool -i N -ip -s, or give --device-ip",
            )
        found.append([addresses[chip] for chip in chips])
    return found


def _files_by_host(given: Sequence[str]) -> dict[str, str]:
    """Return the files that are given as HOST=FILE by host, {} if there are none.

    Raises:
        ArgumentError: Some are given without a host, or a host has two files.
    """
    pairs = [item.split("=", 1) for item in given if "=" in item]
    pairs = [pair for pair in pairs if "/" not in pair[0]]  # a folder may have a "="
    hosts = Counter(host for host, _ in pairs)
    twice = [host for host, times in hosts.items() if times > 1]
    if twice:
        raise ArgumentError(f"--hccn-conf names {printable(twice[0])} twice")
    if 0 < len(pairs) < len(given):
        raise ArgumentError(
            "--hccn-conf names a server for some files only",
            hint="write HOST=FILE for all of them, or for none",
        )
    return dict(pairs)


def _by_server(given: Sequence[str], table: RankTable) -> Sequence[str]:
    """Return the file of every server, in their order."""
    named = _files_by_host(given)
    if named:
        lacking = [host for host in table.hosts if host not in named]
        unknown = [host for host in named if host not in table.hosts]
        if lacking or unknown:
            what = "has no file for" if lacking else "names an unknown server,"
            host = printable(str((lacking or unknown)[0]))
            raise ArgumentError(f"--hccn-conf {what} {host}")
        return [named[str(host)] for host in table.hosts]
    if len(given) != table.num_nodes:
        raise ArgumentError(
            f"--hccn-conf is given {len(given)} times for {table.num_nodes} servers",
            hint="give one for every server, in their order, or HOST=FILE",
        )
    return given
