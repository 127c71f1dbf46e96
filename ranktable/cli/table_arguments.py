"""Options of ``ranktable convert``: values that a format needs and a file lacks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ranktable.cli.output import about
from ranktable.cli.parameters import number, valued
from ranktable.cli.sources import MIB, read_input
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.conversion import TableOptions
from ranktable.cluster.discovery.ascend import parse_hccn
from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.cluster.generate import parse_address_list, parse_numbers
from ranktable.schema.text import folded, printable

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable

_Text = str | None


@dataclass(frozen=True, kw_only=True)
class WriterArguments:
    """Options for a launcher's file; each is a field of ``WriterOptions``."""

    script: Annotated[
        _Text, valued("SCRIPT", "Script to start on every node; by default train.py.")
    ] = None
    port: Annotated[
        int | None,
        number("PORT", "Port of the rendezvous.", min=1, max=65535),
    ] = None
    name: Annotated[
        _Text, valued("NAME", "Name of a job and its pods; by default train.")
    ] = None
    image: Annotated[_Text, valued("IMAGE", "Image of the containers of a job.")] = None
    resource: Annotated[
        _Text, valued("NAME", "Resource that a chip is: vendor.com/chip.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TableArguments:
    """Options for a rank table."""

    device_ip: Annotated[
        _Text,
        valued(
            "LISTS",
            "Addresses of the devices of each server: [['10.0.0.5','10.0.1.5']].",
        ),
    ] = None
    hccn_conf: Annotated[
        list[str] | None,
        valued(
            "FILE",
            "The hccn.conf of each server in their order, or HOST=FILE: its "
            "address_N is the device_ip of device N. Repeat it for every server.",
        ),
    ] = None
    super_device_id: Annotated[
        _Text,
        valued(
            "LIST",
            "Of every device in the order of servers and ranks: 0-15,65536-65551.",
        ),
    ] = None
    pods: Annotated[
        _Text, valued("LIST", "Super pod of each server, 0,0,1,1, or one for all.")
    ] = None

    def options(self, table: RankTable) -> TableOptions:
        """Return the options for a table.

        Raises:
            ArgumentError: One is malformed or does not match the table.
        """
        if self.device_ip is not None and self.hccn_conf:
            raise ArgumentError("--device-ip and --hccn-conf do not go together")
        addresses = None
        if self.device_ip is not None:
            sizes = [len(node.devices) for node in table.nodes]
            addresses = parse_address_list(self.device_ip, sizes)
        elif self.hccn_conf:
            addresses = _addresses(self.hccn_conf, table)
        supers, pods = self.super_device_id, self.pods
        return TableOptions(
            device_ips=addresses,
            super_device_ids=None if supers is None else _numbers(supers),
            pods=None if pods is None else _names(pods),
        )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise ArgumentError("--pods names a super pod for each server: 0,0,1,1")
    return names


def _numbers(text: str) -> list[str]:
    """Return the numbers in ``0-3,65536-65539``; brackets and quotes are ignored."""
    plain = re.sub(r"[\[\]'\"\s]", "", text)
    with about("--super-device-id"):
        numbers = parse_numbers(plain, noun="a number or a range", example="0-15")
    return list(map(str, numbers))


def _addresses(given: list[str], table: RankTable) -> list[list[str]]:
    """Return the address of every device, from the hccn.conf of its server.

    Raises:
        ArgumentError: A server has no file, or a file lacks a device.
    """
    files = _by_server(given, table)
    found = []
    for place, node in enumerate(table.nodes):
        name, text = files[place]
        try:
            addresses = parse_hccn(text)
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


def _files_by_host(given: list[str]) -> dict[str, str]:
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


def _by_server(given: list[str], table: RankTable) -> list[tuple[str, str]]:
    """Return the name and the text of the file of every server, in their order."""
    named = _files_by_host(given)
    if named:
        lacking = [host for host in table.hosts if host not in named]
        unknown = [host for host in named if host not in table.hosts]
        if lacking or unknown:
            what = "has no file for" if lacking else "names an unknown server,"
            host = printable(str((lacking or unknown)[0]))
            raise ArgumentError(f"--hccn-conf {what} {host}")
        names = [named[str(host)] for host in table.hosts]
    elif len(given) == table.num_nodes:
        names = given
    else:
        raise ArgumentError(
            f"--hccn-conf is given {len(given)} times for {table.num_nodes} servers",
            hint="give one for every server, in their order, or HOST=FILE",
        )
    texts = {name: read_input(name, MIB)[1] for name in names}
    return [(name, texts[name].decode("utf-8", "replace")) for name in names]
