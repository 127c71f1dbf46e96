"""Which texts are addresses, one by one and in the thousands of a whole table."""

from __future__ import annotations

import ipaddress
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.schema.check import check
from ranktable.schema.rules.nodes import ipv4_numbers
from ranktable.schema.values import is_address

SPELT = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.text(alphabet="0123456789. ,-+e", max_size=15),
    st.sampled_from(["", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "1.2.3.-4"]),
    st.sampled_from(["fd00::1", "1.2.3.4 ", "1.2.3.4,5.6.7.8"]),
    st.sampled_from(["\u0661.2.3.4", "\ud800"]),
)


@given(st.lists(SPELT, max_size=5))
def test_numbers_are_those_of_the_addresses(texts: list[str]) -> None:
    try:
        expected = {int(ipaddress.IPv4Address(text)) for text in texts}
    except ValueError:
        expected = None

    assert ipv4_numbers(texts) == expected


@pytest.mark.parametrize("odd", ["", "10.0.0.256", "10.0.0", "10.0.0.1 ", "node"])
def test_one_odd_address_among_thousands_is_seen(odd: str) -> None:
    sound = [f"10.0.{index >> 8}.{index & 255}" for index in range(5000)]

    assert len(ipv4_numbers(sound) or ()) == len(sound)
    assert ipv4_numbers([*sound, odd]) is None
    assert not is_address(odd)


@pytest.mark.parametrize(
    ("hosts", "codes"),
    [
        (["n1", "n2"], []),
        (["10.0.0.1", "fd00::1"], []),
        (["fe80::1%eth0", "n2"], []),
        (["localhost"], []),
        (["localhost", "n2"], ["RT276"]),
        (["127.0.1.1", "n2"], ["RT276"]),
        (["127.1", "ip6-localhost", "0.0.0.0"], ["RT276"] * 3),  # noqa: S104
        (["0", "n2"], []),
        (["N1", "n1"], ["RT212"]),
        (["FD00:0::1", "fd00::1"], ["RT212"]),
        (["n1:22", "n2"], ["RT218"]),
        (["n 1", "n2"], ["RT218"]),
        (["me@n1", "[fd00::1]"], ["RT218", "RT218"]),
    ],
)
def test_host_of_a_table_can_be_connected_to(
    hosts: list[str], codes: list[str]
) -> None:
    nodes = [
        {"host": host, "device_list": [{"device_id": "0", "rank": str(rank)}]}
        for rank, host in enumerate(hosts)
    ]
    found = check(json.dumps({"version": "1.0", "node_list": nodes}).encode())

    told = [each.code for each in found.diagnostics]
    assert [code for code in told if code not in ("RT118", "RT505")] == codes
