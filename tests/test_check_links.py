"""``ranktable check --links``: real processes on gloo and on simulated chips."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")

import ranktable
from ranktable.cluster.generate import make_table
from tests.commands import run_process, torch_environment
from tests.ranks import (
    Process,
    finish,
    free_port,
    job_variables,
    run_program,
    skip_where_no_chips_can_be_simulated,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.commands import Outcome

pytestmark = pytest.mark.torch

TIME_S = "60"
"""For all to come and to measure, on a machine that does more besides."""

MEDDLES = """
import os, signal, sys, time
import torch.distributed as dist

right = dist.all_reduce
count = 0

def all_reduce(tensor, *args, **options):
    global count
    if tensor.numel() > 1:
        count += 1
        MEDDLE
    return right(tensor, *args, **options)

dist.all_reduce = all_reduce
from ranktable.cli import main
main()
"""
"""A process whose all_reduces go wrong."""


def begin(rank: int, port: int, *options: str, meddle: str = "", **env: str) -> Process:
    """Start one of four processes on two nodes, which may meddle with its tensors."""
    variables = {
        **torch_environment(),
        **job_variables(rank, 4, port),
        "LOCAL_RANK": str(rank % 2),
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": str(rank // 2),
        "TORCHELASTIC_RUN_ID": "1",
        **env,
    }
    words = ["check", "--links", "--format", "json", "--size", "1", *options]
    if "--timeout" not in options:
        words += ["--timeout", TIME_S]
    if not meddle:
        return start("ranktable", *words, env=variables, name=f"rank {rank}")
    code = MEDDLES.replace("MEDDLE", meddle)
    return start("python", "-c", code, *words, env=variables, name=f"rank {rank}")


def links(*options: str, meddle: dict[int, str] | None = None) -> list[Outcome]:
    """Run four processes on two nodes to their end."""
    port = free_port()
    does = meddle or {}
    return finish([begin(n, port, *options, meddle=does.get(n, "")) for n in range(4)])


def messages(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return what the only one that speaks has found, by code."""
    assert not any("Traceback" in each.err for each in outcomes)
    (said,) = [each.out for each in outcomes if each.out]
    found: dict[str, list[str]] = {}
    for each in json.loads(said)["findings"]:
        found.setdefault(each["code"], []).append(each["message"])
    return found


def test_two_nodes_that_work_are_measured_once() -> None:
    done = links()

    assert {each.status for each in done} <= {0, 1}  # a busy machine may be uneven
    found = messages(done)
    assert set(found) <= {"RT782", "RT785"}
    assert [each.split(":")[0] for each in found["RT785"]] in (
        [f"the slowest node is node {n} ({os.uname().nodename})", ANY_PAIR]
        for n in range(2)
    )
    (text,) = [each.out for each in done if each.out]
    said = json.loads(text)
    assert said["subject"] == "4 processes of 4 ranks, 1 host, 2 nodes"
    assert {"RT780", "RT781", "RT784"} <= set(said["agrees"])
    assert [each["code"] for each in said["not_checked"]] == ["RT783"]
    assert [
        (each["nodes"], each["ranks"], each["size_bytes"]) for each in said["measured"]
    ] == [([0], "0,1", 1 << 20), ([1], "2,3", 1 << 20), ([0, 1], "0-3", 1 << 20)]
    for each, ranks in zip(said["measured"], (2, 2, 4), strict=True):
        expected = (1 << 20) / each["time_us"] / 1e3 * 2 * (ranks - 1) / ranks
        assert each["bus_gb_per_s"] == pytest.approx(expected, rel=0.02)


ANY_PAIR = "the slowest pair is node 0 ({0}) and node 1 ({0})".format(
    os.uname().nodename
)


