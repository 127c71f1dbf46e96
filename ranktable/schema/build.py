"""Build the model from the columns of a sound document, without losing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.schema.format import Role
from ranktable.schema.model import Device, Layout, Node, Parts

if TYPE_CHECKING:
    from collections.abc import Collection

    from ranktable.schema.columns import Columns

_NO_EXTRA: dict[str, object] = {}


def build_parts(columns: Columns) -> Parts:
    """Return the parts of a table, from a document that is sound."""
    return _Builder(columns).parts()


class _ReadSpelling(NamedTuple):
    """The form in which some devices are written.

    Attributes:
        layout: Their keys and types.
        is_emulated: Whether their address is that of an emulated device.
        others: Keys that the model has no fields for.
    """

    layout: Layout
    is_emulated: bool
    others: tuple[str, ...]


class _Builder:
    """Builds one table; devices and nodes of the same form share one layout."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.format = columns.format
        self.layouts: dict[Layout, Layout] = {}
        self.spellings: dict[tuple[object, ...], _ReadSpelling] = {}
        self.known_keys = self.format.device_keys_of(
            Role.DEVICE_ID, Role.RANK, Role.LOCAL_RANK, Role.ADDRESS
        )

    def parts(self) -> Parts:
        columns = self.columns
        document = columns.document.data
        assert isinstance(document, dict)
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
        members: dict[str, Any] = self.columns.document.get(  # type: ignore[assignment]
            *self.columns.node_path(node)
        )
        built = self.devices(self.columns.starts[node], members[format_.devices_key])
        if not format_.keeps_file_order:
            built.sort(key=lambda device: device.rank)
        return Node(
            devices=tuple(built),
            host=self.columns.hosts[node],
            extra=_without(members, {format_.devices_key, format_.host_key}),
            layout=self.layout(members),
        )

    def devices(self, start: int, found: list[dict[str, object]]) -> list[Device]:
        columns, end = self.columns, start + len(found)
        built = []
        for rank, device_id, address, members in zip(
            columns.ranks[start:end],
            columns.device_ids[start:end],
            columns.addresses[start:end],
            found,
            strict=True,
        ):
            assert rank is not None
            assert device_id is not None
            key: tuple[str | type, ...] = (*members, *map(type, members.values()))
            spelling = self.spellings.get(key) or self.spelling(key, members)
            others = spelling.others
            device = Device(
                rank=rank,
                device_id=device_id,
                address=address,
                is_emulated=spelling.is_emulated,
                extra={key: members[key] for key in others} if others else _NO_EXTRA,
                layout=spelling.layout,
            )
            built.append(device)
        return built

    def spelling(
        self, key: tuple[object, ...], members: dict[str, object]
    ) -> _ReadSpelling:
        known = set(self.known_keys)
        is_emulated = "device_ip_emulator" in members
        if is_emulated:
            known.discard("device_ip")  # the emulator's address is used instead
        others = tuple(key for key in members if key not in known)
        found = _ReadSpelling(self.layout(members), is_emulated, others)
        self.spellings[key] = found
        return found

    def layout(self, members: dict[str, object]) -> Layout:
        layout = tuple(zip(members, map(type, members.values()), strict=True))
        return self.layouts.setdefault(layout, layout)


def _without(
    members: dict[str, object], known: Collection[str | None]
) -> dict[str, object]:
    found = {key: value for key, value in members.items() if key not in known}
    return found or _NO_EXTRA
