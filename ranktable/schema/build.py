"""From the columns of a sound document to the model, losing nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.model import Device, Layout, Node, RankTable

if TYPE_CHECKING:
    from collections.abc import Collection

    from ranktable.schema.columns import Columns

_NO_EXTRA: dict[str, object] = {}


def build_table(columns: Columns) -> RankTable:
    """Return the table of a document that was found sound."""
    return _Builder(columns).table()


class _Builder:
    """Builds one table; layouts are shared by everything that is spelt alike."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.format = columns.format
        self.layouts: dict[Layout, Layout] = {}
        self.known: dict[Layout, set[str]] = {}

    def table(self) -> RankTable:
        document, format_ = self.columns.document, self.format
        known = {"version", format_.nodes_key, format_.count_key}
        return RankTable(
            nodes=tuple(self.node(node) for node in range(self.columns.num_nodes)),
            version=str(document["version"]),
            format=format_.name,
            extra=_without(document, known),
            layout=self.layout(document),
        )

    def node(self, node: int) -> Node:
        format_ = self.format
        start = self.columns.starts[node]
        nodes = self.columns.document[format_.nodes_key]
        members: dict[str, object] = nodes[node]  # type: ignore[index]
        devices: list[dict[str, object]] = members[format_.devices_key]  # type: ignore[assignment]
        built = [
            self.device(start + place, device) for place, device in enumerate(devices)
        ]
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
        known = set(self.format.device_keys)
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
