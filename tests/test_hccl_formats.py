"""Formats of Ascend beside 1.0 and 1.2: read, judged, written back and converted."""

from __future__ import annotations

import copy
import json
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from benchmarks.other_vendors import super_pods
from ranktable.cluster.tables_of_groups import group_of, with_group
from ranktable.schema.formats import by_name, detect
from tests.conftest import CORPUS
from tests.format_schemas import validator
from tests.test_hccl import found_in, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Outcome

Table = dict[str, Any]

NAMES = (
    *("hccl-1.0", "hccl-1.1", "hccl-1.2", "mindie", "cce"),
    *("hccl-lab", "hccl-cloud", "local-comm-res"),
)
ERROR, WARNING, NOTE = "error", "warning", "note"
VALID = CORPUS / "hccl" / "valid"
BROKEN = CORPUS / "hccl" / "broken"
SHAPE = {"RT112", "RT113", "RT114", "RT115", "RT116", "RT260", "RT261", "RT270"}


def example(name: str) -> Table:
    return copy.deepcopy(by_name(name).example)


def corpus(name: str) -> Table:
    data: Table = json.loads((VALID / name).read_bytes())
    return data


def leaves(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every plain value."""
    if not isinstance(value, (dict, list)):
        yield path
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield from leaves(item, (*path, key))


def objects(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every object."""
    if isinstance(value, dict):
        yield path
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from objects(item, (*path, key))


def with_value(document: Table, path: tuple[Any, ...], value: object) -> Table:
    changed: Any = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_example_is_sound_detected_and_written_back_unchanged(name: str) -> None:
    document = example(name)
    report = judged(document, format=name)
    detected = judged(document).format

    assert report.totals == {}
    assert detected == ("hccl-1.0" if name == "mindie" else name)
    assert report.table is not None
    assert json.loads(ranktable.dumps(report.table)) == document


@pytest.mark.parametrize(
    ("name", "format_name", "num_nodes", "chip_map"),
    [
        ("hccl11_heterog.json", "hccl-1.1", 2, [0, -1, 0, -1]),
        ("legacy_group_lab_2s16p.json", "hccl-lab", 2, [*range(8), *range(8)]),
        ("legacy_group_cloud_8p.json", "hccl-cloud", 1, list(range(8))),
    ],
)
def test_corpus_table_has_its_format_and_its_chips(
    name: str, format_name: str, num_nodes: int, chip_map: list[int]
) -> None:
    report = ranktable.check(VALID / name, chip="910")

    assert (report.format, report.totals) == (format_name, {})
    assert report.table is not None
    assert (report.table.num_nodes, report.table.chip_map) == (num_nodes, chip_map)
    assert json.loads(ranktable.dumps(report.table)) == corpus(name)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("group_count_mismatch.json", "RT292"),
        ("group_lab_3p.json", "RT293"),
        ("group_pod_name_duplicate.json", "RT295"),
        ("v11_collective_id_long.json", "RT260"),
    ],
)
def test_broken_corpus_table_has_one_error(name: str, code: str) -> None:
    report = ranktable.check(BROKEN / name)

    assert [(d.code, d.severity.value) for d in report.diagnostics] == [(code, ERROR)]


def cloud(*servers: str) -> Table:
    """Return a cloud table with a pod of two chips on each server."""
    return {
        "status": "completed",
        "group_count": "1",
        "group_list": [
            {
                "group_name": "g",
                "device_count": str(2 * len(servers)),
                "instance_count": str(len(servers)),
                "instance_list": [
                    {
                        "pod_name": f"p{place}",
                        "server_id": server,
                        "devices": [
                            {
                                "device_id": str(chip),
                                "device_ip": f"10.0.{place}.{chip + 1}",
                            }
                            for chip in (1, 0)
                        ],
                    }
                    for place, server in enumerate(servers)
                ],
            }
        ],
    }


