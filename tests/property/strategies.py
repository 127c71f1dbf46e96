"""Tables and texts for the laws."""

from __future__ import annotations

import json
import re

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


def with_addresses(table: RankTable) -> RankTable:
    """Return a table with an address for every device, which HCCL needs."""
    return table.with_changes(
        nodes=[
            structs.replace(
                node,
                devices=tuple(
                    structs.replace(device, address=f"10.0.0.{device.rank}")
                    for device in node.devices
                ),
            )
            for node in table.nodes
        ]
    )


ODD_VALUES: list[object] = [
    *(None, True, -1, 0, 1, 5.0, 5.9, 10**12, [], {}, [1], {"a": 1}),
    *("", " 1", "01", "+1", "1.0", "0x1", "1_0", "1", "2", "\uff17", "-1", "-0"),
    *("127.0.0.1", "10.0.0.555", "::1"),
]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, object]:
    """Draw a document near the shape of a table: sound, or with a few mistakes."""
    keys = draw(
        st.sampled_from(
            [
                ("device_id", "rank"),
                ("device_id", "world_rank"),
                ("device_id", "local_rank", "rank", "world_rank"),
                ("device_id", "device_ip", "local_rank", "rank"),
                ("device_id", "device_ip_emulator", "rank"),
            ]
        )
    )
    as_text = draw(st.booleans())
    node_list: list[object] = []
    rank = 0
    for size in draw(st.lists(st.integers(0, 4), min_size=0, max_size=3)):
        device_list: list[object] = []
        for local_rank in range(size):
            numbers = {"device_id": local_rank, "local_rank": local_rank}
            device: dict[str, object] = {
                key: "127.0.0.1"
                if key.startswith("device_ip")
                else str(numbers.get(key, rank))
                if as_text
                else numbers.get(key, rank)
                for key in keys
            }
            if draw(st.integers(0, 9)) == 0:
                device[draw(st.sampled_from(keys))] = draw(st.sampled_from(ODD_VALUES))
            if draw(st.integers(0, 19)) == 0:
                device.pop(draw(st.sampled_from(keys)), None)
            device_list.append(device)
            rank += 1
        node_list.append({"device_list": device_list})
    document: dict[str, object] = {"version": "1.0", "node_list": node_list}
    if draw(st.integers(0, 19)) == 0:
        key = draw(st.sampled_from(["version", "node_list", "other"]))
        document[key] = draw(st.sampled_from(ODD_VALUES))
    return document


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a document in some layout, or any bytes at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=80))
    indent = draw(st.sampled_from([None, 1, 4]))
    data = json.dumps(draw(documents()), indent=indent).encode()
    if draw(st.integers(0, 4)) == 0:  # damage: cut, repeat or change a piece
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 30)))
        piece = draw(st.sampled_from([b"", data[start:end] * 2, b",", b'"rank":"0",']))
        data = data[:start] + piece + data[end:]
    return data


ODD_PIECES = (
    *(b"", b" ", b"\n", b"\t", b"\x00", b"\x7f", b"\xc3\xa9", b"\xff", b"x", b"X"),
    *(b"0", b"9", b"-", b"+", b".", b"e", b"_", b'"', b"\\", b"\\u0041", b"'"),
    *(b",", b":", b";", b"/", b"[", b"]", b"{", b"}", b'"rank":"0",', b'","x":"'),
)
"""Bytes of each class that matters to a reader of JSON."""


