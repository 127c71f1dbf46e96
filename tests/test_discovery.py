"""``ranktable probe``: whole nodes as trees of files, with tools that are scripts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.discovery.machine import (
    MAX_OUTPUT_BYTES,
    Machine,
    NotDetectedError,
    run_command,
)
from ranktable.cluster.discovery.node_probe import probe
from tests.node_tree import Tree, sophgo_node

if TYPE_CHECKING:
    from ranktable.cluster.probes.probe_line import NodeProbe

LIMIT_S = 0.5


def seen(tree: Tree) -> NodeProbe:
    return probe(Machine(root=str(tree.root), runs_programs=True, timeout_s=LIMIT_S))


def reasons(found: NodeProbe) -> dict[str, str]:
    return {item.what: item.why for item in found.unseen}


# Tools in trouble


def test_hanging_tool_ends_at_its_timeout(tmp_path: Path) -> None:
    tree = sophgo_node(tmp_path, "n1", range(2))
    tree.install("tpu-smi", "sleep 60")
    start = time.monotonic()
    found = seen(tree)

    assert time.monotonic() - start < 40  # the tool sleeps for 60 s
    assert len(found.chips) == 2
    assert reasons(found) == {"status": "tpu-smi did not end within 0.5 s"}


def test_everything_that_a_hanging_tool_started_is_ended(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    pid = tmp_path / "pid"
    tree.install("tool", f"sleep 60 & echo $! > '{pid}'; trap '' TERM; wait")
    with pytest.raises(NotDetectedError):
        Machine(root=str(tmp_path), runs_programs=True, timeout_s=LIMIT_S).run("tool")

    end = time.monotonic() + 50
    while Path(f"/proc/{pid.read_text().strip()}").exists():
        state = Path(f"/proc/{pid.read_text().strip()}/stat").read_text()
        if state.rpartition(")")[2].split()[0] == "Z":
            break  # ended, and not yet fetched by its new parent
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_tool_that_hung_once_is_not_asked_again_for_each_chip(tmp_path: Path) -> None:
    tree, asked = Tree(tmp_path, "n1"), tmp_path / "asked"
    tree.install("tool", f"echo $2 >> '{asked}'; exec sleep 60")
    machine = Machine(root=str(tmp_path), runs_programs=True, timeout_s=LIMIT_S)

    for chip in range(8):
        with pytest.raises(NotDetectedError, match="tool did not end within"):
            machine.run("tool", "-i", str(chip))

    assert asked.read_text() == "0\n"


def test_tool_with_endless_output_is_stopped(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.install("tool", "exec yes")

    with pytest.raises(NotDetectedError, match=f"more than {MAX_OUTPUT_BYTES} bytes"):
        Machine(root=str(tmp_path), runs_programs=True).run("tool")


def test_pipe_that_stays_open_after_the_tool_is_not_waited_for(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.install("tool", "sleep 60 &\necho done")
    start = time.monotonic()

    assert (
        Machine(root=str(tmp_path), runs_programs=True, timeout_s=30).run("tool")
        == "done\n"
    )
    assert time.monotonic() - start < 25


def test_tool_has_no_standard_input_and_no_shell(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.install("tool", 'cat; for word in "$@"; do echo "<$word>"; done')

    assert (
        Machine(root=str(tmp_path), runs_programs=True).run("tool", "$(id)", "a b")
        == "<$(id)>\n<a b>\n"
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -SEGV $$", "tool failed with signal 11"),
        ("echo no >&2; exit 3", "tool failed with exit status 3: no"),
        ("exit 4", "tool failed with exit status 4"),
    ],
)
def test_tool_that_fails_is_named_with_what_it_says(
    script: str, reason: str, tmp_path: Path
) -> None:
    Tree(tmp_path, "n1").install("tool", script)

    with pytest.raises(NotDetectedError) as raised:
        Machine(root=str(tmp_path), runs_programs=True).run("tool")
    assert str(raised.value) == reason


def test_tool_that_is_no_program_is_named(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "n1")
    tree.put("/usr/bin/tool", "\x7fELF nothing").chmod(0o755)

    with pytest.raises(
        NotDetectedError, match="tool cannot be started: exec format error"
    ):
        run_command([str(tmp_path / "usr/bin/tool")], env={}, timeout_s=LIMIT_S)
    with pytest.raises(NotDetectedError, match="other is not there"):
        Machine(root=str(tmp_path), runs_programs=True).run("other")


def test_a_number_of_the_kernel_is_read_whole() -> None:
    # Such a file has size 0, and the second read of it gives nothing.
    path = "/proc/sys/net/core/somaxconn"

    assert Machine().text(path) == Path(path).read_text()
