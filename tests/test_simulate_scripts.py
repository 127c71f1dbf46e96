"""Scripts under ``ranktable simulate``: what their ranks get, and how one fails."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.schema.writing import dump
from tests.file_cases import write_files
from tests.simulate_command import left_in, simulate, write

if TYPE_CHECKING:
    from pathlib import Path


RANKS = """
import json, os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")
text = json.dumps([[int(os.environ[n]) for n in names], sys.argv[1:], sys.stdin.read()])
sys.stdout.write(text + "\\n")
"""


@pytest.mark.torch
def test_options_of_the_script_reach_it_untouched(tmp_path: Path) -> None:
    write(tmp_path, "s.py", RANKS)
    own = ["--lr", "0.1", "--nproc", "9", "-m", "--", "--help", ""]
    done = simulate(tmp_path, "--nproc", "2", "s.py", *own)
    ranks = [json.loads(line) for line in sorted(done.out.splitlines())]

    assert done.status == 0, done.err
    assert ranks == [[[0, 2, 0, 0], own, ""], [[1, 2, 1, 0], own, ""]]
    assert done.err == (
        "ranktable: simulating 2 tpu chips of 1 node on the CPUs of this machine\n"
    )
    assert left_in(tmp_path) == []


@pytest.mark.torch
def test_ranks_are_numbered_by_nodes_as_by_torchrun(tmp_path: Path) -> None:
    write(tmp_path, "s.py", RANKS)
    done = simulate(tmp_path, "--nodes", "2", "--nproc", "1", "s.py")
    ranks = [json.loads(line)[0] for line in sorted(done.out.splitlines())]

    assert done.status == 0, done.err
    assert ranks == [[0, 2, 0, 0], [1, 2, 0, 1]]
    assert "warning: SCCL connects the chips of one machine" in done.err
    assert left_in(tmp_path) == []


@pytest.mark.torch
def test_module_is_started_by_its_name(tmp_path: Path) -> None:
    write_files(tmp_path, {"pack/__init__.py": "", "pack/job.py": RANKS})
    done = simulate(tmp_path, "--nproc", "1", "-m", "pack.job", "--x")

    assert json.loads(done.out) == [[0, 1, 0, 0], ["--x"], ""], done.err


@pytest.mark.torch
def test_table_comes_from_the_option_then_from_the_variable(tmp_path: Path) -> None:
    write(tmp_path, "s.py", "import ranktable; print(ranktable.read_rank_table())")
    dump(make_table([[5]]), tmp_path / "five.json")
    dump(make_table([[6]]), tmp_path / "six.json")
    six = {"RANK_TABLE_FILE": "six.json"}
    given = simulate(tmp_path, "--rank-table", "five.json", "--once", "s.py", **six)
    exported = simulate(tmp_path, "--once", "s.py", **six)
    made = simulate(tmp_path, "--nproc", "2", "--once", "s.py", **six)

    assert [given.out, exported.out, made.out] == [
        "[5]\n",
        "[6]\n",
        "[0, 1]\n",
    ]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("end", "said", "shape"),
    [
        ("sys.exit(7)", "ended with exit status 7", ["--nproc", "2"]),
        ("os.kill(os.getpid(), 9)", "was ended by SIGKILL", ["--nproc", "2"]),
        ("sys.exit(7)", "ended with exit status 7", ["--nproc", "1", "--nodes", "2"]),
    ],
)
def test_rank_that_fails_ends_the_others_and_is_named(
    end: str, said: str, shape: list[str], tmp_path: Path
) -> None:
    wait = "import os, sys, time\nif os.environ['RANK'] == '0': time.sleep(600)\n"
    write(tmp_path, "s.py", wait + end)
    done = simulate(tmp_path, *shape, "s.py")

    assert done.status == 1
    assert done.err.endswith(f"error: rank 1 {said}\n")
    assert "Traceback" not in done.err
    assert left_in(tmp_path) == []


@pytest.mark.torch
def test_traceback_of_a_rank_begins_in_its_script(tmp_path: Path) -> None:
    write(tmp_path, "s.py", "raise KeyError('mine')\n")
    done = simulate(tmp_path, "--nproc", "1", "s.py")

    lines = done.err.splitlines()
    begin = lines.index("Traceback (most recent call last):")
    assert lines[begin + 1] == '  File "s.py", line 1, in <module>'
    assert lines[-2:] == ["KeyError: 'mine'", "error: rank 0 ended with exit status 1"]


@pytest.mark.torch
def test_traceback_of_ctrl_c_begins_in_the_script(tmp_path: Path) -> None:
    write(tmp_path, "s.py", "import os\nos.kill(os.getpid(), 2)\n")
    done = simulate(tmp_path, "--nproc", "1", "s.py")

    lines = done.err.splitlines()
    begin = lines.index("Traceback (most recent call last):")
    assert lines[begin + 1] == '  File "s.py", line 2, in <module>'
    assert "agent.py" not in done.err


@pytest.mark.torch
def test_ranks_begin_with_random_numbers_of_their_own(tmp_path: Path) -> None:
    numbers = "random.random(), numpy.random.rand(), torch.rand(1).item()"
    write(tmp_path, "s.py", f"import random, numpy, torch\nprint({numbers})\n")
    done = simulate(tmp_path, "--nproc", "2", "s.py")

    drawn = re.findall(r"\d\.\d+(?:e-\d+)?", done.out)
    assert done.status == 0, done.err
    assert len(set(drawn)) == 6