def test_nodes_of_a_table_are_named_by_their_hosts(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ranktable.dump(make_table([range(2)] * 2, hosts=["n1", "n2"]), path)
    port = free_port()
    done = finish([begin(n, port, str(path)) for n in range(4)])

    assert "(n1) and node 1 (n2):" in messages(done)["RT785"][1]


def test_live_verdict_comes_first_and_an_error_there_is_the_end() -> None:
    port = free_port()
    seen = {"CUDA_VISIBLE_DEVICES": "0,1"}
    done = finish([begin(n, port, "--live", **seen) for n in range(4)])

    assert {each.status for each in done} == {1}
    found = messages(done)  # both nodes are this host
    assert set(found) == {"RT732"}
    (text,) = [each.out for each in done if each.out]
    skipped = {each["code"]: each["why"] for each in json.loads(text)["not_checked"]}
    assert skipped["RT780"] == "what differs comes first: RT732"


def test_wrong_sum_is_named_by_node_and_rank() -> None:
    done = links(meddle={2: "tensor[5] += 1"})

    assert {each.status for each in done} == {1}
    (message,) = messages(done)["RT780"]
    assert message == (
        f"wrong sums in node 1 ({os.uname().nodename}) on all ranks; on rank 2 1 of "
        "262144 elements, the first is [5]: 14.0, not 13.0"
    )


def test_sum_that_is_wrong_on_one_rank_only_is_named_by_this_rank() -> None:
    meddle = "right(tensor, *args, **options); tensor[-1] = float('nan'); return"
    done = links(meddle={3: meddle})

    (message,) = messages(done)["RT780"]
    assert f"node 1 ({os.uname().nodename}) on rank 3; on rank 3 1 of" in message
    assert "the first is [262143]: nan, not" in message


def test_slow_rank_makes_its_node_the_slowest() -> None:
    done = links(meddle={1: "time.sleep(0.05)"})

    assert {each.status for each in done} == {1}
    found = messages(done)
    assert f"node 0 ({os.uname().nodename}): 0.0" in found["RT782"][0]
    assert "the slowest node is node 0 (" in found["RT785"][0]


@pytest.mark.slow
def test_rank_that_is_killed_while_it_measures_is_named() -> None:
    kill = "if count == 6: os.kill(os.getpid(), signal.SIGKILL)"
    done = links("--timeout", "12", meddle={3: kill})

    assert [each.status for each in done[:3]] == [1, 1, 1]
    (message,) = messages(done[:3])["RT781"]
    assert message == (
        f"1 rank ended, stopped or hang: 3 of node 1 ({os.uname().nodename})"
    )


@pytest.mark.slow
def test_rank_that_is_stopped_while_it_measures_is_named() -> None:
    port = free_port()
    stop = "if count == 6: signal.raise_signal(signal.SIGSTOP)"
    processes = [
        begin(n, port, "--timeout", "12", meddle=stop if n == 2 else "")
        for n in range(4)
    ]
    others = [processes[n] for n in (0, 1, 3)]
    done = finish(others)
    processes[2].end()

    assert {each.status for each in done} == {1}
    (message,) = messages(done)["RT781"]
    assert message == (
        f"1 rank ended, stopped or hang: 2 of node 1 ({os.uname().nodename})"
    )


@pytest.mark.slow
def test_rank_that_hangs_in_its_node_is_named_by_the_node() -> None:
    done = links("--timeout", "12", meddle={2: "time.sleep(3600)"})

    assert {each.status for each in done} == {1}
    (message,) = messages(done)["RT781"]
    assert f"node 1 ({os.uname().nodename}) did not finish on the ranks 2, 3" in message
    assert "the slowest node is node 0" in messages(done)["RT785"][0]


@pytest.mark.deadline
def test_rank_that_does_not_come_is_missing() -> None:
    port = free_port()
    done = finish([begin(n, port, "--timeout", "4") for n in range(3)])

    assert {each.status for each in done} == {1}
    assert messages(done) == {"RT730": ["1 rank of 4 did not come: 3"]}


def test_processes_with_other_sizes_do_not_start() -> None:
    port = free_port()
    done = finish(
        [begin(n, port, *(["--size", "2"] if n == 3 else [])) for n in range(4)]
    )

    assert {each.status for each in done} == {1}
    ((message,),) = messages(done).values()
    assert message.startswith("size is 1 on 3 ranks and 2 on rank 3 (")


def test_table_that_no_process_can_read_is_told(tmp_path: Path) -> None:
    port = free_port()
    done = finish([begin(n, port, str(tmp_path / "gone.json")) for n in range(4)])

    assert {each.status for each in done} == {1}
    (message,) = messages(done)["RT784"]
    assert "rank 0, pid" in message
    assert "not read (RT001" in message
    assert message.endswith("(4 ranks)")


def test_single_process_has_nothing_to_check() -> None:
    env = {**torch_environment(), **job_variables(0, 1, free_port())}
    done = run_program("ranktable", "check", "--links", env=env)

    assert done.status == 3
    assert "nothing could be checked" in done.out
    assert "not checked: the job has one process (RT780 wrong-sum, " in done.out


def test_torchrun_starts_it_and_one_node_has_no_pairs() -> None:
    words = ["--nproc-per-node", "2", "--standalone", "-m", "ranktable"]
    options = ["check", "--live", "--links", "--size", "1", "--timeout", TIME_S]
    done = run_program("torchrun", *words, *options)

    assert done.status == 0
    assert done.out.count("note[RT785]: the slowest node is node 0 (") == 1
    assert "not checked: there is one node, so no pairs (RT783 slow-pair)" in done.out


def test_simulated_chips_of_two_nodes_are_measured() -> None:
    skip_where_no_chips_can_be_simulated()
    words = ["simulate", "--nproc", "2", "--nodes", "2", "-m", "ranktable"]
    options = ["check", "--links", "--size", "1", "--timeout", TIME_S]
    done = run_program("ranktable", *words, *options, "--ignore", "RT782")

    assert done.status == 0
    assert "the slowest pair is node 0 (" in done.out
    assert "all_reduce of 1 MiB, sccl)" in done.out


# Without a job


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--links"], "RANK and WORLD_SIZE are not set"),
        (["--links", "--pods", "p.json"], "--pods is for one process, --links for all"),
        (["--links", "--root", "/."], "about one host, not about --links"),
        (["--live", "--host", "n1"], "about one host, not about --live"),
        (["--links", "-o", "t.json"], "-o needs --live"),
        (["--size", "4"], "--size needs --links"),
        (["--pods", "p.json", "-o", "t.json"], "-o needs --live"),
        (["--pods", "p.json", "--timeout", "0"], "--timeout: the seconds"),
        (["--force"], "--force needs -o"),
        (["--run-programs"], "--run-programs needs --root"),
    ],
)
def test_wrong_usage_is_told(options: list[str], words: str) -> None:
    done = run_program("ranktable", "check", *options)

    assert done.status == 2
    assert words in done.err


def test_missing_address_is_told_for_the_command_line() -> None:
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}

    done = run_program("ranktable", "check", "--live", env=env)

    assert done.status == 2
    assert "export MASTER_ADDR with the name of rank 0's host" in done.err


def test_pods_as_yaml_are_not_called_a_table(tmp_path: Path) -> None:
    table, pods = tmp_path / "t.json", tmp_path / "pods.yaml"
    run_program("ranktable", "gen", "--device-id", "[[0,1]]", "-o", str(table))
    pods.write_text("kind: List\nitems: []\n")

    done = run_program("ranktable", "check", str(table), "--pods", str(pods))

    assert done.status == 3
    assert "this is YAML, and not JSON" in done.err
    assert "kubectl: -o json" in done.err


def test_process_without_torch_is_told_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('it is broken')")
    env = {
        **torch_environment(),
        **job_variables(0, 2, free_port()),
        "PYTHONPATH": str(tmp_path),
    }
    done = run_process(
        [sys.executable, "-m", "ranktable", "check", "--links"], env=env, cwd=tmp_path
    )

    assert done.status == 2
    assert done.err == "ranktable: --links needs torch: pip install torch\n"
