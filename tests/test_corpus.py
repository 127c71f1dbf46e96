"""Every example of the corpus: sound ones have no error, broken ones the right code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.runtime.table import is_rank_table_valid, read_rank_table
from ranktable.schema.check import check
from ranktable.schema.diagnostic import RankTableError
from ranktable.schema.formats import foreign
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
HCCL_SOUND = [
    path
    for path in sorted((CORPUS / "hccl" / "valid").iterdir())
    if path.name.startswith(("hccl10_", "hccl12_"))
]
HCCL_BROKEN = {
    "device_ip_duplicate.json": {"RT214": "/server_list/1/device/0/device_ip"},
    "rank_interleaved_servers.json": {"RT215": "/server_list/0/device"},
    "status_initializing.json": {"RT213": "/status"},
    "device_ip_invalid.json": {"RT211": "/server_list/0/device/1/device_ip"},
    "json_duplicate_key.json": {"RT105": "/server_list/0/device/0/rank_id"},
    "key_devices_instead_of_device.json": {
        "RT112": "/server_list/0/devices",
    },
    "rank_duplicate.json": {"RT202": "/server_list/0/device/3/rank_id"},
    "rank_hex.json": {"RT114": "/server_list/0/device/3/rank_id"},
    "rank_id_int.json": {"RT113": "/server_list/0/device/7/rank_id"},
    "rank_negative.json": {"RT203": "/server_list/0/device/3/rank_id"},
    "rank_starts_at_1.json": {"RT204": "/server_list/0/device/0/rank_id"},
    "rank_trailing_text.json": {"RT270": "/server_list/0/device/3/rank_id"},
    "server_count_int.json": {"RT113": "/server_count"},
    "server_count_mismatch.json": {"RT210": "/server_count"},
    "server_id_duplicate.json": {"RT212": "/server_list/1/server_id"},
    "server_id_empty.json": {"RT113": "/server_list/0/server_id"},
    "server_list_empty.json": {"RT116": "/server_list"},
    "status_missing.json": {"RT112": ""},
    "v12_content_marked_1_0.json": {"RT284": "/super_pod_list"},
}
FOREIGN = [
    path
    for path in sorted((CORPUS / "hccl").glob("*/*.json"))
    if check(path).format in (None, "sccl-1.0")
]
SCCL_AMONG_THEM = "sccl_device_twice.json"


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


PAIR = {"rank_id": 9, "local_id": 64}
FOREIGN_FILES: dict[str, object] = {
    "vllm-pd": {"version": "1.2", "prefill_device_list": []},
    "server-groups": {"version": "1.0", "server_group_list": []},
    "hccl-topology": {"version": "2.0", "peer_count": 0, "peer_list": []},
    "hccl-rootinfo": {"version": "2.0", "topo_file_path": "/t", "rank_list": []},
    "hccl-changed": {"version": "2.0", "rank_count": 2, "rank_list": [PAIR]},
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


def test_every_format_that_is_not_read_has_a_file_here() -> None:
    assert FOREIGN_FILES.keys() == {
        *(one.name for one in foreign.FOREIGN),
        *(foreign.SCCL_2024.name, foreign.CHANGED.name),
    }


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_format_that_is_not_read_is_named_with_its_reader(name: str) -> None:
    (found,) = check(json.dumps(FOREIGN_FILES[name]).encode()).diagnostics

    assert found.code == "RT111"
    assert f"({name}); " in found.message
    assert found.hint


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_table_of_another_vendor_is_refused_as_such(path: Path) -> None:
    report = check(path)

    if path.name == SCCL_AMONG_THEM:
        assert set(report.totals) == {"RT118", "RT207"}
    else:
        assert "RT111" in report.totals or "RT105" in report.totals
    assert not report.ok


@pytest.mark.parametrize("path", HCCL_SOUND, ids=lambda path: path.name)
def test_sound_hccl_table_has_no_defect(path: Path) -> None:
    report = check(path)

    assert report.totals == {}
    assert report.format in {"hccl-1.0", "hccl-1.2"}
    assert report.table is not None
    assert check(ranktable.dumps(report.table)).totals == {}


@pytest.mark.parametrize("name", HCCL_BROKEN)
def test_broken_hccl_table_has_its_defect(name: str) -> None:
    report = check(CORPUS / "hccl" / "broken" / name)

    assert {d.code: d.location.pointer for d in report.diagnostics} == HCCL_BROKEN[name]


def test_configuration_of_another_vendor_is_no_table() -> None:
    assert set(check(CORPUS / "hccl" / "valid" / "hccn.conf").totals) == {"RT101"}
