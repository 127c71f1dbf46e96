"""What a terminal shows is drawn; what a pipe gets is plain, and without rich."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.report.catalogue import RULES
from ranktable.report.terminal import Style, table_lines
from tests.commands import clean_environment, on_terminal, run_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Commands
    from tests.conftest import Run

    Shown = Callable[..., str]

CALLS = [
    ["show", "t.json"],
    ["mesh", "t.json", "--tp", "4"],
    ["plan", "t.json", "--tp", "4"],
    ["explain"],
]
ROWS = [("host", "ranks"), ("[bold]n1", "0-7"), ("n2", "8")]


@pytest.fixture
def shown(commands: Commands, folder: Path) -> Shown:
    """What a command shows on a terminal of 100 columns."""

    def show(*arguments: str, **env: str) -> str:
        done = on_terminal(
            [f"{commands.folder}/ranktable", *arguments],
            folder,
            env={"COLUMNS": "100", **env},
        )
        assert (done.status, done.err) == (0, "")
        return done.out.replace("\r\n", "\n")

    return show


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ranktable.dump(make_table([range(8)] * 2, hosts=["n1", "n2"]), tmp_path / "t.json")
    return tmp_path


@pytest.mark.parametrize("arguments", CALLS, ids=lambda arguments: arguments[0])
def test_a_terminal_shows_a_table_with_lines(
    arguments: list[str], shown: Shown
) -> None:
    coloured = shown(*arguments)
    plain = shown(*arguments, NO_COLOR="1")
    dumb = shown(*arguments, TERM="dumb")

    assert "──" in coloured
    assert "\x1b[1m" in coloured
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
    done = run_python("-c", code, *arguments, cwd=folder, env=clean_environment())

    assert (done.status, done.err) == (0, "False\n")
    assert "─" not in done.out
    assert "\x1b" not in done.out


def test_cells_are_text_and_marks_in_them_are_shown() -> None:
    drawn = "".join(table_lines(ROWS, Style(is_drawn=True), right=[1]))
    plain = "".join(table_lines(ROWS, Style(), right=[1]))

    assert "[bold]n1" in drawn
    assert plain == "host      ranks\n[bold]n1    0-7\nn2            8\n"


def test_a_long_table_is_not_drawn() -> None:
    rows = [("rank",), *((str(rank),) for rank in range(1000))]

    assert "─" not in "".join(table_lines(rows, Style(is_drawn=True)))


def test_groups_of_a_kind_are_a_tree_on_a_terminal(shown: Shown) -> None:
    tree = shown("mesh", "t.json", "--tp", "8", NO_COLOR="1")

    assert "tp: 2 groups of 8, each within a node\n├── tp/0: ranks 0-7" in tree
    assert "\n└── tp/1: ranks 8-15" in tree


def test_a_table_is_a_tree_of_nodes_and_chips_on_a_terminal(
    folder: Path, shown: Shown
) -> None:
    table = make_table([[2, 0], [1]], hosts=["n1", "n2"])
    ranktable.dump(table, folder / "t.json")

    assert shown("show", "t.json", NO_COLOR="1") == (
        "t.json: sccl-1.0, 2 nodes, 3 ranks\n"
        "├── n1\n"
        "│   ├── chip 2 -> rank 0\n"
        "│   └── chip 0 -> rank 1\n"
        "└── n2\n"
        "    └── chip 1 -> rank 2\n"
    )


def test_nodes_that_are_alike_are_one_branch_on_a_terminal(shown: Shown) -> None:
    assert shown("show", "t.json", NO_COLOR="1") == (
        "t.json: sccl-1.0, 2 nodes, 16 ranks\n"
        "└── n[1-2]: chips 0-7 -> ranks 0-15, 8 each\n"
    )


def test_cells_of_a_wide_table_are_not_broken() -> None:
    rows = [
        ("field", "variable", "bytes"),
        ("world_size", "SLURM_STEP_NUM_TASKS", "540.00"),
    ]
    lines = "".join(table_lines(rows, Style(width=36, is_drawn=True), right=(2,)))

    assert lines.split("\n") == [
        "field       variable",
        "     bytes",
        "world_size  SLURM_STEP_NUM_TASKS",
        "    540.00",
        "",
    ]


def test_links_of_eight_chips_fit_a_terminal_of_80_columns(
    shown: Shown, run: Run, folder: Path
) -> None:
    call = ["show", "t.json", "--links", "sophgo-8"]

    assert shown(*call, COLUMNS="80", NO_COLOR="1") == run("ranktable", *call).out


def test_every_code_is_one_line_of_80_columns(shown: Shown) -> None:
    lines = shown("explain", COLUMNS="80", NO_COLOR="1").splitlines()

    assert lines[0] == "code   severity  defect"
    assert [line for line in lines[1:] if line[:2] != "RT" or len(line) > 80] == []
    assert len(lines) == len(RULES) + 1


def test_many_related_places_are_counted(run: Run, folder: Path) -> None:
    servers = [
        {"server_id": f"n{at}", "device": [{"device_id": "0", "rank_id": str(at)}]}
        for at in range(9)
    ]
    table = {"version": "1.0", "status": "completed", "server_count": "9"}
    (folder / "h.json").write_text(json.dumps({**table, "server_list": servers}))
    shown = run("ranktable", "validate", "h.json", "--format", "full").out

    assert shown.count("::: h.json:") == 3
    assert "::: and 5 more places\n" in shown


@pytest.mark.parametrize("form", [[], ["--svg"]])
def test_a_page_is_not_printed_on_a_terminal(
    form: list[str], commands: Commands, folder: Path
) -> None:
    call = [f"{commands.folder}/ranktable", "report", "t.json", *form]
    shown = on_terminal(call, folder)
    name = "picture.svg" if form else "report.html"

    assert (shown.status, shown.out) == (2, "")
    assert shown.err == (
        "ranktable: this is for a browser, so write a file: "
        f"ranktable report t.json {''.join(form)}{' ' * len(form)}-o {name}\n"
    )
    assert on_terminal([*call, "-o", "-"], folder).status == 0


def test_help_is_as_wide_as_the_terminal_and_coloured(shown: Shown) -> None:
    wide = shown("show", "--help", COLUMNS="120")
    plain = shown("show", "--help", COLUMNS="120", NO_COLOR="1")

    assert 110 < max(map(len, plain.splitlines())) <= 120
    assert "\n\x1b[1mWhat goes in\x1b[0m:\n  \x1b[36mFILE\x1b[0m " in wide
    assert re.sub("\x1b.*?m", "", wide) == plain


RING = [2, 6, 7, 3, 1, 5, 4, 0]


@pytest.fixture
def cluster(folder: Path) -> Path:
    orders = [RING, range(8)]
    ranktable.dump(make_table(orders, hosts=["n1", "n2"]), folder / "rings.json")
    return folder


def test_a_tree_has_racks_nodes_and_chips(
    cluster: Path, run: Run, shown: Shown
) -> None:
    arguments = ["show", "t.json", "--tree", "--racks", "rack=1,pod=2"]
    plain, drawn = run("ranktable", *arguments).out, shown(*arguments, NO_COLOR="1")

    assert plain.startswith(
        "t.json: sccl-1.0, 2 nodes, 16 ranks\n"
        "  pod 0: 2 nodes, 16 ranks\n"
        "    rack 0: 1 node, 8 ranks\n"
        "      n1\n"
        "        chip 0 -> rank 0\n"
    )
    assert "    └── rack 1: 1 node, 8 ranks\n        └── n2\n" in drawn


def test_links_of_a_host_are_a_matrix_with_a_legend(cluster: Path, run: Run) -> None:
    given = ["show", "rings.json", "--links", "sophgo-8"]
    ring = run("ranktable", *given).out
    gaps = run("ranktable", *given, "--node", "n2").out

    assert ring.startswith("n1: links of sophgo-8, closed ring 2 6 7 3 1 5 4 0\n")
    assert (
        "   4  chip 1  2       3       2       RING    X       RING    2       LINK\n"
        in ring
    )
    assert "GAP " not in ring
    assert gaps.startswith(
        "n2: links of sophgo-8, not a ring: no link 1-2, 3-4, 5-6, 7-0\n"
    )
    assert "GAP   neighbours in the order of ranks without a direct link\n" in gaps


def test_links_of_other_chips_are_refused(tmp_path: Path, run: Run) -> None:
    ranktable.dump(make_table([range(16)]), tmp_path / "t.json")
    done = run("ranktable", "show", "t.json", "--links", "sophgo-8")

    assert (done.status, done.out) == (2, "")
    assert done.err.endswith("sophgo-8 has 8 chips, but the node has a chip 15\n")
