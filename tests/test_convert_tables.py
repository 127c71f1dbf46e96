"""``ranktable convert`` between formats of rank tables: what is lost, what is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster import ArgumentError, TableOptions, convert_table
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from tests.conftest import Outcome, Run


VALID = CORPUS / "hccl" / "valid"
PODS = "hccl12_2pods_4s_32p.json"
SCCL = json.dumps(
    {
        "version": "1.0",
        "node_list": [
            {"device_list": [{"device_id": "0", "rank": str(node)}]}
            for node in range(2)
        ],
    }
).encode()


def convert(run: Run, source: str | bytes, to: str, *options: str) -> Outcome:
    given = source if isinstance(source, bytes) else (VALID / source).read_bytes()
    return run("ranktable", "convert", "-", "--to", to, *options, given=given)


def table_of(outcome: Outcome) -> Any:
    assert outcome.status == 0, outcome.err
    assert ranktable.check(outcome.out.encode()).ok
    return json.loads(outcome.out)


def test_table_of_the_cloud_gets_the_ranks_that_hccl_gives(run: Run) -> None:
    document = json.loads((VALID / "legacy_group_cloud_8p.json").read_text())
    group = document["group_list"][0]
    other = json.loads(json.dumps(group["instance_list"][0]).replace("10.40", "10.41"))
    other |= {"pod_name": "bert-worker-1", "server_id": "10.30.7.100"}
    group["instance_list"].append(other)
    group |= {"device_count": "16", "instance_count": "2"}
    done = convert(run, json.dumps(document).encode(), "hccl-1.0")

    servers = table_of(done)["server_list"]
    assert [(s["server_id"], s["device"][0]["rank_id"]) for s in servers] == [
        ("10.30.7.100", "0"),
        ("10.30.7.11", "8"),
    ]
    assert "pod_name" in json.dumps(servers)
    assert "pod_name" not in done.err


# In Python


def test_python_writes_the_bytes_of_the_command(run: Run) -> None:
    table = ranktable.load(VALID / PODS)
    pods = ranktable.loads(convert_table(table, "hccl-1.0").data)
    options = TableOptions(
        super_device_ids=[str(rank) for rank in range(32)], pods=list("aabb")
    )

    there = convert(run, PODS, "hccl-1.0")
    back = convert(
        run,
        there.out.encode(),
        "hccl-1.2",
        *("--super-device-id", "0-31", "--pods", "a,a,b,b"),
    )

    assert convert_table(table, "hccl-1.0").data == there.out.encode()
    assert convert_table(table, "hccl-1.0").losses == (
        "super_pod_id of 4 nodes",
        "super_device_id of 32 devices",
    )
    assert convert_table(pods, "hccl-1.2", options).data == back.out.encode()


def test_every_refusal_in_python_is_one_of_our_errors() -> None:
    table = ranktable.loads(SCCL)

    with pytest.raises(ArgumentError, match="there is no format 'hccl-9'"):
        convert_table(table, "hccl-9")
    with pytest.raises(ArgumentError, match="--server-id"):
        convert_table(table, "hccl-1.0")
    with pytest.raises(ArgumentError, match="cannot be written from a table"):
        convert_table(table, "hccl-2.0")