def test_ranks_of_a_cloud_table_are_counted_as_hccl_does() -> None:
    report = judged(cloud("10.0.0.9", "10.0.0.10"))

    assert report.table is not None
    assert list(report.table.hosts) == ["10.0.0.10", "10.0.0.9"]
    assert report.table.chip_map == [0, 1, 0, 1]
    assert report.table.device_of(0).address == "10.0.1.1"
    assert [(d.code, d.severity.value) for d in report.diagnostics] == [("RT296", NOTE)]
    assert judged(cloud("a", "b")).totals == {}


def test_a_large_cloud_table_is_written_in_linear_time() -> None:
    nodes = [
        ranktable.Node(
            host=f"n{place:05}",
            devices=tuple(
                ranktable.Device(rank=2 * place + chip, device_id=chip)
                for chip in range(2)
            ),
        )
        for place in range(20_000)
    ]
    table = ranktable.RankTable(nodes=nodes, format="hccl-cloud")
    began = process_time()
    written = by_name("hccl-cloud").write(table)

    assert process_time() - began < 6  # minutes if every pod is compared
    pods = written["group_list"][0]["instance_list"]  # type: ignore[index]
    assert [pod["pod_name"] for pod in pods] == list(table.hosts)
    assert all(len(pod["devices"]) == 2 for pod in pods)


def test_a_large_group_is_written_back_in_linear_time() -> None:
    servers = [
        {"server_id": f"n{rank}", "device": [{"device_id": "0", "rank_id": str(rank)}]}
        for rank in range(20_000)
    ]
    group = {"group_id": "2", "server_list": servers}
    whole = judged({"version": "1.0", "server_group_list": [group]}).sound_table()
    name, table = group_of(whole, None)
    turned = table.with_changes(nodes=table.nodes[::-1])
    began = process_time()
    written = with_group(whole, name, turned)

    assert process_time() - began < 6  # half a minute if every node is compared
    assert written == whole


def group(document: Table) -> Table:
    found: Table = document["group_list"][0]
    return found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda t: group(t).update(device_count="5"),
            ("RT292", ERROR, "/group_list/0/device_count"),
        ),
        (
            lambda t: group(t).update(instance_count="3"),
            ("RT292", ERROR, "/group_list/0/instance_count"),
        ),
        (lambda t: t.update(status="complete"), ("RT213", ERROR, "/status")),
        (
            lambda t: group(t)["instance_list"][0]["devices"][1].pop("device_ip"),
            ("RT271", ERROR, "/group_list/0/instance_list/0/devices/1"),
        ),
        (
            lambda t: group(t)["instance_list"][0]["devices"][1].update(device_id="1"),
            ("RT207", ERROR, "/group_list/0/instance_list/0/devices/1/device_id"),
        ),
        (
            lambda t: group(t)["instance_list"][0]["devices"][1].update(device_id=0),
            ("RT113", ERROR, "/group_list/0/instance_list/0/devices/1/device_id"),
        ),
        (
            lambda t: group(t)["instance_list"][0]["devices"][1].update(device_id="0x"),
            None,
        ),
    ],
)
def test_one_mistake_of_a_cloud_table_gives_one_finding(
    change: Callable[[Table], object], expected: tuple[str, str, str] | None
) -> None:
    document = cloud("a", "b")
    change(document)

    found = found_in(document)

    assert len(found) == 1
    assert expected is None or found == [expected]


def test_lab_table_points_at_the_rank_that_is_repeated() -> None:
    document = corpus("legacy_group_lab_2s16p.json")
    group(document)["instance_list"][3]["rank_id"] = "2"

    assert found_in(document) == [
        ("RT202", ERROR, "/group_list/0/instance_list/3/rank_id")
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.update(mode="udp"), [("RT261", ERROR, "/mode")]),
        (lambda t: t.pop("collective_id"), [("RT112", ERROR, "")]),
        (
            lambda t: t["node_list"][1].update(node_addr="host-b"),
            [("RT211", ERROR, "/node_list/1/node_addr")],
        ),
        (
            lambda t: t["node_list"][1].update(node_addr="172.20.3.40"),
            [("RT212", ERROR, "/node_list/1/node_addr")],
        ),
        (
            lambda t: t["node_list"][0]["ranks"][1].update(rank_id=1),
            [("RT113", ERROR, "/node_list/0/ranks/1/rank_id")],
        ),
        (
            lambda t: t["node_list"][0]["ranks"][0].update(host_ip="10.0.0.1"),
            [
                ("RT112", ERROR, "/node_list/0/ranks/1"),
                ("RT112", ERROR, "/node_list/1/ranks/0"),
                ("RT112", ERROR, "/node_list/1/ranks/1"),
            ],
        ),
        (
            lambda t: t["node_list"][0]["ranks"][1].update(device_id="0"),
            [("RT207", ERROR, "/node_list/0/ranks/1/device_id")],
        ),
    ],
)
def test_heterogeneous_table_is_judged_as_its_reader_does(
    change: Callable[[Table], object], expected: list[tuple[str, str, str]]
) -> None:
    document = corpus("hccl11_heterog.json")
    change(document)

    assert found_in(document) == expected


