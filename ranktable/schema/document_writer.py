"""From a table to the plain data of a file in a format of nodes that list devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.schema.format import Kind, Role
from ranktable.schema.formats import by_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.schema.format import Field, Format
    from ranktable.schema.model import Device, Layout, Node, RankTable


def to_document(table: RankTable, format_: Format) -> dict[str, object]:
    """Return a table as the plain data of a file in a format."""
    is_own = table.format == format_.name
    if not is_own:
        table = _without_own_keys(table, format_)
    nodes = [_node(node, format_, is_own=is_own) for node in table.nodes]
    version = table.version if is_own else format_.versions[0]
    values: dict[str, object] = {"version": version}
    for field in format_.table_fields:
        if field.role is Role.COUNT:
            spell = str if field.kind is Kind.NUMERAL else int
            values[field.key] = spell(len(nodes))
        elif field.is_required and field.examples and field.key not in table.extra:
            values[field.key] = field.examples[0]
    values[format_.nodes_key] = nodes
    return _spelt(values, table.extra, table.layout if is_own else None)


def _without_own_keys(table: RankTable, target: Format) -> RankTable:
    """Return a table without what its format defines and another one does not."""
    source = by_name(table.format)

    def kept(
        extra: Mapping[str, object], old: Sequence[Field], new: Sequence[Field]
    ) -> dict[str, object]:
        own = {field.key for field in old} - {field.key for field in new}
        return {key: value for key, value in extra.items() if key not in own}

    def of_device(device: Device) -> Device:
        extra = kept(device.extra, source.device_fields, target.device_fields)
        return structs.replace(device, extra=extra)

    nodes = [
        structs.replace(
            node,
            extra=kept(node.extra, source.node_fields, target.node_fields),
            devices=tuple(
                of_device(device) if device.extra else device for device in node.devices
            ),
        )
        for node in table.nodes
    ]
    extra = kept(table.extra, source.table_fields, target.table_fields)
    return table.with_changes(nodes=nodes, extra=extra)


def _node(node: Node, format_: Format, *, is_own: bool) -> dict[str, object]:
    values: dict[str, object] = {}
    if node.host is not None:
        values[format_.host_key] = node.host
    values[format_.devices_key] = [
        _device(device, local_rank, format_, device.layout)
        if is_own and device.layout
        else _new_device(device, local_rank, format_)
        for local_rank, device in enumerate(node.devices)
    ]
    return _spelt(values, node.extra, node.layout if is_own else None)


def _device(
    device: Device, local_rank: int, format_: Format, layout: Layout
) -> dict[str, object]:
    """Return a device as it was spelt."""
    address_key = _address_key(device, format_)
    numbers = _numbers(device, local_rank, format_)
    members: dict[str, object] = {}
    for key, type_ in layout:
        if key in numbers:
            number = numbers[key]
            members[key] = number if type_ is int else str(number)
        elif key in ("address", address_key):
            if device.address is not None or format_.has_blank_addresses:
                members[address_key] = device.address or ""
        elif key in device.extra:
            members[key] = device.extra[key]
    return _with_extra(members, device.extra)


def _new_device(device: Device, local_rank: int, format_: Format) -> dict[str, object]:
    """Return a device that was spelt nowhere, or in another format."""
    numbers = _numbers(device, local_rank, format_)
    members: dict[str, object] = {}
    for field in format_.device_fields:
        if field.key in numbers and (field.is_written or field.is_required):
            number = numbers[field.key]
            members[field.key] = number if field.kind is Kind.INTEGER else str(number)
        if field.role is Role.DEVICE_ID and (
            device.address is not None or format_.writes_blank_addresses
        ):
            members[_address_key(device, format_)] = device.address or ""
    return _with_extra(members, device.extra) if device.extra else members


def _numbers(device: Device, local_rank: int, format_: Format) -> dict[str, int]:
    """Return the numbers of a device by the keys that the format has for them."""
    values = {
        Role.DEVICE_ID: device.device_id,
        Role.LOCAL_RANK: local_rank,
        Role.RANK: device.rank,
    }
    return {
        field.key: values[field.role]
        for field in format_.device_fields
        if field.role in values
    }


def _with_extra(
    members: dict[str, object], extra: Mapping[str, object]
) -> dict[str, object]:
    return {**members, **{k: v for k, v in extra.items() if k not in members}}


def _address_key(device: Device, format_: Format) -> str:
    keys = format_.address_keys or ("device_ip",)
    return keys[-1] if device.is_emulated else keys[0]


def _spelt(
    values: dict[str, object], extra: Mapping[str, object], layout: Layout | None
) -> dict[str, object]:
    """Return values and unknown keys in the order of a layout, new ones last."""
    everything = {**extra, **values}
    order = [key for key, _ in layout or () if key in everything]
    return {key: everything[key] for key in (*order, *everything)}
