"""Cluster specs: what they say, what is wrong with them, the tables they become."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.cluster.generate import make_table
from ranktable.cluster.host_lists import fold_hosts
from ranktable.cluster.specs.read_spec import MAX_SIZE_BYTES, read_spec
from ranktable.cluster.specs.spec import ORDERS, spare_nodes, table_from_spec
from ranktable.schema.topology import SOPHGO_8
from tests.file_cases import read_cases

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable


def table(text: str) -> RankTable:
    reading = read_spec(text.encode(), file="cluster.yaml")
    assert reading.spec is not None, reading.report.diagnostics
    return table_from_spec(reading.spec)


def hosts(text: str) -> list[str | None]:
    return [node.host for node in table(text).nodes]


def found(text: str) -> list[str]:
    """Return line, column and code of everything that is found."""
    reading = read_spec(text.encode(), file="cluster.yaml")
    assert (reading.spec is None) == (not reading.report.ok)
    return [
        f"{d.location.line}:{d.location.column} {d.code}" if d.location.line else d.code
        for d in reading.report.diagnostics
    ]


def test_count_makes_nodes_without_hosts() -> None:
    made = table("nodes: 2\nchips: 4\n")

    assert [node.host for node in made.nodes] == [None, None]
    assert made.chip_map == [0, 1, 2, 3, 0, 1, 2, 3]


def test_hosts_keep_the_order_of_the_list() -> None:
    assert hosts("nodes: n[3,1-2],login\nchips: 1\n") == ["n3", "n1", "n2", "login"]


@pytest.mark.parametrize(
    ("chips", "expected"),
    [
        ("2", [[0, 1], [0, 1], [0, 1]]),
        ("[5, 4]", [[5, 4], [5, 4], [5, 4]]),
        ("{'n[1,3]': 1, n2: [7, 6]}", [[0], [7, 6], [0]]),
    ],
)
def test_chips_are_a_count_a_list_or_one_of_them_for_groups(
    chips: str, expected: list[list[int]]
) -> None:
    made = table(f"nodes: n[1-3]\nchips: {chips}\n")

    assert [made.local_chip_map(node) for node in range(3)] == expected


def test_ring_orders_the_chips_of_every_node() -> None:
    made = table("nodes: 2\nchips: 8\nring: sophgo-8\n")

    assert not SOPHGO_8.broken_links(made.local_chip_map(1))


def test_addresses_follow_the_pattern_whatever_the_order() -> None:
    made = table(
        "nodes: n[1-4]\nchips: [3, 1]\naddresses: 10.{node/2}.{node%2+7}.{chip}\n"
        "racks: {a: 'n[3-4]', b: 'n[1-2]'}\norder: by-rack\nspares: n2\n"
    )

    assert [
        (node.host, [device.address for device in node.devices]) for node in made.nodes
    ] == [
        ("n3", ["10.1.7.3", "10.1.7.1"]),
        ("n4", ["10.1.8.3", "10.1.8.1"]),
        ("n1", ["10.0.7.3", "10.0.7.1"]),
    ]


def test_addresses_may_be_the_hosts() -> None:
    made = table("nodes: 10.0.0.[5-6]\nchips: 1\naddresses: '{host}'\n")

    assert [made.device_of(rank).address for rank in (0, 1)] == ["10.0.0.5", "10.0.0.6"]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("racks: 2\norder: as-listed", "1 2 3 4 5"),
        ("racks: 2\norder: by-rack", "1 2 3 4 5"),
        ("racks: 2\norder: across-racks", "1 3 5 2 4"),
        ("racks: {a: 'n[1,3,5]', b: 'n[2,4]'}", "1 2 3 4 5"),
        ("racks: {a: 'n[1,3,5]', b: 'n[2,4]'}\norder: by-rack", "1 3 5 2 4"),
        ("racks: {b: 'n[2,4]', a: 'n[1,3,5]'}\norder: by-rack", "2 4 1 3 5"),
        ("racks: {a: 'n[1-3]', b: 'n[4-5]'}\norder: across-racks", "1 4 2 5 3"),
        (
            "racks: {a: 'n[1-3]', b: 'n[4-5]'}\norder: across-racks\nspares: n1",
            "2 4 3 5",
        ),
    ],
)
def test_order_of_the_nodes(rest: str, expected: str) -> None:
    text = f"nodes: n[1-5]\nchips: 1\n{rest}\n"

    assert hosts(text) == [f"n{number}" for number in expected.split()]


def test_spares_are_not_among_the_nodes() -> None:
    reading = read_spec(b"nodes: n[1-4]\nchips: 1\nspares: n[4,2]\n", file="s.yaml")
    assert reading.spec is not None

    assert [node.host for node in table_from_spec(reading.spec).nodes] == ["n1", "n3"]
    assert [node.host for node in spare_nodes(reading.spec)] == ["n2", "n4"]


REFUSED = {text: found.split("\n") for text, found in read_cases("specs").items()}


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_defect_has_its_code_line_and_column(text: str) -> None:
    assert found(text) == REFUSED[text]


def test_bytes_that_are_no_text_end_in_a_diagnostic() -> None:
    for data, code in ((b"\xff", "RT005"), (b"#" * (MAX_SIZE_BYTES + 1), "RT004")):
        assert list(read_spec(data, file="s.yaml").report.totals) == [code]


_HOSTS = st.lists(
    st.from_regex(r"[a-c][0-9]{1,2}(-ib)?", fullmatch=True),
    min_size=1,
    max_size=8,
    unique=True,
)
_CHIPS = st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True)


@given(names=_HOSTS, data=st.data())
def test_table_that_is_written_as_a_spec_comes_back(
    names: list[str], data: st.DataObject
) -> None:
    chips = [data.draw(_CHIPS) for _ in names]
    spec = {
        "nodes": fold_hosts(names),
        "chips": dict(zip(names, chips, strict=True)),
    }

    made = table(json.dumps(spec))

    assert made == make_table(chips, hosts=names)


@given(names=_HOSTS, size=st.integers(1, 4), order=st.sampled_from(ORDERS))
def test_every_order_has_every_host_once_and_moves_no_address(
    names: list[str], size: int, order: str
) -> None:
    spec = {
        "nodes": fold_hosts(names),
        "chips": 1,
        "racks": size,
        "order": order,
        "addresses": "10.0.0.{node}",
    }

    made = table(json.dumps(spec))

    places = {str(node.host): node.devices[0].address for node in made.nodes}
    assert places == {name: f"10.0.0.{place}" for place, name in enumerate(names)}
