"""Every example of the corpus: sound ones have no error, broken ones the right code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.runtime.table import is_rank_table_valid, read_rank_table
from ranktable.schema.check import check
from ranktable.schema.finding import RankTableError
from ranktable.schema.formats.foreign import Foreign, foreign_formats
from tests.conftest import CORPUS
from tests.file_cases import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

SOUND = sorted((CORPUS / "sccl" / "valid").iterdir())


def read_broken(kind: str) -> dict[str, tuple[str, str, dict[str, str]]]:
    """Return code, place and options of each broken file of a kind."""
    rows = {}
    for line in (FOLDER / "corpus.txt").read_text().splitlines():
        if line.startswith(f"{kind}/"):
            name, code, place, *options = line.split(maxsplit=3)
            more = json.loads(options[0]) if options else {}
            rows[name.removeprefix(f"{kind}/")] = (code, place, more)
    return rows


BROKEN, HCCL_BROKEN = read_broken("sccl"), read_broken("hccl")
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
    code, place, _ = BROKEN[name]
    path = CORPUS / "sccl" / "broken" / name
    errors = [d for d in check(path).diagnostics if d.severity == "error"]
    first = errors[0].location

    assert (f"{first.line}:{first.column}" if first.line else "-") == place
    assert {d.code for d in errors} == {code}
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
    code, pointer, options = HCCL_BROKEN[name]
    found = [
        one
        for one in check(path, **options).diagnostics  # type: ignore[arg-type]
        if one.code != "RT118"
    ]

    assert {one.code for one in found} == {code}
    assert (found[0].location.pointer or "/") == pointer
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
