"""Formats of Ascend beside 1.0 and 1.2: read, judged, written back and converted."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from benchmarks.other_vendors import super_pods
from ranktable.schema.fast_decode import decode_columns
from ranktable.schema.formats import FORMATS, by_name, detect
from tests.test_hccl import found_in, judged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Run

Table = dict[str, Any]

NAMES = ("hccl-1.0", "hccl-1.2", "hccl-cloud")
ERROR, WARNING, NOTE = "error", "warning", "note"


def example(name: str) -> Table:
    return copy.deepcopy(by_name(name).example)


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


@pytest.mark.parametrize("name", ["hccl-1.2", "hccl-cloud"])
def test_number_with_something_around_it_is_taken_as_hccl_does(name: str) -> None:
    text = json.dumps(example(name)).replace('"device_id": "0"', '"device_id": "0 "')

    report = ranktable.check(text.encode())

    assert set(report.totals) == {"RT270"}
    assert report.table is not None
    assert report.table.chip_map[0] == 0


@pytest.mark.parametrize(
    ("document", "name", "codes"),
    [
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
            "hccl-1.0",
            {"RT112"},
        ),
        ({"version": "1.3", "server_list": []}, "hccl-1.2", {"RT112", "RT116"}),
        ({"server_list": [{"server_id": "a"}]}, "hccl-1.0", {"RT112"}),
        ({"group_list": []}, "hccl-cloud", {"RT112", "RT116"}),
    ],
)
def test_file_that_nearly_fits_gets_the_format_it_meant(
    document: Table, name: str, codes: set[str]
) -> None:
    report = judged(document)

    assert report.format == name
    assert set(report.totals) == codes


def test_cloud_volcanos_versions_are_refused_by_hccl_only() -> None:
    document = example("hccl-1.2")
    document["data_version"] = 1
    document["server_list"][0]["device"][0]["tor_ip"] = "10.0.0.1"
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


def test_cloud_table_becomes_a_table_of_servers(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(example("hccl-cloud")), encoding="utf-8")

    done = run("ranktable", "convert", str(file), "--to", "hccl-1.0")

    assert done.status == 0, done.err
    table = json.loads(done.out)
    assert judged(table).totals == {}
    assert table["server_list"][0]["device"] == [
        {"device_id": "0", "device_ip": "10.20.0.5", "rank_id": "0"}
    ]


def test_detection_follows_the_order_of_the_formats() -> None:
    documents: dict[str, Table] = {name: example(name) for name in NAMES}

    for name, document in documents.items():
        found = detect(document)
        assert getattr(found, "name", None) == name


@pytest.mark.parametrize("is_last", [True, False])
def test_table_of_super_pods_is_decoded_fast(is_last: bool) -> None:
    document = super_pods(256)
    pods = document.pop("super_pod_list")
    pair = {"super_pod_list": pods}
    document = {**document, **pair} if is_last else {**pair, **document}

    data = json.dumps(document, indent=1).encode()
    columns = decode_columns(data, FORMATS, least_nodes=2)

    assert columns is not None
    assert columns.top["super_pod_list"] == pods
    assert columns.ranks == list(range(256))