@pytest.mark.parametrize("name", ["hccl-1.1", "hccl-lab", "hccl-cloud", "cce"])
def test_number_with_something_around_it_is_taken_as_hccl_does(name: str) -> None:
    text = json.dumps(example(name)).replace('"device_id": "0"', '"device_id": "0 "')

    report = ranktable.check(text.encode())

    assert set(report.totals) == {"RT270"}
    assert report.table is not None
    assert report.table.chip_map[0] == 0


def test_form_of_a3_needs_more_keys() -> None:
    document = example("hccl-1.1")
    document["heterog_sub_version"] = "1.2"

    assert [code for code, _, _ in found_in(document)] == ["RT112"]
    document["node_list"][0]["ranks"][0]["sdid"] = "5"
    assert found_in(document) == []


@pytest.mark.parametrize(
    ("document", "name", "codes"),
    [
        ({"version": "1.3"}, "local-comm-res", set()),
        (
            {
                "version": "1.0",
                "status": "completed",
                "server_list": [
                    {
                        "server_id": "a",
                        "device": [{"device_id": "0", "device_ip": "10.0.0.1"}],
                    }
                ],
            },
            "local-comm-res",
            set(),
        ),
        ({"version": "1.3", "server_list": []}, "cce", {"RT112", "RT116"}),
        (
            {
                "version": "1.3",
                "endpoint_list": [
                    {"protocol": "roce", "comm_id": "host", "placement": "device"}
                ],
            },
            "local-comm-res",
            {"RT211"},
        ),
        ({"server_list": [{"server_id": "a"}]}, "hccl-1.0", {"RT112"}),
        ({"group_list": []}, "hccl-cloud", {"RT112", "RT116"}),
        ({"group_list": [], "deploy_mode": ""}, "hccl-lab", {"RT112", "RT116"}),
        ({"node_list": [{"ranks": []}]}, "hccl-1.1", {"RT112", "RT116"}),
    ],
)
def test_file_that_nearly_fits_gets_the_format_it_meant(
    document: Table, name: str, codes: set[str]
) -> None:
    report = judged(document)

    assert report.format == name
    assert set(report.totals) == codes


def test_cloud_volcanos_versions_are_refused_by_hccl_only() -> None:
    document = example("cce")
    document["cluster_list"] = [{"cluster_id": "0", "super_pod_list": []}]
    document["version"] = "1.4"

    assert judged(document).totals == {}
    assert set(judged(document, reader="hccl").totals) == {"RT291"}


def test_clusters_of_mindspore_are_kept() -> None:
    document = example("hccl-1.0")
    document["cluster_list"] = [{"cluster_id": "0", "server_list": []}]
    document["server_list"][0]["server_ip"] = "10.0.0.9"
    document["server_list"][0]["device"][0]["numa_id"] = ""

    report = judged(document)

    assert report.totals == {}
    assert report.table is not None
    assert json.loads(ranktable.dumps(report.table)) == document


