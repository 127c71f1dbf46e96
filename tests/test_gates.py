"""``ranktable validate`` as a gate: every kind of file, folders, settings."""

from __future__ import annotations

import json
import os
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.commands import run_in_shell, start_process
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from tests.commands import Commands
    from tests.conftest import Run


ROOT = Path(__file__).parent.parent
BROKEN = CORPUS / "sccl" / "broken" / "rank_duplicate.json"
FILES = {
    "cluster.yaml": ("nodes: 2\nchips: 8\nring: nowhere\n", "RT154"),
    "cluster.json": ('{"nodes": 2, "chips": 8, "colour": 1}', "RT151"),
    "hostfile": ("n1 slots=4\nn1 slots=8\n", "RT220"),
    "ranks": ("rank 0=n1 slot=0\nrank 0=n1 slot=1\n", "RT224"),
    "topology.conf": ("SwitchName=s1 Nodes=n[1-\n", "RT130"),
    "links.txt": ("0 1 2\n1 2 3\n", "RT021"),
}


@pytest.mark.parametrize("name", [*FILES, "table.json"])
def test_a_pipe_is_judged_like_the_file(name: str, run: Run, tmp_path: Path) -> None:
    text = FILES[name][0] if name in FILES else BROKEN.read_text()
    (tmp_path / "file").write_text(text)
    os.mkfifo(tmp_path / "pipe")
    judge = ["ranktable", "validate", "--format", "concise"]
    expected = run(*judge, "file").out
    write = ["/bin/sh", "-c", "sleep 0.2; cat file >pipe"]
    with start_process(write, cwd=tmp_path):
        piped = run(*judge, "pipe")
    given = run(*judge, "-", given=text.encode())

    assert "error[" in expected
    assert piped.out.replace("pipe", "file") == expected
    assert given.out.replace("<stdin>", "file") == expected


def test_what_cannot_be_read_in_a_folder_hides_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "listed").mkdir()
    for name in ("a.json", "b.json", "notes", "listed/c.json", "listed/notes"):
        (tmp_path / name).write_bytes(BROKEN.read_bytes())
    for name in ("a.json", "notes"):
        (tmp_path / name).chmod(0)
    (tmp_path / "listed").chmod(0o444)
    (tmp_path / "sub").mkdir(mode=0)
    # Nothing is forbidden to root but without these capabilities.
    as_others = "setpriv --bounding-set=-dac_override,-dac_read_search "
    line = f"{as_others * (os.geteuid() == 0)}ranktable validate --format concise"
    whole = run_in_shell(f"{line} .", tmp_path)
    alone = run_in_shell(f"{line} sub", tmp_path)
    (tmp_path / "listed").chmod(0o755)
    file, folder = "the file cannot be read", "the folder cannot be read"
    denied = "permission denied"

    assert (whole.status, alone.status) == (2, 2), whole.err + alone.err
    rows = whole.out.splitlines()
    assert f"a.json: error[RT002] {file}: {denied}" in rows
    assert any(row.startswith("b.json:") for row in rows)
    assert f"listed/c.json: error[RT002] {file}: {denied}" in rows
    assert not any("notes" in row for row in rows)
    assert f"sub: error[RT002] {folder}: {denied}" in rows
    assert f"sub: error[RT002] {folder}: {denied}" in alone.out.splitlines()


# Hooks and the action


def hooks() -> list[dict[str, str]]:
    found: list[dict[str, str]] = yaml.safe_load(
        (ROOT / ".pre-commit-hooks.yaml").read_text()
    )
    return found


NAMES = {
    "hccl.json": True,
    "jobstart_hccl.json": True,
    "my_job_rank_table.json": True,
    "a/sccl_rank_table.json": True,
    "b/rank_table_n1.json": True,
    "ranktable.json": True,
    "job-rank-table.json": True,
    "cluster.yaml": True,
    "a/cluster-spec.yml": True,
    "cluster-role.yaml": False,
    "package.json": False,
    "cluster.json": False,
    "rank_table.py": False,
}


@pytest.mark.parametrize("name", NAMES)
def test_every_gate_knows_a_file_by_the_same_names(
    name: str, run: Run, tmp_path: Path
) -> None:
    template = yaml.safe_load((ROOT / "templates/checks/pre-commit.yaml").read_text())
    editor = json.loads((ROOT / "templates/editors/vscode.json").read_text())
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    folder = run("ranktable", "validate", ".")
    globs = [pattern for one in editor["json.schemas"] for pattern in one["fileMatch"]]
    globs += [one for several in editor["yaml.schemas"].values() for one in several]

    for each in (hooks(), template["repos"][0]["hooks"]):
        assert any(re.search(hook["files"], name) for hook in each) == NAMES[name]
    assert any(fnmatch(Path(name).name, one) for one in globs) == NAMES[name]
    assert (f"{name}:" in folder.out) == NAMES[name]


def test_hooks_judge_files(run: Run, tmp_path: Path) -> None:
    tables, specs = (hook["entry"].split() for hook in hooks())
    (tmp_path / "cluster.yaml").write_text("nodes: 2\n")

    assert run(*tables, str(BROKEN)).status == 1
    assert run(*specs, "cluster.yaml").status == 1


def test_the_action_judges_a_folder(commands: Commands, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][1]
    (tmp_path / "rank_table.json").write_bytes(BROKEN.read_bytes())
    given = {"FILES": ".", "ARGUMENTS": ""}
    done = run_in_shell(step["run"], tmp_path, programs=commands.folder, env=given)

    assert set(step["env"]) == {"FILES", "ARGUMENTS"}
    assert done.status == 1
    assert "::error file=" in done.out


@pytest.mark.parametrize("base", ["", "main"])
def test_the_action_adds_a_table_and_its_change_to_the_summary(
    base: str, commands: Commands, tmp_path: Path
) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][2]
    make = (
        "git init -q -b main . && ranktable gen --device-id '[[0,1]]' -o t.json"
        " && git add . && git -c user.name=a -c user.email=a@b.c commit -qm a"
        " && git remote add origin . && ranktable gen --device-id '[[1,0]]' -o t.json"
        " --force"
    )
    given = {
        "TABLES": "t.json",
        "ARGUMENTS": "--tp 2",
        "GITHUB_BASE_REF": base,
        "GITHUB_STEP_SUMMARY": "summary.md",
        "RUNNER_TEMP": str(tmp_path),
    }
    line = f"{make} 2>made && set -eo pipefail && {step['run']}"
    done = run_in_shell(line, tmp_path, programs=commands.folder, env=given)
    summary = (tmp_path / "summary.md").read_text()

    assert (done.status, done.out) == (0, "")
    assert summary.startswith("### t.json: 1 node, 2 ranks, ")
    assert ("2 moved" in summary) == bool(base)