@st.composite
def alike_tables(draw: st.DrawFn) -> tuple[bytes, str]:
    """Draw a sound table whose nodes are spelt alike, and the name of its format."""
    is_hccl = draw(st.booleans())
    size, num_nodes = draw(st.integers(1, 4)), draw(st.integers(2, 14))
    keys = ["rank_id"] if is_hccl else draw(st.sampled_from(_RANK_KEYS))
    spell = str if is_hccl or draw(st.booleans()) else int
    orders = draw(st.lists(st.permutations(range(size)), min_size=1, max_size=2))
    has_hosts, has_addresses = draw(st.booleans()), draw(st.booleans())
    gap = draw(st.sampled_from([1, 7, 99]))
    nodes = []
    for node in range(num_nodes):
        devices = []
        for place, chip in enumerate(orders[node % len(orders)]):
            numbers = dict.fromkeys(keys, node * size + place)
            numbers |= {"local_rank": place} if "local_rank" in keys else {}
            device: dict[str, object] = {"device_id": spell(chip)}
            if is_hccl or has_addresses:
                device["device_ip"] = f"10.0.{node * gap}.{place}"
            devices.append(device | {key: spell(n) for key, n in numbers.items()})
        named: dict[str, object] = {}
        if is_hccl or has_hosts:
            named["server_id" if is_hccl else "host"] = f"n{node * gap}"
        nodes.append({**named, "device" if is_hccl else "device_list": devices})
    document: dict[str, object] = {"version": "1.0", "node_list": nodes}
    if is_hccl:
        count = {"server_count": str(num_nodes), "server_list": nodes}
        document = {"status": "completed", **count, "version": "1.0"}
    indent = draw(st.sampled_from([None, 1, 4]))
    data = json.dumps(document, indent=indent).encode()
    return data, "hccl-1.0" if is_hccl else "sccl-1.0"


_RANK_KEYS = [
    ["rank"],
    ["world_rank"],
    ["rank", "world_rank"],
    ["local_rank", "rank", "world_rank"],
]


@st.composite
def alike_texts(draw: st.DrawFn) -> tuple[bytes, str]:
    """Draw such a table with some damage, above all in and beside its values."""
    data, name = draw(alike_tables())
    places = [at for m in _VALUE.finditer(data) for at in range(m.start(), m.end() + 1)]
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.sampled_from(places) | st.integers(0, len(data)))
        end = draw(st.sampled_from([start, start + 1, start + 40, len(data)]))
        piece = draw(st.sampled_from(ODD_PIECES) | st.just(data[start:end] * 2))
        data = data[:start] + piece + data[end:]
    return data, name


_VALUE = re.compile(rb':\s*("[^"]*"|[0-9]+)')


@st.composite
def hccl_texts(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a table of Ascend's, perhaps with a little damage."""
    servers = []
    rank = 0
    for place, chips in enumerate(draw(st.lists(chip_lists, min_size=1, max_size=4))):
        devices = []
        for chip in chips:
            device: dict[str, object] = {"device_id": str(chip)}
            if draw(st.booleans()):
                device["device_ip"] = draw(
                    st.sampled_from(["10.0.0.1", "", "10.0.0.1,10.0.0.2", "fd00::1"])
                )
            device["rank_id"] = str(rank)
            if draw(st.integers(0, 3)) == 0:
                device["device_port"] = "16666"
            rank += 1
            devices.append(device)
        server: dict[str, object] = {"server_id": f"n{place}", "device": devices}
        if draw(st.integers(0, 3)) == 0:
            server["host_ip"] = "10.0.0.9"
        servers.append(server)
    document: dict[str, object] = {
        "status": "completed",
        "version": draw(st.sampled_from(["1.0", "1.2"])),
        "server_count": str(len(servers)),
        "server_list": servers,
    }
    if draw(st.booleans()):
        document["super_pod_list"] = [
            {"super_pod_id": "0", "server_list": [{"server_id": "n0"}]}
        ]
    data = json.dumps(document, indent=draw(st.sampled_from([None, 2]))).encode()
    if draw(st.booleans()):
        old, new = draw(
            st.sampled_from(
                [
                    (b'"1"', b"1"),
                    (b'"rank_id"', b'"rank"'),
                    (b'"0"', b'"00"'),
                    (b'"device_id": "0"', b'"device_id": "0", "device_id": "0"'),
                    (b"n0", b"n1"),
                    (b"]", b""),
                ]
            )
        )
        data = data.replace(old, new, 1)
    return data