def test_table_for_mindie_needs_container_addresses(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    with_pods = example("mindie")
    without = copy.deepcopy(with_pods)
    for server in without["server_list"]:
        del server["container_ip"]
    for name, document in (("pods", with_pods), ("none", without)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")

    done = run("ranktable", "convert", str(tmp_path / "pods.json"), "--to", "mindie")
    failed = run("ranktable", "convert", str(tmp_path / "none.json"), "--to", "mindie")

    assert done.status == 0
    assert json.loads(done.out) == with_pods
    assert failed.status != 0
    assert failed.out == ""
    assert "container_ip" in failed.err


@pytest.mark.parametrize("name", ["hccl-lab", "hccl-cloud"])
def test_tables_of_groups_become_tables_of_servers(
    run: Callable[..., Outcome], tmp_path: Path, name: str
) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(example(name)), encoding="utf-8")

    done = run("ranktable", "convert", str(file), "--to", "hccl-1.0")

    assert done.status == 0, done.err
    table = json.loads(done.out)
    assert judged(table).totals == {}
    assert table["server_list"][0]["device"] == [
        {"device_id": "0", "device_ip": "10.20.0.5", "rank_id": "0"}
    ]
    assert "board_id" not in table
    assert table["server_list"][0].get("pod_name") == (
        "job-0" if name == "hccl-cloud" else None
    )


WRONG: tuple[object, ...] = (None, True, [], {}, 3.5, -7, [1], {"a": 1})


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_another_type_is_found(name: str) -> None:
    """One value of a sound table is changed; each gives a finding with its place."""
    document = example(name)
    for path in leaves(document):
        place: Any = document
        for step in path:
            place = place[step]
        for wrong in WRONG:
            if type(wrong) is type(place) is int:
                continue  # another number
            changed = with_value(document, path, wrong)
            report = judged(changed, format=name)

            assert report.diagnostics, (path, wrong)
            assert all(d.location.line for d in report.diagnostics)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_spelt_otherwise_is_found_or_means_the_same(name: str) -> None:
    document = example(name)
    table = judged(document, format=name).table
    for path in leaves(document):
        place = document
        for key in path:
            place = place[key]
        text = str(place)
        for spelt in (f" {text}", f"{text} ", f"0{text}", f"{text}x", f"{text}.0", ""):
            report = judged(with_value(document, path, spelt), format=name)
            if report.diagnostics or not text.isdecimal():
                continue
            # A text that only looks like a number, such as a name.
            assert report.table != table, (path, spelt)


@pytest.mark.parametrize("name", NAMES)
def test_schema_and_reader_agree_on_every_change(name: str) -> None:
    document = example(name)
    judge = validator(name)
    for path in leaves(document):
        for value in (*WRONG, "", " ", "0", "05", "5x", "0x5", "x", "1.0", "-1", 5):
            changed = with_value(document, path, value)
            codes = set(judged(changed, format=name).totals)
            is_negative = (
                bool(codes & {"RT203", "RT208", "RT210", "RT292"})
                and str(value)[0] == "-"
            )

            assert judge.is_valid(changed) != bool(codes & SHAPE or is_negative), (
                path,
                value,
                codes,
            )


@pytest.mark.parametrize("name", NAMES)
def test_every_missing_key_is_found_or_is_not_needed(name: str) -> None:
    document = example(name)
    judge = validator(name)

    for path in objects(document):
        place: Any = document
        for step in path:
            place = place[step]
        for key in place:
            changed = copy.deepcopy(document)
            here: Any = changed
            for step in path:
                here = here[step]
            del here[key]
            codes = set(judged(changed, format=name).totals)

            assert judge.is_valid(changed) == ("RT112" not in codes), (path, key, codes)


def test_detection_follows_the_order_of_the_formats() -> None:
    documents: dict[str, Table] = {name: example(name) for name in NAMES}

    for name, document in documents.items():
        found = detect(document)
        assert getattr(found, "name", None) == (
            "hccl-1.0" if name == "mindie" else name
        )


@pytest.mark.parametrize("is_last", [True, False])
def test_table_of_super_pods_is_decoded_fast(is_last: bool) -> None:
    document = super_pods(256)
    pods = document.pop("super_pod_list")
    pair = {"super_pod_list": pods}
    document = {**document, **pair} if is_last else {**pair, **document}

    columns = by_name("hccl-1.2").decode(json.dumps(document, indent=1).encode())

    assert columns is not None
    assert columns.top["super_pod_list"] == pods
    assert columns.ranks == list(range(256))
