"""Every example of the corpus: sound ones have no error, broken ones the right code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.runtime.table import is_rank_table_valid, read_rank_table
from ranktable.schema.check import check
from ranktable.schema.finding import RankTableError
from ranktable.schema.formats.foreign import Foreign, foreign_formats
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

SOUND = sorted((CORPUS / "sccl" / "valid").iterdir())
BROKEN: dict[str, dict[str, tuple[int | None, int | None]]] = {
    "device_id_float.json": {"RT114": (12, 33)},
    "device_id_hex_string.json": {"RT114": (12, 33)},
    "device_id_leading_zero.json": {"RT114": (12, 33)},
    "device_id_missing.json": {"RT112": (11, 17)},
    "device_id_null.json": {"RT113": (12, 33)},
    "device_ip_invalid.json": {"RT211": (10, 42)},
    "duplicate_keys.json": {"RT105": (1, 64)},
    "empty_file.json": {"RT102": (None, None)},
    "local_rank_wrong.json": {"RT206": (16, 34)},
    "missing_version.json": {"RT112": (1, 1)},
    "node_list_empty.json": {"RT116": (3, 17)},
    "not_json.json": {"RT103": (1, 30)},
    "rank_duplicate.json": {"RT202": (28, 28)},
    "rank_interleaved_nodes.json": {"RT503": (14, 28)},
    "rank_local_only.json": {"RT202": (23, 28)},
    "rank_negative.json": {"RT203": (14, 28)},
    "server_count_mismatch.json": {"RT111": (5, 5)},
    "single_quotes.json": {"RT104": (1, 2)},
    "trailing_comma.json": {"RT101": (1, 75)},
}
NO_RING = ("device_list_not_ring_4.json", "device_list_not_ring_8.json")


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_sound_example_has_no_error(path: Path) -> None:
    report = check(path)

    assert report.ok
    assert report.table is not None
    assert is_rank_table_valid(path)
    assert read_rank_table(path) == report.table.chip_map


@pytest.mark.parametrize("name", BROKEN)
def test_broken_example_has_its_code_at_its_place(name: str) -> None:
    path = CORPUS / "sccl" / "broken" / name
    report = check(path)
    errors = [d for d in report.diagnostics if d.severity == "error"]
    first = errors[0]

    assert {first.code: (first.location.line, first.location.column)} == BROKEN[name]
    assert {d.code for d in errors} == set(BROKEN[name])
    assert not is_rank_table_valid(path)
    with pytest.raises(RankTableError) as raised:
        read_rank_table(path)
    assert raised.value.diagnostics == tuple(errors)


@pytest.mark.parametrize("name", NO_RING)
def test_order_without_ring_is_noted_and_with_topology_an_error(name: str) -> None:
    path = CORPUS / "sccl" / "broken" / name

    unknown, known = check(path), check(path, topology="sophgo-8")

    assert (unknown.ok, set(unknown.totals)) == (True, {"RT502"})
    assert (known.ok, set(known.totals)) == (False, {"RT501"})


def test_every_broken_example_is_covered() -> None:
    names = {path.name for path in (CORPUS / "sccl" / "broken").iterdir()}

    assert names == {*BROKEN, *NO_RING, "server_count_string.json"}


def test_address_for_the_name_of_a_server_is_named_where_hccl_is_meant() -> None:
    found = check(CORPUS / "sccl" / "broken" / "server_count_string.json").diagnostics

    assert [(one.code, one.location.pointer) for one in found] == [
        ("RT112", "/server_list/0/server_ip"),
        ("RT214", "/server_list/0/device/1/device_ip"),
    ]
    assert found[0].hint == 'rename it to "server_id"'


CHIPS = {"hccl10": "A2", "hccl10_310p": "310P", "hccl12": "A3", "hccl20": "A5"}
CHIPS |= {"legacy": "910", "k8s": "A2"}
HCCL_SOUND = [
    path
    for path in sorted((CORPUS / "hccl" / "valid").iterdir())
    if check(path).format is not None
]
HCCL_BROKEN: dict[str, tuple[Any, ...]] = {
    # The code, the place, and the options of the check that are needed.
    "clusterd_group_count_mismatch.json": ("RT111", "/server_group_list"),
    "device_id_8_on_910a.json": (
        "RT208",
        "/server_list/0/device/0/device_id",
        {"chip": "910"},
    ),
    "device_ip_count_differs.json": ("RT272", "/server_list/1/device/0/device_ip"),
    "device_ip_duplicate.json": ("RT214", "/server_list/1/device/0/device_ip"),
    "device_ip_invalid.json": ("RT211", "/server_list/0/device/1/device_ip"),
    "device_port_int.json": ("RT113", "/server_list/0/device/0/device_port"),
    "device_port_too_big.json": ("RT260", "/server_list/0/device/0/device_port"),
    "group_count_mismatch.json": ("RT292", "/group_count"),
    "group_lab_3p.json": ("RT111", "/deploy_mode"),
    "group_pod_name_duplicate.json": (
        "RT295",
        "/group_list/0/instance_list/1/pod_name",
    ),
    "json_duplicate_key.json": ("RT105", "/server_list/0/device/0/rank_id"),
    "key_devices_instead_of_device.json": ("RT112", "/server_list/0/devices"),
    "mindie_no_container_ip.json": ("RT288", "/server_list/0", {"reader": "mindie"}),
    "mindie_uneven.json": ("RT289", "/server_list/1/device"),
    "pd_a3_super_device_id_missing.json": ("RT111", "/prefill_device_list"),
    "pd_cluster_id_duplicate.json": ("RT111", "/prefill_device_list"),
    "rank_duplicate.json": ("RT202", "/server_list/0/device/3/rank_id"),
    "rank_hex.json": ("RT114", "/server_list/0/device/3/rank_id"),
    "rank_id_int.json": ("RT113", "/server_list/0/device/0/rank_id"),
    "rank_interleaved_servers.json": ("RT215", "/server_list/0/device"),
    "rank_negative.json": ("RT203", "/server_list/0/device/3/rank_id"),
    "rank_starts_at_1.json": ("RT204", "/server_list/0/device/0/rank_id"),
    "rank_trailing_text.json": ("RT270", "/server_list/0/device/3/rank_id"),
    "sccl_device_twice.json": ("RT207", "/node_list/0/device_list/1/device_id"),
    "server_count_int.json": ("RT113", "/server_count"),
    "server_count_mismatch.json": ("RT210", "/server_count"),
    "server_id_100_chars.json": ("RT275", "/server_list/0/server_id"),
    "server_id_duplicate.json": ("RT212", "/server_list/1/server_id"),
    "server_id_empty.json": ("RT113", "/server_list/0/server_id"),
    "server_list_empty.json": ("RT116", "/server_list"),
    "status_initializing.json": ("RT213", "/status"),
    "status_missing.json": ("RT112", ""),
    "uneven_on_910a.json": ("RT285", "/server_list/1/device", {"chip": "910"}),
    "v11_collective_id_long.json": ("RT111", "/node_list"),
    "v12_backup_is_self.json": ("RT277", "/server_list/0/device/0/backup_device_ip"),
    "v12_content_marked_1_0.json": ("RT284", "/super_pod_list"),
    "v12_pod_unknown_server.json": (
        "RT279",
        "/super_pod_list/0/server_list/1/server_id",
    ),
    "v12_super_device_id_duplicate.json": (
        "RT283",
        "/server_list/1/device/0/super_device_id",
    ),
    "v12_two_pods_no_device_ip.json": ("RT271", "/server_list/0/device"),
    "v20_addr_type_case.json": (
        "RT261",
        "/rank_list/0/level_list/0/rank_addr_list/0/addr_type",
    ),
    "v20_backup_without_replaced.json": ("RT112", "/rank_list/0"),
    "v20_device_id_65.json": ("RT260", "/rank_list/0/device_id"),
    "v20_draft_keys.json": ("RT111", "/rank_list"),
    "v20_eid_short.json": ("RT263", "/rank_list/0/level_list/0/rank_addr_list/0/addr"),
    "v20_ipv4_invalid.json": (
        "RT263",
        "/rank_list/0/level_list/0/rank_addr_list/0/addr",
    ),
    "v20_levels_descending.json": ("RT264", "/rank_list/0/level_list/1/net_layer"),
    "v20_port_two_addresses.json": (
        "RT266",
        "/rank_list/0/level_list/1/rank_addr_list/1/ports/2",
    ),
    "v20_ports_empty.json": (
        "RT116",
        "/rank_list/0/level_list/0/rank_addr_list/0/ports",
    ),
    "v20_rank_count_mismatch.json": ("RT210", "/rank_count"),
    "v20_rank_duplicate.json": ("RT202", "/rank_list/1/rank_id"),
    "v20_rank_id_string.json": ("RT113", "/rank_list/0/rank_id"),
    "v20_rank_out_of_range.json": ("RT201", "/rank_list/1/rank_id"),
}
CHANGED_RANK = {"rank_id": 9, "local_id": 64}
FOREIGN: dict[str, object] = {
    "vllm-pd": {"version": "1.2", "prefill_device_list": []},
    "server-groups": {"version": "1.0", "server_group_list": []},
    "hccl-topology": {"version": "2.0", "peer_count": 0, "peer_list": []},
    "hccl-rootinfo": {"version": "2.0", "topo_file_path": "/t", "rank_list": []},
    "hccl-changed": {"version": "2.0", "rank_count": 2, "rank_list": [CHANGED_RANK]},
    "hccl-2.0-draft": {"rank_list": [{"level_list": [{"level": 0, "rank_addrs": []}]}]},
    "hccl-1.1": {"version": "1.1", "node_list": [], "collective_id": "j"},
    "local-comm-res": {"version": "1.3", "net_instance_id": "a"},
    "hccl-lab": {"group_list": [], "deploy_mode": "lab"},
    "hccl-logical": {"node_list": [{"node_id": "0", "rank_list": []}]},
    "hccl-roles": {"Servers": [], "Clients": []},
    "gaudi-hcl": {"HCL_PORT": 5332, "HCL_COUNT": 8},
    "paddle-mapping": [{"hostname": "a", "ranks": {"0": [0]}}],
    "paddle-topology": {"machines": []},
    "volcano-links": {"status": "completed", "pod_count": 1, "ips": []},
    "sccl-2024": {"server_count": 1, "server_list": [{"server_ip": "a"}]},
}


@pytest.mark.parametrize("path", HCCL_SOUND, ids=lambda path: path.name)
def test_sound_table_of_hccl_is_sound_for_its_chip_and_written_back(path: Path) -> None:
    start = max((one for one in CHIPS if path.name.startswith(one)), key=len)
    report = check(path, chip=CHIPS[start])

    assert {one.severity.value for one in report.diagnostics} <= {"note"}
    if report.is_placeholder:
        assert check(path).totals == {"RT262": 1}
        return
    assert check(path).totals == {}
    assert report.table is not None
    assert check(ranktable.dumps(report.table)).totals == {}


@pytest.mark.parametrize("name", HCCL_BROKEN)
def test_broken_table_of_hccl_has_one_kind_of_finding(name: str) -> None:
    path = CORPUS / "hccl" / "broken" / name
    code, pointer, *options = HCCL_BROKEN[name]
    found = [
        one
        for one in check(path, **(options[0] if options else {})).diagnostics
        if one.code != "RT118"
    ]

    assert {one.code for one in found} == {code}
    assert found[0].location.pointer == pointer
    assert found[0].location.line
    if not options:  # the fast path of a training process knows every error
        assert is_rank_table_valid(path) == check(path).ok


def test_every_table_of_hccl_is_covered() -> None:
    broken = {path.name for path in (CORPUS / "hccl" / "broken").iterdir()}
    foreign_here = {
        path
        for path in (CORPUS / "hccl" / "valid").iterdir()
        if set(check(path).totals) == {"RT111"}
    }

    assert broken == HCCL_BROKEN.keys()
    assert {*HCCL_SOUND, *foreign_here, CORPUS / "hccl" / "valid" / "hccn.conf"} == {
        *(CORPUS / "hccl" / "valid").iterdir()
    }


@pytest.mark.parametrize("one", foreign_formats(), ids=lambda one: one.name)
def test_format_that_is_not_read_is_named_with_its_reader(one: Foreign) -> None:
    (found,) = check(json.dumps(FOREIGN[one.name]).encode()).diagnostics

    assert found.code == "RT111"
    assert found.message.endswith(f"({one.name}); {one.readers}")
    assert found.hint == one.advice
