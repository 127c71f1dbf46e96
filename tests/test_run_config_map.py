"""``ranktable run`` with a table inside of a ConfigMap."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.schema.writing import dumps
from tests.commands import run_in_shell, torch_environment
from tests.environments import variables
from tests.ranks import run_program

if TYPE_CHECKING:
    from pathlib import Path

    from ranktable.schema.model import RankTable
    from tests.conftest import Run

ONE = make_table([[3, 1]])
TWO = make_table([[0], [0, 1]], hosts=["n1", "n2"])
SHOW = (
    "import os, json, sys\n"
    "path = os.environ['RANK_TABLE_FILE']\n"
    "sys.stdout.write(path + ' ' + json.dumps(json.load(open(path))) + '\\n')\n"
)


def write_map(folder: Path, **tables: str) -> None:
    data = {f"{key}.json": text for key, text in tables.items()}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": data}
    (folder / "my map.json").write_text(json.dumps(made))
    (folder / "s.py").write_text(SHOW)


def text_of(table: RankTable) -> str:
    return dumps(table).decode()


@pytest.mark.torch
@pytest.mark.parametrize("name", ["my map.json", "my map.json#b.json"])
def test_ranks_read_the_table_of_a_config_map_from_a_file_that_goes_away(
    tmp_path: Path, name: str
) -> None:
    others = {"a": text_of(TWO)} if "#" in name else {}
    write_map(tmp_path, **others, b=text_of(ONE))
    env = {**torch_environment(), "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    given = ["--rank-table", str(tmp_path / name), str(tmp_path / "s.py")]
    done = run_program("ranktable", "run", *given, env=env)

    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert len(lines) == 2
    for line in lines:
        path, _, read = line.partition(" ")
        assert json.loads(read) == json.loads(text_of(ONE))
        assert not os.path.exists(path)
    assert list((tmp_path / "tmp").glob("*/b.json")) == []


@pytest.mark.torch
def test_table_of_a_config_map_goes_away_if_a_rank_fails(tmp_path: Path) -> None:
    write_map(tmp_path, b=text_of(ONE))
    (tmp_path / "s.py").write_text(f"{SHOW}sys.stdout.flush()\nraise SystemExit(3)\n")
    env = {**torch_environment(), "TMPDIR": str(tmp_path)}
    given = ["--rank-table", str(tmp_path / "my map.json"), str(tmp_path / "s.py")]
    done = run_program("ranktable", "run", *given, env=env)

    assert done.status == 1
    assert not os.path.exists(done.out.partition(" ")[0])


@pytest.mark.torch
def test_dry_run_of_a_config_map_prints_commands_that_work(
    run: Run, tmp_path: Path
) -> None:
    write_map(tmp_path, b=text_of(ONE))
    done = run("ranktable", "run", "--table", "my map.json", "--dry-run", "s.py", "1 2")
    said, command = done.out.splitlines()
    env = {**torch_environment()}
    del env["PATH"]  # that of the shell finds the command
    again = run_in_shell(command, tmp_path, env=env)

    assert "ConfigMap" in said
    assert command == "ranktable run --rank-table 'my map.json' --node 0 s.py '1 2'"
    assert (again.status, again.out.count("node_list")) == (0, 2)


def test_dry_run_of_a_config_map_names_node_and_rendezvous(
    run: Run, tmp_path: Path
) -> None:
    write_map(tmp_path, a=text_of(ONE), b=text_of(TWO))
    given = ["--table", "my map.json#b.json", "--dry-run", "--", "-m", "train"]
    done = run("ranktable", "run", *given)

    common = "ranktable run --rank-table 'my map.json#b.json' --node"
    meeting = "--master-addr n1 --master-port 29500 -- -m train"
    lines = [line for line in done.out.splitlines() if not line.startswith("#")]
    assert lines == [f"{common} {node} {meeting}" for node in (0, 1)]
    assert [shlex.split(line)[5] for line in lines] == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my map.json", "there are 2 tables in this file"),
        ("my map.json#c.json", "has no table under the key c.json"),
        ("my map.json#", "RT001"),
        ("no map.json#a.json", "RT001"),
        ("s.py#a.json", "RT001"),
    ],
)
def test_key_that_names_no_table_is_refused(
    run: Run, tmp_path: Path, name: str, said: str
) -> None:
    write_map(tmp_path, a=text_of(ONE), b=text_of(TWO))
    done = run("ranktable", "run", "--rank-table", name, "s.py")

    assert done.status in (1, 2)
    assert said in done.err


def test_advice_to_fit_the_table_of_a_config_map_writes_another_file(
    run: Run, tmp_path: Path
) -> None:
    write_map(tmp_path, b=text_of(make_table([[0], [0]], hosts=["n1", "n2"])))
    env = variables(
        "SLURM_PROCID=0 SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=2 "
        "SLURM_STEP_NODELIST=n[1,3] SLURM_STEP_TASKS_PER_NODE=1(x2) "
        "SLURMD_NODENAME=n1"
    )  # fmt: skip
    refused = run("ranktable", "run", "--rank-table", "my map.json", "s.py", env=env)
    command = refused.err.partition("are there: ")[2].splitlines()[0]
    changed = run(*shlex.split(command))

    assert "--in-place" not in command
    assert changed.status == 0, changed.err
    assert json.loads((tmp_path / "b.json").read_text())["node_list"][1]["host"] == "n3"


@pytest.mark.torch
def test_what_else_is_beside_the_written_table_stays(tmp_path: Path) -> None:
    write_map(tmp_path, b=text_of(ONE))
    (tmp_path / "s.py").write_text(
        "import os, pathlib\n"
        "assert 'RANKTABLE_REMOVED_AT_END' not in os.environ\n"
        "table = pathlib.Path(os.environ['RANK_TABLE_FILE'])\n"
        "(table.parent / os.environ['RANK']).write_text('mine')\n"
    )
    env = {**torch_environment(), "TMPDIR": str(tmp_path)}
    given = ["--rank-table", str(tmp_path / "my map.json"), str(tmp_path / "s.py")]
    done = run_program("ranktable", "run", *given, env=env)

    assert done.status == 0, done.err
    left = sorted(path.name for path in tmp_path.glob("ranktable-*/*"))
    assert left == ["0", "1"]
