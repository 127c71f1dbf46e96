"""What was told wrongly once: an option that was not given, a name that is empty."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.discovery.machine import Machine
from ranktable.preflight.facts import Facts
from ranktable.preflight.records import own_record
from ranktable.runtime.environment import resolve_environment
from ranktable.schema.check import check_bytes
from ranktable.schema.options import Options
from tests.effort import within_cpu

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


@pytest.mark.parametrize("to", ["sccl-1.0", "kubernetes"])
def test_too_many_hosts_are_said_of_the_option_that_was_given(
    to: str, run: Run
) -> None:
    run("ranktable", "gen", "--device-id", "[[0],[0]]", "-o", "t.json")
    done = run("ranktable", "convert", "t.json", "--to", to, "--hosts", "a,b,c")

    assert done.status == 2
    assert "--hosts has 3 values for 2 servers" in done.err


@pytest.mark.parametrize("command", ["validate", "show", "check", "plan"])
def test_an_empty_name_of_a_file_is_called_empty_or_missing(
    command: str, run: Run
) -> None:
    done = run("ranktable", command, "")

    assert done.status == 2
    assert "RT001" not in done.out + done.err
    assert "the name is empty" in done.err or "no FILE is given" in done.err


def test_a_new_host_stands_in_the_rack_of_the_one_that_it_replaces(
    run: Run, tmp_path: Path
) -> None:
    for name, hosts in (("a", "n[1-8]"), ("b", "n[1-3],new,n[5-8]")):
        run("ranktable", "gen", "--device-id", "[[0..3]]", "--hosts", hosts, "-o", name)
    facts = ["--tp", "4", "--pp", "2", "--racks", "rack=4"]
    done = run("ranktable", "diff", "a", "b", *facts)

    (line,) = [one for one in done.out.split("\n") if "between racks" in one]
    before, _, after = line.partition(": ")[2].partition(",")[0].partition(" -> ")
    assert before == after
    plan = run("ranktable", "plan", "b", *facts)
    assert "2 racks" in plan.out


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


@pytest.mark.parametrize("text", ["RT2", "duplicate"])
def test_explain_lists_the_codes_that_begin_so_or_speak_of_it(
    text: str, run: Run
) -> None:
    outcome = run("ranktable", "explain", text)

    assert outcome.status == 0
    listed = [line for line in outcome.out.splitlines() if line.startswith("RT")]
    assert any(line.startswith("RT202  ") for line in listed)
    assert 1 < len(listed) < 100


def test_explain_says_so_of_digits_no_code_begins_with(run: Run) -> None:
    outcome = run("ranktable", "explain", "RT99")

    assert outcome.status == 2
    assert "there is no code 'RT99'" in outcome.err


def test_a_report_is_one_line_where_it_is_shown() -> None:
    text = json.dumps({"version": "1.0", "node_list": []}).encode() + b" " * 5000
    shown = repr(check_bytes(text, Options(), file="a.json"))

    assert "\n" not in shown
    assert len(shown) < 200
    assert "'a.json': not sound" in shown
