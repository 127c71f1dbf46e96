"""Turn a table into the plain data of a file, spelt as it was read.

Unknown keys, the order of keys and the type of every value are kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ranktable.schema.declare import (
    LAYOUT_KEY,
    SPARES_KEY,
    SUPER_POD_KEY,
    TOPOLOGY_KEY,
    Format,
    Key,
    KeyRole,
    Kind,
    NotExpressibleError,
)
from ranktable.schema.formats import by_name
from ranktable.schema.super_pods import PODS, named_pod, reads_pods, spelt_pods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.schema.model import Device, Layout, Node, RankTable


def plain_data(table: RankTable, format_: Format) -> dict[str, Any]:
    """Return a table as the plain data of a file in a format.

    Raises:
        NotExpressibleError: The format cannot express the table.
    """
    is_own = table.format == format_.name
    if format_.keeps_document:
        return _plain_tree(table, format_, is_own=is_own)
    if not is_own:
        table = _without_own_keys(table, format_)
    lists = spelt_lists(table, format_)
    nodes = [
        _node(node, format_, is_own=is_own, has_pod=is_own and PODS not in lists)
        for node in table.nodes
    ]
    version = table.version if is_own else format_.versions[0]
    values: dict[str, object] = {"version": version}
    for field in format_.table_fields:
        if field.role is KeyRole.COUNT:
            spell = str if field.kind is Kind.NUMERAL else int
            values[field.key] = spell(len(nodes))
        elif field.is_required and field.examples and field.key not in table.extra:
            values[field.key] = field.examples[0]
    values[format_.nodes_key] = nodes
    extra = {"version": version, **table.extra, **lists}
    top = _in_order(values, extra, table.layout if is_own else None)
    # Finding the end of the nodes takes long in a large file.
    known = {key for key, _ in table.layout or ()}
    own = (LAYOUT_KEY, TOPOLOGY_KEY, SPARES_KEY)
    late = [key for key in own if key in top.keys() - known]
    order = [key for key in top if key not in late]
    at = order.index(format_.nodes_key)
    return {key: top[key] for key in (*order[:at], *late, *order[at:])}


def spelt_lists(table: RankTable, format_: Format) -> dict[str, object]:
    """Return the spares and the super pods of a table as they are written."""
    if format_.keeps_document:
        return {}
    is_own = table.format == format_.name
    found: dict[str, object] = {}
    has_list = is_own and isinstance(table.super_pod_list, list)
    if has_list or reads_pods(format_):
        servers = ((node.host, node.super_pod) for node in table.nodes)
        pods = spelt_pods(servers, table.super_pod_list)
        found |= {PODS: pods} if pods else {}
    if table.spares:
        found[SPARES_KEY] = [
            _node(spare, format_, is_own=is_own, has_pod=True, is_spare=True)
            for spare in table.spares
        ]
    return found


def _plain_tree(table: RankTable, format_: Format, *, is_own: bool) -> dict[str, Any]:
    """Return a table as the plain data of a format that is a tree of objects.

    Raises:
        NotExpressibleError: The format cannot express the table.
    """
    if is_own and isinstance(table.document, dict):
        return table.document
    if format_.make is None:
        raise NotExpressibleError(
            f"{format_.name} is read, but not written; ranktable convert --to "
            "hccl-1.0 makes a table that can be changed"
        )
    return format_.make(table)


def _without_own_keys(table: RankTable, target: Format) -> RankTable:
    """Return a table without the keys that only its own format defines."""
    source = by_name(table.format)

    def kept(
        extra: Mapping[str, object], old: Sequence[Key], new: Sequence[Key]
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


def _node(
    node: Node,
    format_: Format,
    *,
    is_own: bool,
    has_pod: bool,
    is_spare: bool = False,
) -> dict[str, object]:
    """Return a node as plain data.

    Args:
        node: The node.
        format_: The format to write.
        is_own: Whether the table was read in this format.
        has_pod: Whether the node names its super pod, because no list does.
        is_spare: Whether it is written without ranks.
    """
    values: dict[str, object] = {}
    if node.host is not None:
        values[format_.host_key] = node.host
    values[format_.devices_key] = _devices(
        node, format_, is_own=is_own, is_spare=is_spare
    )
    named = named_pod(node.extra, *(one.extra for one in node.devices[:1]))
    if has_pod and node.super_pod not in (None, named):
        values[SUPER_POD_KEY] = node.super_pod
    return _in_order(values, node.extra, node.layout if is_own else None)


def _devices(
    node: Node, format_: Format, *, is_own: bool, is_spare: bool
) -> list[dict[str, object]]:
    """Return the devices of a node, in the form of their layout or of the format."""
    found = []
    last: object = None
    for local_rank, device in enumerate(node.devices):
        form = (device.layout if is_own else None, device.is_emulated)
        if form != last:  # mostly all have the same form
            last, (keys, has_blank) = form, _spelling(format_, *form, is_spare)
        numbers = (device.device_id, local_rank, device.rank)
        address, extra = device.address, device.extra
        members: dict[str, object] = {}
        for key, place, is_text in keys:
            if place < _ADDRESS:
                members[key] = str(numbers[place]) if is_text else numbers[place]
            elif place == _OTHER:
                if key in extra:
                    members[key] = extra[key]
            elif address is not None or has_blank:
                members[key] = address or ""
        if extra and not extra.keys() <= members.keys():
            # known keys come first and are not replaced
            members = {**members, **extra, **members}
        found.append(members)
    return found


_NUMBER_ROLES = (KeyRole.DEVICE_ID, KeyRole.LOCAL_RANK, KeyRole.RANK)
_ADDRESS = len(_NUMBER_ROLES)
_OTHER = _ADDRESS + 1
"""The value of a key: a number by its index in ``_NUMBER_ROLES``, or one of these."""


@lru_cache(maxsize=256)
def _spelling(
    format_: Format,
    layout: Layout | None,
    is_emulated: bool,
    is_spare: bool,
) -> tuple[tuple[tuple[str, int, bool], ...], bool]:
    """Return the form in which devices of this layout are written.

    Returns:
        The known keys in order, each with its kind of value and whether that is quoted;
        and whether a missing address is written as an empty text.
    """
    numbers = {
        field.key: field
        for field in format_.device_fields
        if field.role in _NUMBER_ROLES
    }
    address_keys = format_.address_keys or ("device_ip",)
    address_key = address_keys[-1] if is_emulated else address_keys[0]
    ranks = {one.key for one in numbers.values() if one.role is KeyRole.RANK}
    if layout and not is_spare and not any(key in ranks for key, _ in layout):
        layout = None  # that of a spare, which has no place for the rank
    types = dict(layout or _new_layout(format_, address_key))
    if is_spare:
        ranks |= {one.key for one in numbers.values() if one.role is KeyRole.LOCAL_RANK}
        types = {key: type_ for key, type_ in types.items() if key not in ranks}
    keys = []
    for name, type_ in types.items():
        key = address_key if name == "address" else name  # of a device with either key
        place = _ADDRESS if key == address_key else _OTHER
        if key in numbers:
            place = _NUMBER_ROLES.index(numbers[key].role)
        keys.append((key, place, type_ is not int))
    return tuple(keys), bool(layout) and format_.is_hccl_1


def _new_layout(format_: Format, address_key: str) -> Layout:
    """Return the form of a new device: the address follows the chip."""
    found: list[tuple[str, type]] = []
    for field in format_.device_fields:
        if field.role in _NUMBER_ROLES and (field.is_written or field.is_required):
            found.append((field.key, int if field.kind is Kind.INTEGER else str))
        if field.role is KeyRole.DEVICE_ID:
            found.append((address_key, str))
    return tuple(found)


def _in_order(
    values: dict[str, object], extra: Mapping[str, object], layout: Layout | None
) -> dict[str, object]:
    """Return values and unknown keys in the order of a layout, new ones last."""
    everything = {**extra, **values}
    order = [key for key, _ in layout or () if key in everything]
    return {key: everything[key] for key in (*order, *everything)}
