"""What a terminal shows is drawn; what a pipe gets is plain, and without rich."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.report.terminal import Style, table_lines
from tests.commands import clean_environment

if TYPE_CHECKING:
    from pathlib import Path

CALLS = [
    ["show", "t.json"],
    ["mesh", "t.json", "--tp", "4"],
    ["plan", "t.json", "--tp", "4"],
    ["explain"],
]
ROWS = [("host", "ranks"), ("[bold]n1", "0-7"), ("n2", "8")]


def on_a_terminal(arguments: list[str], folder: Path, **env: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - the project's own command
        [sys.executable, "-m", "ranktable", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={
            **clean_environment(),
            "TERM": "xterm",
            "COLUMNS": "100",
            "PYTHONIOENCODING": "utf-8",
            **env,
        },
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux says so when the last writer is gone
            break
        if not part:
            break
        shown += part
    os.close(ours)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    return shown.decode().replace("\r\n", "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ranktable.dump(make_table([range(8)] * 2, hosts=["n1", "n2"]), tmp_path / "t.json")
    return tmp_path


@pytest.mark.parametrize("arguments", CALLS, ids=lambda arguments: arguments[0])
def test_a_terminal_shows_a_table_with_lines(
    arguments: list[str], folder: Path
) -> None:
    shown = on_a_terminal(arguments, folder)
    plain = on_a_terminal(arguments, folder, NO_COLOR="1")
    dumb = on_a_terminal(arguments, folder, TERM="dumb")

    assert "──" in shown
    assert "\x1b[1m" in shown
    assert "──" in plain
    assert "\x1b[" not in plain
    assert "──" not in dumb
    # The same words in either.
    assert set(re.findall(r"\w{4,}", dumb)) >= set(re.findall(r"\w{7,}", plain)) - {
        "severity"
    }


@pytest.mark.parametrize("arguments", CALLS, ids=lambda arguments: arguments[0])
def test_a_pipe_gets_plain_text_without_rich(
    arguments: list[str], folder: Path
) -> None:
    code = (
        "import atexit, sys; from ranktable.cli import main; "
        "atexit.register(lambda: print('rich' in sys.modules, file=sys.stderr)); main()"
    )
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        cwd=folder,
        env=clean_environment(),
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "False\n")
    assert "─" not in done.stdout
    assert "\x1b" not in done.stdout


def test_cells_are_text_and_marks_in_them_are_shown() -> None:
    drawn = "".join(table_lines(ROWS, Style(is_drawn=True), right=[1]))
    plain = "".join(table_lines(ROWS, Style(), right=[1]))

    assert "[bold]n1" in drawn
    assert plain == "host      ranks\n[bold]n1    0-7\nn2            8\n"


def test_a_long_table_is_not_drawn() -> None:
    rows = [("rank",), *((str(rank),) for rank in range(1000))]

    assert "─" not in "".join(table_lines(rows, Style(is_drawn=True)))


def test_groups_of_a_kind_are_a_tree_on_a_terminal(folder: Path) -> None:
    shown = on_a_terminal(["mesh", "t.json", "--tp", "8"], folder, NO_COLOR="1")

    assert "tp: 2 groups of 8, each within a node\n├── tp/0: ranks 0-7" in shown
    assert "\n└── tp/1: ranks 8-15" in shown


def test_a_table_is_a_tree_of_nodes_and_chips_on_a_terminal(tmp_path: Path) -> None:
    table = make_table([[2, 0], [1]], hosts=["n1", "n2"])
    ranktable.dump(table, tmp_path / "t.json")

    assert on_a_terminal(["show", "t.json"], tmp_path, NO_COLOR="1") == (
        "t.json: sccl-1.0, 2 nodes, 3 ranks\n"
        "├── n1\n"
        "│   ├── chip 2 -> rank 0\n"
        "│   └── chip 0 -> rank 1\n"
        "└── n2\n"
        "    └── chip 1 -> rank 2\n"
    )


def test_nodes_that_are_alike_are_one_branch_on_a_terminal(folder: Path) -> None:
    assert on_a_terminal(["show", "t.json"], folder, NO_COLOR="1") == (
        "t.json: sccl-1.0, 2 nodes, 16 ranks\n└── n[1-2]: chips 0-7 -> ranks 8i..8i+7\n"
    )
