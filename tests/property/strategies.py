"""Tables and texts for the laws."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import structs

from ranktable.schema.model import Device, Node, RankTable

chip_lists = st.lists(
    st.integers(min_value=0, max_value=40), min_size=1, max_size=6, unique=True
)
addresses = st.one_of(
    st.none(), st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str)
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**6), max_value=10**6)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
extras: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    st.sampled_from(["note", "rack", "x-y", "ü", 'a"b', "load"]),
    json_values,
    max_size=2,
)
hosts = st.lists(
    st.text("abcn0123456789-.", min_size=1, max_size=8), unique=True, min_size=4
)


@st.composite
def tables(draw: st.DrawFn) -> RankTable:
    """Draw a sound table: any chips, addresses, hosts and unknown keys."""
    chips = draw(st.lists(chip_lists, min_size=1, max_size=4))
    names = draw(st.none() | hosts)
    nodes = []
    rank = 0
    for place, device_ids in enumerate(chips):
        devices = []
        for device_id in device_ids:
            address = draw(addresses)
            devices.append(
                Device(
                    rank=rank,
                    device_id=device_id,
                    address=address,
                    is_emulated=address is not None and draw(st.booleans()),
                    extra=draw(extras),
                )
            )
            rank += 1
        nodes.append(
            Node(
                devices=tuple(devices),
                host=names[place] if names else None,
                extra=draw(extras),
            )
        )
    return RankTable(nodes=tuple(nodes), extra=draw(extras))


def _address(rank: int) -> str:
    return f"10.0.{rank // 256}.{rank % 256}"


def with_addresses(table: RankTable) -> RankTable:
    """Return a table with an address for every device, which HCCL needs."""
    return table.with_changes(
        nodes=[
            structs.replace(
                node,
                devices=tuple(
                    structs.replace(device, address=_address(device.rank))
                    for device in node.devices
                ),
            )
            for node in table.nodes
        ]
    )
