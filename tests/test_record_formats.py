"""Formats that are trees of objects: each is read, judged, shown and written back."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

import ranktable
from ranktable.schema.check import check
from ranktable.schema.formats import OTHERS, by_name, detect
from ranktable.schema.json_schema import schema_text
from tests.conftest import CORPUS
from tests.format_schemas import validator
from tests.test_json_schema import _subschemas

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

NAMES = [other.name for other in OTHERS if other.name not in ("cce", "mindie")]
SHAPE = {"RT112", "RT113", "RT114", "RT115", "RT116", "RT203", "RT208"}
SHAPE |= {"RT260", "RT261", "RT270"}
SOUND = {
    "clusterd_global_a3.json": "server-groups",
    "gaudi_hcl_count.json": "gaudi-hcl",
    "gaudi_hcl_ranks.json": "gaudi-hcl",
    "hccl_offline_logical.json": "hccl-logical",
    "paddle_cluster_topo.json": "paddle-topology",
    "vllm_pd_a3.json": "vllm-pd",
}
BROKEN = {
    "clusterd_group_count_mismatch.json": ("RT259", 28, 23),
    "pd_a3_super_device_id_missing.json": ("RT258", 5, 5),
    "pd_cluster_id_duplicate.json": ("RT256", 59, 21),
}
Document = Any


def devices(*ranks: int, key: str = "rank_id") -> list[dict[str, Any]]:
    return [
        {"device_id": str(place), "device_ip": f"10.0.0.{place + 1}", key: str(rank)}
        for place, rank in enumerate(ranks)
    ]


def groups(*servers: list[dict[str, Any]], count: object = None) -> Document:
    """Return a table whose group 2 has servers with these devices."""
    listed = [
        {
            "server_id": f"10.30.0.{place}",
            "server_ip": f"10.40.0.{place}",
            "device": one,
        }
        for place, one in enumerate(servers, 1)
    ]
    count = str(len(listed)) if count is None else count
    return {
        "version": "1.0",
        "status": "completed",
        "server_group_list": [
            {"group_id": "0", "server_count": "0", "server_list": []},
            {
                "group_id": "1",
                "server_count": "1",
                "server_list": [{"server_ip": "10.40.0.9", "predict_port": "1025"}],
            },
            {"group_id": "2", "server_count": count, "server_list": listed},
        ],
    }


def disaggregated(*chips: dict[str, str], decode: int = 1) -> Document:
    """Return a table of devices, the last of which decode."""
    listed = [
        {
            "server_id": f"10.30.0.{place // 2}",
            "device_id": str(place % 2),
            "device_ip": f"10.0.0.{place + 1}",
            "cluster_id": str(place + 1),
            **chip,
        }
        for place, chip in enumerate(chips)
    ]
    at = len(listed) - decode
    return {
        "version": "1.2",
        "server_count": str((len(listed) + 1) // 2),
        "prefill_device_list": listed[:at],
        "decode_device_list": listed[at:],
        "status": "completed",
    }


SAMPLES: dict[str, Document] = {
    "server-groups": groups(devices(0, 1), devices(2, 3)),
    "vllm-pd": disaggregated({}, {}, {}, {}),
    "paddle-mapping": [
        {"hostname": "a", "addr": "10.0.0.1", "port": "6170", "ranks": {"0": [0, 1]}},
        {"hostname": "b", "addr": "10.0.0.2", "port": 6170, "ranks": {"1": [0]}},
    ],
    "hccl-roles": {
        "Servers": [{"id": 0, "IP": "10.0.0.1", "port": 8000}],
        "Clients": [{"IP": "10.0.0.2", "port": 0}],
    },
    "hccl-topology": {
        "version": "2.0",
        "peer_count": 2,
        "peer_list": [{"local_id": 0}, {"local_id": 1}],
        "edge_count": 1,
        "edge_list": [
            {
                "net_layer": 0,
                "link_type": "PEER2PEER",
                "protocols": ["UB_CTP", "UBG"],
                "local_a": 0,
                "local_a_ports": ["0/0"],
                "local_b": 1,
                "topo_instance_id": 0,
                "topo_type": "1DMESH",
                "position": "DEVICE",
            }
        ],
    },
}


def sample(name: str) -> Document:
    """Return a sound document of a format."""
    return copy.deepcopy(SAMPLES.get(name, by_name(name).example))


def found(document: Document) -> list[tuple[str, str | None]]:
    report = check(json.dumps(document).encode())
    return [(d.code, d.location.pointer) for d in report.diagnostics]


@pytest.mark.parametrize("name", NAMES)
def test_sound_document_is_detected_and_written_back_unchanged(name: str) -> None:
    document = sample(name)
    if name not in ("paddle-mapping", "kubernetes"):
        document["site"] = {"rack": [1]}

    report = check(json.dumps(document).encode())

    assert (report.format, report.totals) == (name, {})
    assert report.table is not None
    written = ranktable.dumps(report.table)
    assert json.loads(written) == document
    assert ranktable.loads(written) == report.table
    assert ranktable.loads(written).digest() == report.table.digest()


@pytest.mark.parametrize("name", SOUND)
def test_sound_example_has_no_finding(name: str) -> None:
    data = (CORPUS / "hccl" / "valid" / name).read_bytes()
    report = check(data)

    assert (report.format, report.totals) == (SOUND[name], {})
    assert report.table is not None
    assert json.loads(ranktable.dumps(report.table)) == json.loads(data)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_example_has_its_defect_at_its_place(name: str) -> None:
    (one,) = check(CORPUS / "hccl" / "broken" / name).diagnostics

    assert (one.code, one.location.line, one.location.column) == BROKEN[name]


@pytest.mark.parametrize(
    ("name", "document", "message"),
    [
        ("paddle-mapping", {}, "the table is an object, not a list"),
        ("gaudi-hcl", {"HCL_RANKS": ["a", 3]}, "HCL_RANKS[1] is 3, not an IP address"),
        (
            "hccl-2.0",
            {"rank_list": [{"level_list": [{"rank_addr_list": [{"ports": [3]}]}]}]},
            "rank_list[0].level_list[0].rank_addr_list[0].ports[0] is 3, not a string",
        ),
    ],
)
def test_wrong_entry_of_a_list_is_named_with_its_list(
    name: str, document: Document, message: str
) -> None:
    report = check(json.dumps(document).encode(), format=name)

    assert message in [one.message for one in report.diagnostics]


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_a_schema_with_valid_examples(name: str) -> None:
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)

    for key, one in [("", schema), *_subschemas(schema)]:
        assert all(one.get(word) for word in ("title", "description", "examples")), key
        rooted = {"$defs": schema["$defs"], **one}
        judge = Draft202012Validator(rooted, format_checker=FormatChecker())
        assert all(map(judge.is_valid, one["examples"])), key


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_shown(name: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(sample(name)), "utf-8")
    outcome = run("ranktable", "show", str(file))

    assert outcome.status == 0, outcome.err
    assert f": {name}, " in outcome.out


def test_groups_are_shown_one_by_one(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(sample("server-groups")), "utf-8")

    assert run("ranktable", "show", str(file)).out.splitlines()[1:] == [
        "group 1, 10.40.0.9: no chips",
        "group 2, 10.30.0.[1-2]: chips 0,1 -> ranks 0-3, 2 each",
    ]


def test_ranks_restart_in_every_group_or_in_every_server() -> None:
    assert found(groups(devices(0, 1), devices(2, 3))) == []
    assert found(groups(devices(0, 1), devices(0, 1))) == []
    at = "/server_group_list/2/server_list/1/device/1/rank_id"
    assert found(groups(devices(0, 1), devices(2, 1))) == [("RT269", at)]


def test_count_of_a_group_may_be_a_number_and_has_to_be_right() -> None:
    assert found(groups(devices(0), count=1)) == []
    at = "/server_group_list/2/server_count"
    assert found(groups(devices(0), count=3)) == [("RT259", at)]


def test_port_of_a_group_table_has_limits() -> None:
    document = sample("server-groups")
    document["server_group_list"][1]["server_list"][0]["predict_port"] = "80"

    at = "/server_group_list/1/server_list/0/predict_port"
    assert found(document) == [("RT260", at)]


def test_one_super_device_id_on_every_card_is_found() -> None:
    cards = [{"super_pod_id": "0", "super_device_id": "7"} for _ in range(3)]

    assert [code for code, _ in found(disaggregated(*cards))] == ["RT257"] * 2


def test_rank_of_a_disaggregated_device_is_its_place() -> None:
    table = ranktable.loads(json.dumps(sample("vllm-pd")))

    assert table.chip_map == [0, 1, 0, 1]
    assert [node.group for node in table.nodes] == ["prefill", "prefill, decode"]


def test_gaudi_hosts_may_alternate() -> None:
    document = {"HCL_RANKS": ["10.0.0.1", "10.0.0.2", "10.0.0.1"]}
    table = ranktable.loads(json.dumps(document))

    assert (table.chip_map, table.hosts) == ([0, 0, 1], ("10.0.0.1", "10.0.0.2"))
    assert found({"HCL_RANKS": ["10.0.0.1", "host"]}) == [("RT211", "/HCL_RANKS/1")]


def test_counts_of_a_topology_are_compared() -> None:
    document = sample("hccl-topology")

    assert found({**document, "peer_count": 3}) == [("RT210", "/peer_count")]
    assert found({**document, "edge_count": 0}) == [("RT210", "/edge_count")]


def test_groups_are_not_converted_into_one_table(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(sample("server-groups")), "utf-8")
    refused = run("ranktable", "convert", str(file), "--to", "mpich-machinefile")
    same = run("ranktable", "convert", str(file), "--to", "server-groups")

    assert (refused.status, refused.out) == (2, "")
    assert "does not give ranks to the processes of a job" in refused.err
    assert json.loads(same.out) == sample("server-groups")


def test_tables_of_other_vendors_are_written_from_hosts_and_chips(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "t.json"
    file.write_bytes((CORPUS / "hccl" / "valid" / "hccl10_1s1p.json").read_bytes())

    for name in ("gaudi-hcl", "paddle-mapping", "hccl-logical"):
        outcome = run("ranktable", "convert", str(file), "--to", name)
        assert outcome.status == 0, outcome.err
        assert detect(json.loads(outcome.out)) is by_name(name)
    outcome = run("ranktable", "convert", str(file), "--to", "vllm-pd")
    assert (outcome.status, outcome.out) == (2, "")
    assert "prefill" in outcome.err


_VALUES = st.one_of(
    st.sampled_from(["", " ", "0", "-1", "00", "x", "10.0.0.9", "2.0", "9999999999"]),
    st.integers(-2, 70),
    st.sampled_from([65_536, 10**9]),
    st.floats(-9, 9).filter(lambda number: not number.is_integer()),
    st.none(),
    st.booleans(),
    st.sampled_from(["[]", "{}", "[[]]", "[{}]"]).map(json.loads),
)


@st.composite
def changed(draw: st.DrawFn, name: str) -> Document:
    """Draw a document that is sound but for one or two changes."""
    document = sample(name)
    for _ in range(draw(st.integers(1, 2))):
        places: list[tuple[Any, Any]] = []
        stack = [document]
        while stack:
            holder = stack.pop()
            for key in holder if isinstance(holder, dict) else range(len(holder)):
                places.append((holder, key))
                if isinstance(holder[key], (dict, list)):
                    stack.append(holder[key])
        if not places:
            return document
        holder, key = draw(st.sampled_from(places))
        if draw(st.integers(0, 3)):
            holder[key] = draw(_VALUES)
        else:
            del holder[key]
    return document


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_schema_and_reader_agree(name: str, data: st.DataObject) -> None:
    document = data.draw(changed(name))
    if isinstance(document, dict) or name == "paddle-mapping":
        report = check(json.dumps(document).encode(), format=name)
        if report.format != name or "RT268" in report.totals:
            return
        valid = validator(name).is_valid(document)
        codes = {
            d.code
            for d in report.diagnostics
            if "is a spare and has no" not in d.message
        }
        codes -= {"RT113"} if name == "paddle-mapping" and valid else set()

        assert valid or SHAPE & codes, report.diagnostics
        # A schema cannot limit a number that is spelt as text.
        assert not valid or not SHAPE & codes - {"RT203", "RT260"}, report.diagnostics


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_changed_value_ends_in_a_finding_or_in_the_same_document(
    name: str, data: st.DataObject
) -> None:
    document = data.draw(changed(name))
    report = check(json.dumps(document).encode())

    assert report.ok == (report.table is not None)
    if report.table is not None:
        assert json.loads(ranktable.dumps(report.table)) == document
