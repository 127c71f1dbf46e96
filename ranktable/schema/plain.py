"""Columns of a table that came from no file, without going through a document.

Whoever makes a table of chips and hosts has spelt nothing, so that there is nothing
odd to look for but the values themselves: a fifth of the time of reading the document.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from ranktable.schema.columns import Columns
from ranktable.schema.numbers import MAX_NUMBER

if TYPE_CHECKING:
    from ranktable.schema.formats.format import Format
    from ranktable.schema.model import Device, Node, RankTable
    from ranktable.schema.quota import Quota


def plain_columns(
    table: RankTable, format_: Format, document: dict[str, object], quota: Quota
) -> Columns | None:
    """Return the columns of a table whose document can have no defect of its shape.

    Args:
        table: The table.
        format_: The format of the document.
        document: What ``to_document`` made of the table.
        quota: For what the rules find in the columns.

    Returns:
        What ``DocumentReader`` would read; None where it has to look, as at a table
        that was read from a file, or at a number that is too large.
    """
    devices = [device for node in table.nodes for device in node.devices]
    if not (
        _is_plain_top(table, format_)
        and all(_is_plain_node(node, format_) for node in table.nodes)
        and all(_is_plain_device(device) for device in devices)
    ):
        return None
    sizes = [len(node.devices) for node in table.nodes]
    numbered = "local_rank" in format_.written_keys
    return Columns(
        format=format_,
        document=document,
        starts=list(accumulate(sizes, initial=0)),
        ranks=[device.rank for device in devices],
        device_ids=[device.device_id for device in devices],
        local_ranks=(
            [place for size in sizes for place in range(size)]
            if numbered
            else [None] * len(devices)
        ),
        addresses=[device.address for device in devices],
        hosts=[node.host for node in table.nodes],
        quota=quota,
    )


def _is_plain_top(table: RankTable, format_: Format) -> bool:
    required = {"version", format_.count_key, None}
    return bool(
        table.nodes
        and table.layout is None
        and not table.extra
        and table.version in format_.versions
        and {*format_.required_top_keys} <= required
        and {*format_.reader_keys} <= {*format_.written_keys}
    )


def _is_plain_node(node: Node, format_: Format) -> bool:
    host = node.host
    if host is None:
        is_named = not format_.host_required
    else:
        is_named = type(host) is str and not host.isspace() and host != ""
    return bool(is_named and node.devices and node.layout is None and not node.extra)


def _is_plain_device(device: Device) -> bool:
    return (
        device.layout is None
        and not device.extra
        and type(device.rank) is int
        and type(device.device_id) is int
        and -MAX_NUMBER <= device.rank <= MAX_NUMBER
        and -MAX_NUMBER <= device.device_id <= MAX_NUMBER
        and (
            device.address is None
            or (type(device.address) is str and device.address != "")
        )
    )
