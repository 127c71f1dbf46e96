"""Read the ranks of HCCL 2.0 into columns, and judge their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ranktable.schema.addresses import is_address, is_ipv4, is_ipv6
from ranktable.schema.columns import ListPaths, place_name
from ranktable.schema.format import plain_number
from ranktable.schema.formats.foreign import SPARE_ID
from ranktable.schema.record import is_eid
from ranktable.schema.rules import hccl_2_0 as rules
from ranktable.schema.rules import shape
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.document import Path
    from ranktable.schema.record_reader import RecordReader

KEY = "rank_list"
_IS_OF_TYPE: dict[str, Callable[[str], bool]] = {
    "EID": is_eid,
    "IPV4": is_ipv4,
    "IPV6": is_ipv6,
}


@dataclass
class Networks:
    """The networks of the ranks that have been read.

    Attributes:
        counts: Number of addresses by layer and network, and the path of the first.
        spares: Paths of spare chips.
        local_ids: The local_ids of each network of the first layer.
    """

    counts: dict[tuple[object, object], tuple[int, Path]]
    spares: list[tuple[Path, object, object]]
    local_ids: dict[object, set[object]]


class RankListReader:
    """Puts entries of ``rank_list`` into columns, rank by rank."""

    def __init__(self, reader: RecordReader) -> None:
        """Start without ranks."""
        self.reader = reader
        self.networks = Networks({}, [], {})
        self.instances: list[object] = []

    def add(self, index: int, members: dict[str, Any]) -> None:
        """Add a rank; report defects of its layers."""
        columns = self.reader.columns
        rank, device_id = members.get("rank_id"), members.get("device_id")
        columns.ranks.append(plain_number(rank))
        columns.device_ids.append(plain_number(device_id))
        levels = members.get("level_list")
        instance: object = None
        last = -1
        for place, one in enumerate(levels if isinstance(levels, list) else ()):
            if not isinstance(one, dict):
                continue
            layer = one.get("net_layer")
            if type(layer) is int:
                if layer <= last:
                    self.report_layer(index, place, layer, last)
                last = layer
            name = one.get("net_instance_id")
            if place == 0 and isinstance(name, str):
                instance = name
            addresses = one.get("rank_addr_list")
            if isinstance(addresses, list):
                network = (layer if type(layer) is int else None, str(name))
                self.addresses(index, place, network, addresses)
        self.instances.append(instance)
        self.spare(index, members, instance)
        control = members.get("control_plane")
        if isinstance(control, dict):
            self.address((KEY, index, "control_plane"), control)

    def report_layer(self, index: int, place: int, layer: int, last: int) -> None:
        """Report a layer that comes after a higher one."""
        path: Path = (KEY, index, "level_list", place, "net_layer")
        message = f"net_layer {layer} comes after net_layer {last}"
        self.reader.report(rules.LAYERS, path, message, hint="sort level_list")

    def addresses(
        self, index: int, place: int, network: tuple[object, str], found: list[Any]
    ) -> None:
        """Judge the addresses of a rank in one layer."""
        first = self.networks.counts.get(network)
        if first is None:
            path: Path = (KEY, index, "level_list", place, "rank_addr_list")
            self.networks.counts[network] = (len(found), path)
        elif first[0] != len(found):
            self.report_count(index, place, len(found), first)
        ports: list[Any] = []
        for at, one in enumerate(found):
            if not isinstance(one, dict):
                continue
            is_of_type = _IS_OF_TYPE.get(str(one.get("addr_type")))
            addr = one.get("addr")
            is_odd = (
                is_of_type is not None and type(addr) is str and not is_of_type(addr)
            )
            if is_odd or "backup_addr" in one:
                path = (KEY, index, "level_list", place, "rank_addr_list", at)
                self.address(path, one)
                self.backups(path, one)
            mine = one.get("ports")
            if type(mine) is list:  # a repeated port of one address counts once
                ports += mine if len(mine) == 1 else dict.fromkeys(map(str, mine))
        if len(ports) > 1 and len(set(map(str, ports))) < len(ports):
            self.report_ports(index, place, found)

    def report_count(
        self, index: int, place: int, count: int, first: tuple[int, Path]
    ) -> None:
        """Report a rank whose number of addresses differs within its network."""
        path: Path = (KEY, index, "level_list", place, "rank_addr_list")
        wanted, first_path = first
        message = (
            f"{place_name(path)} has {count} addresses, but {place_name(first_path)} "
            f"of the same network has {wanted}"
        )
        self.reader.report(rules.ADDRESS_COUNTS, path, message, related=(first_path,))

    def report_ports(self, index: int, place: int, found: list[Any]) -> None:
        """Report ports that are used by two addresses of a layer."""
        first_use: dict[str, tuple[int, Path]] = {}
        for at, one in enumerate(found):
            ports = one.get("ports") if isinstance(one, dict) else None
            for number, port in enumerate(ports if isinstance(ports, list) else ()):
                path: Path = (
                    *(KEY, index, "level_list", place, "rank_addr_list"),
                    *(at, "ports", number),
                )
                owner, first = first_use.setdefault(str(port), (at, path))
                if owner != at:
                    message = f"port {quoted(port)} already has another address"
                    self.reader.report(
                        rules.SHARED_PORT, path, message, related=(first,)
                    )

    def address(self, path: Path, members: dict[str, Any]) -> None:
        """Report an address that does not match its type."""
        type_, addr = members.get("addr_type"), members.get("addr")
        is_sound = _IS_OF_TYPE.get(str(type_))
        if is_sound is None or not isinstance(addr, str) or not addr or is_sound(addr):
            return
        wanted = "an EID of 32 hexadecimal digits" if type_ == "EID" else f"{type_}"
        message = f"addr {quoted(addr)} is not {wanted}"
        self.reader.report(rules.ADDRESS_OF_TYPE, (*path, "addr"), message)

    def backups(self, path: Path, members: dict[str, Any]) -> None:
        """Report backup addresses that are not numeric."""
        found = members.get("backup_addr")
        for at, addr in enumerate(found if isinstance(found, list) else ()):
            if isinstance(addr, str) and addr and not is_address(addr):
                message = f"backup_addr {quoted(addr)} is not an IP address"
                self.reader.report(
                    rules.ADDRESS_OF_TYPE, (*path, "backup_addr", at), message
                )

    def spare(self, index: int, members: dict[str, Any], instance: object) -> None:
        """Record the chip of a rank, and whether it is a spare."""
        local_id = members.get("local_id")
        self.networks.local_ids.setdefault(instance, set()).add(
            local_id if type(local_id) is int else None
        )
        if local_id != SPARE_ID:
            return
        path: Path = (KEY, index)
        self.networks.spares.append((path, instance, members.get("replaced_local_id")))
        if "replaced_local_id" not in members:
            message = f"{place_name(path)} is a spare and has no replaced_local_id"
            self.reader.report(shape.MISSING_KEY, path, message)

    def finish(self) -> None:
        """Judge the spares, and make each network of layer 0 a node."""
        spares = self.networks.spares
        for path, _, _ in spares[1:]:
            self.reader.report(
                rules.SPARE,
                (*path, "local_id"),
                "local_id 64 is a second spare",
                related=((*spares[0][0], "local_id"),),
            )
        for path, instance, replaced in spares:
            local_ids = self.networks.local_ids[instance]
            if type(replaced) is int and replaced in local_ids:
                message = (
                    f"the spare replaces local_id {replaced}, which is still in the "
                    "table"
                )
                self.reader.report(rules.SPARE, (*path, "replaced_local_id"), message)
        self.divide()

    def divide(self) -> None:
        """Sort the ranks by network; the ranks of one network are a node."""
        columns, found = self.reader.columns, self.instances
        places: dict[object, list[int]] = {}
        for index, instance in enumerate(found):
            places.setdefault(instance, []).append(index)
        order = [index for indices in places.values() for index in indices]
        for indices in places.values():
            columns.starts.append(columns.starts[-1] + len(indices))
        columns.hosts = [None] * len(places)
        columns.ranks = [columns.ranks[index] for index in order]
        columns.device_ids = [columns.device_ids[index] for index in order]
        columns.local_ranks = [None] * len(order)
        columns.addresses = [None] * len(order)
        columns.device_paths = ListPaths(KEY, order)
        columns.node_paths = ListPaths(KEY, [places[name][0] for name in places])
