"""HCCL 2.0: tables that list ranks, and what belongs to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ranktable
from ranktable.schema.check import check
from tests.conftest import CORPUS

SOUND = {
    "hccl20_backup_npu_64plus1.json": ("hccl-2.0", [0, 1, 2, 64], 1),
    "hccl20_eid_host_layer3_8p.json": ("hccl-2.0", list(range(8)), 1),
    "hccl20_ipv4_2s4p.json": ("hccl-2.0", [0, 1, 0, 1], 2),
    "hccl20_no_status_control_plane.json": ("hccl-2.0", [0, 1], 1),
}
Table = dict[str, Any]


def sound_table() -> Table:
    """Return a table of two servers in which every key occurs."""
    data = (CORPUS / "hccl" / "valid" / "hccl20_ipv4_2s4p.json").read_bytes()
    table: Table = json.loads(data)
    first = table["rank_list"][0]
    first["control_plane"] = {
        "addr_type": "IPV6",
        "addr": "2001:db8::5",
        "listen_port": 8000,
    }
    level = first["level_list"][0]
    level["pcie_fallback"] = True
    level["rank_addr_list"][0]["backup_addr"] = ["10.20.0.9"]
    return {**table, "detour": "false"}


@pytest.mark.parametrize("name", SOUND)
def test_sound_table_is_read_and_written_back_unchanged(name: str) -> None:
    data = (CORPUS / "hccl" / "valid" / name).read_bytes()
    report = check(data)

    assert report.totals == {}
    assert report.table is not None
    assert (report.format, report.table.chip_map, report.table.num_nodes) == SOUND[name]
    written = ranktable.dumps(report.table)
    assert json.loads(written) == json.loads(data)
    assert list(json.loads(written)) == list(json.loads(data))
    assert ranktable.loads(written) == report.table
    assert ranktable.loads(written).digest() == report.table.digest()


def test_unknown_keys_are_kept_and_not_reported() -> None:
    table = sound_table()
    table["site"] = {"rack": [1]}
    table["rank_list"][2]["serial"] = None
    report = check(json.dumps(table).encode())

    assert report.totals == {}
    assert report.table is not None
    assert json.loads(ranktable.dumps(report.table)) == table


def test_version_as_a_number_keeps_the_format_that_was_meant() -> None:
    table = sound_table()

    as_number = check(json.dumps({**table, "version": 2.0}).encode())
    del table["version"]
    missing = check(json.dumps(table).encode())

    assert (as_number.format, set(as_number.totals)) == ("hccl-2.0", {"RT113"})
    assert (missing.format, set(missing.totals)) == ("hccl-2.0", {"RT112"})


def test_ranks_of_one_network_are_one_node_wherever_they_stand() -> None:
    table = sound_table()
    table["rank_list"] = [table["rank_list"][i] for i in (2, 0, 3, 1)]
    report = check(json.dumps(table).encode())

    assert report.table is not None
    assert report.table.chip_map == [0, 1, 0, 1]
    ranks = [[one.rank for one in node.devices] for node in report.table.nodes]
    assert ranks == [[0, 1], [2, 3]]
    assert json.loads(ranktable.dumps(report.table)) == table


def test_table_that_was_changed_is_written_from_its_nodes() -> None:
    table = ranktable.loads(json.dumps(sound_table()))
    fewer = ranktable.dumps(table.with_changes(nodes=table.nodes[:1]))

    assert [one["rank_id"] for one in json.loads(fewer)["rank_list"]] == [0, 1]
    assert json.loads(fewer)["rank_count"] == 2


def test_address_that_two_ranks_have_in_one_network_is_found() -> None:
    table = sound_table()
    first, last = (table["rank_list"][at]["level_list"] for at in (0, 3))
    last[1]["rank_addr_list"][0]["addr"] = first[1]["rank_addr_list"][0]["addr"]
    (found,) = check(json.dumps(table).encode()).diagnostics

    assert (found.code, found.location.pointer) == (
        "RT214",
        "/rank_list/3/level_list/1/rank_addr_list/0/addr",
    )


@pytest.mark.parametrize("change", ["another network", "card of the host"])
def test_address_that_may_be_there_twice_is_no_finding(change: str) -> None:
    table = sound_table()
    first, last = (table["rank_list"][at]["level_list"] for at in (0, 3))
    place = 0 if change == "another network" else 1  # layer 0 is within the server
    one, other = (level[place]["rank_addr_list"][0] for level in (first, last))
    other["addr"] = one["addr"]
    if change == "card of the host":
        one["ports"] = other["ports"] = ["d2h"]

    assert check(json.dumps(table).encode()).totals == {}


@pytest.mark.parametrize(
    ("levels", "code", "words"),
    [
        ({3: []}, "RT265", "no network connects rank 3 with the other ranks"),
        ({2: [0], 3: [0]}, "RT265", "no network connects the ranks 2, 3 with the"),
        ({0: [0], 2: [0]}, "", ""),  # over rank 1, which may pass nothing on
        ({3: [1]}, "RT264", "has no net_layer 0"),
        ({0: [], 1: [], 2: [], 3: []}, "", ""),
    ],
)
def test_ranks_of_which_no_network_has_others_are_told(
    levels: dict[int, list[int]], code: str, words: str
) -> None:
    table = sound_table()
    for at, kept in levels.items():
        rank = table["rank_list"][at]
        rank["level_list"] = [rank["level_list"][layer] for layer in kept]
    found = check(json.dumps(table).encode()).diagnostics

    assert [each.code for each in found] == [code] * bool(code)
    assert all(words in each.message for each in found)
    where = f"/rank_list/{min(levels)}/level_list"
    assert all(each.location.pointer == where for each in found)


@pytest.mark.parametrize("chip", ["950", 950, "Ascend950PR", "950DT", "910_95", "a5"])
def test_names_of_the_950_ask_for_a_table_of_2_0(chip: str | int) -> None:
    old = b'{"version":"1.0","status":"completed","server_list":[{"server_id":"a",'
    old += b'"device":[{"device_id":"0","device_ip":"10.0.0.1","rank_id":"0"}]}]}'

    assert set(check(old, chip=chip).totals) == {"RT287"}
    assert check(json.dumps(sound_table()).encode(), chip=chip).totals == {}


@pytest.mark.parametrize("chip", ["910C", "910_93", "Ascend910B4", "310P3", "910A"])
def test_names_of_older_chips_ask_for_a_table_of_1_x(chip: str) -> None:
    found = check(json.dumps(sound_table()).encode(), chip=chip).totals

    assert set(found) == {"RT287"}
