"""What was told wrongly once: an option that was not given, a name that is empty."""

from __future__ import annotations

import json

import pytest

from ranktable.cluster.discovery.machine import Machine
from ranktable.preflight.facts import Facts
from ranktable.preflight.records import own_record
from ranktable.runtime.environment import resolve_environment
from ranktable.schema.check import check_bytes
from ranktable.schema.options import Options
from tests.effort import within_cpu


def table(size: int, separators: tuple[str, str], indent: int | None) -> bytes:
    """Return a table with many findings on one line, or one a line."""
    devices = [
        {"device_id": "0", "rank_id": str(at), **{f"x{n}": n for n in range(6)}}
        for at in range(size)
    ]
    nodes = [{"device": [device]} for device in devices]
    document = {"version": "1.0", "server_count": str(size), "server_list": nodes}
    return json.dumps(document, separators=separators, indent=indent).encode()


@pytest.mark.parametrize("indent", [None, 1])
def test_all_places_of_many_findings_are_found_in_one_sweep(indent: int | None) -> None:
    data = table(8000, (",", ":"), indent)

    within_cpu(15, lambda: check_bytes(data, Options(limit=None), file="t"))


def settings_of(**more: str) -> dict[str, str]:
    """Return the settings that must be alike on all ranks, as a process says them."""
    env = {"RANK": "0", "WORLD_SIZE": "2", **more}
    record = own_record(
        resolve_environment(env, has_address=True),
        Facts(machine=Machine(), env=env, path=None, is_live=True),
        table=None,
        torch_version="2.13.0",
    )
    return dict(record.settings)


def test_names_of_one_host_and_ids_of_hosts_may_differ_between_ranks() -> None:
    first = settings_of(MASTER_ADDR="localhost", NCCL_HOSTID="a", NCCL_ALGO="Ring")
    second = settings_of(MASTER_ADDR="127.0.0.1", NCCL_HOSTID="b", NCCL_ALGO="Ring")

    assert first == second
    assert settings_of(NCCL_ALGO="Tree") != settings_of(NCCL_ALGO="Ring")
    # 0 is an address of this machine, but not in every variable.
    assert settings_of(NCCL_ALGO="0")["NCCL_ALGO"] == "0"


def test_a_report_is_one_line_where_it_is_shown() -> None:
    text = json.dumps({"version": "1.0", "node_list": []}).encode() + b" " * 5000
    shown = repr(check_bytes(text, Options(), file="a.json"))

    assert "\n" not in shown
    assert len(shown) < 200
    assert "'a.json': not sound" in shown
