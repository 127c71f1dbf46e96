"""From the columns of a sound document to the model, losing nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.format import Role
from ranktable.schema.model import Device, Layout, Node, Parts

if TYPE_CHECKING:
    from collections.abc import Collection

    from ranktable.schema.columns import Columns

_NO_EXTRA: dict[str, object] = {}


def build_parts(columns: Columns) -> Parts:
    """Return what a table is made of, from a document that was found sound."""
    return _Builder(columns).parts()


class _Builder:
    """Builds one table; layouts are shared by everything that is spelt alike."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.format = columns.format
        self.layouts: dict[Layout, Layout] = {}
        self.known: dict[Layout, set[str]] = {}
        self.known_keys = self.format.device_keys_of(
            Role.DEVICE_ID, Role.RANK, Role.LOCAL_RANK, Role.ADDRESS
        )

    def parts(self) -> Parts:
        columns = self.columns
        document = columns.document.data
        assert isinstance(document, dict)  # noqa: S101 - the table is sound
        nodes = [self.node(node) for node in range(columns.num_nodes)]
        if not columns.format.keeps_file_order:
            nodes.sort(key=lambda node: node.devices[0].rank)
        return Parts(
            tuple(nodes),
            str(document["version"]),
            self.format.name,
            columns.extra(),
            self.layout(document),
        )

    def node(self, node: int) -> Node:
        format_ = self.format
        start = self.columns.starts[node]
        members: dict[str, Any] = self.columns.document.get(  # type: ignore[assignment]
            *self.columns.node_path(node)
        )
        devices: list[dict[str, object]] = members[format_.devices_key]
        built = [
            self.device(start + place, device) for place, device in enumerate(devices)
        ]
        if not format_.keeps_file_order:
            built.sort(key=lambda device: device.rank)
        return Node(
            devices=tuple(built),
            host=self.columns.hosts[node],
            extra=_without(members, {format_.devices_key, format_.host_key}),
            layout=self.layout(members),
        )

    def device(self, index: int, members: dict[str, object]) -> Device:
        columns = self.columns
        layout = self.layout(members)
        known = self.known.get(layout)
        if known is None:
            known = self.known[layout] = self._known(members)
        emulated = "device_ip_emulator" in members
        rank, device_id = columns.ranks[index], columns.device_ids[index]
        assert rank is not None  # noqa: S101 - the table is sound
        assert device_id is not None  # noqa: S101
        return Device(
            rank=rank,
            device_id=device_id,
            address=columns.addresses[index],
            is_emulated=emulated,
            extra=_without(members, known) if known else _NO_EXTRA,
            layout=layout,
        )

    def _known(self, members: Collection[str]) -> set[str]:
        """Return the keys of what the model holds; none if there are no others."""
        known = set(self.known_keys)
        if "device_ip_emulator" in members:
            known.discard("device_ip")  # the emulator's address is the device's
        return set() if known.issuperset(members) else known

    def layout(self, members: dict[str, object]) -> Layout:
        layout = tuple(zip(members, map(type, members.values()), strict=True))
        return self.layouts.setdefault(layout, layout)


def _without(
    members: dict[str, object], known: Collection[str | None]
) -> dict[str, object]:
    if all(key in known for key in members):
        return _NO_EXTRA
    return {key: value for key, value in members.items() if key not in known}
