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


@pytest.mark.parametrize("name", FILES)
def test_whatever_ranktable_reads_is_judged(
    name: str, run: Run, tmp_path: Path
) -> None:
    text, _ = FILES[name]
    (tmp_path / name).write_text(text)
    done = run("ranktable", "validate", name, "--format", "json")
    data = json.loads(done.out)
    codes = {each["code"] for each in data["files"][0]["diagnostics"]}

    assert done.status == 1
    assert codes
    assert not codes & {"RT101", "RT110"}, codes


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


def test_an_unknown_format_is_refused_before_a_file_is_read(run: Run) -> None:
    done = run("ranktable", "validate", "--from", "foo", "gone.json")

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith('ranktable: --from: there is no format "foo"\n')
    assert done.err.count("help:") == 1


@pytest.mark.parametrize("form", ["full", "concise", "sarif", "github"])
def test_findings_of_a_spec_reach_every_form(
    form: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text("nodes: 2\nchips: 8\ncolour: red\n")
    done = run("ranktable", "validate", "cluster.yaml", "--output-format", form)

    assert done.status == 1
    assert "RT151" in done.out


def test_sound_files_of_every_kind_pass(run: Run, tmp_path: Path) -> None:
    run(
        "ranktable",
        "gen",
        "--device-id",
        "[[0..7],[0..7]]",
        "--hosts",
        "a,b",
        "-o",
        "t.json",
    )
    (tmp_path / "cluster.yaml").write_text("nodes: 2\nchips: 8\n")
    (tmp_path / "probe").write_text('{"probe":1,"host":"n","chips":[{"device_id":0}]}')
    made = ["t.json", "cluster.yaml", "probe"]
    for kind in ("openmpi-hostfile", "slurm-nodelist"):
        run("ranktable", "convert", "t.json", "--to", kind, "-o", kind)
        made.append(kind)
    done = run("ranktable", "validate", *made, "--strict")

    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.yaml", "# hooks\nrepos: []\n", "cluster spec"),
        ("a.yml", "nodes: 2\n", "cluster spec"),
        ("hosts", "# ours\nn1 n2 n3\n", "rank table, a cluster spec or a host file"),
    ],
)
def test_text_that_is_nothing_of_ours_is_not_judged_as_json(
    name: str, text: str, kind: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    done = run("ranktable", "validate", name)

    assert (done.status, done.out.startswith(f"{name}: error[RT110] ")) == (1, True)
    assert kind in done.out


def test_json_with_a_comment_before_it_is_judged_as_json(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text('# ours\n{"version": "1.0"}\n')

    assert "RT101" in run("ranktable", "validate", "t.json").out


def test_what_a_file_is_can_be_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1\nn1 n2\n")
    done = run("ranktable", "validate", "hosts", "--from", "srun-hostfile")
    any_ = run("ranktable", "validate", "hosts", "--from", "host-file")
    other = run("ranktable", "validate", "hosts", "--from", "nothing")

    assert (done.status, "RT130" in done.out) == (1, True)
    assert "nothing here says which format of host files it is" in any_.out
    assert (other.status, "there is no format" in other.err) == (2, True)


def test_a_folder_stands_for_the_tables_and_specs_in_it(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "a" / "b").mkdir()
    for place in ("a/t.json", "a/b/t.json", "a/.git/t.json"):
        (tmp_path / place).write_bytes(BROKEN.read_bytes())
    (tmp_path / "a" / "cluster-role.yaml").write_text("kind: ClusterRole\n")
    (tmp_path / "a" / "package.json").write_text("{")
    (tmp_path / "a" / "hostfile.py").write_text("import os\n")
    data = json.loads(run("ranktable", "validate", "a", "--format", "json").out)

    assert [each["file"] for each in data["files"]] == ["a/t.json", "a/b/t.json"]


def test_a_file_that_is_named_with_its_folder_is_judged_once(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "t.json").write_bytes(BROKEN.read_bytes())
    done = run("ranktable", "validate", "a/t.json", "a", "--format", "json")

    assert [each["file"] for each in json.loads(done.out)["files"]] == ["a/t.json"]


def test_files_of_this_folder_have_the_names_that_a_repository_gives_them(
    run: Run, tmp_path: Path
) -> None:
    # GitHub places a finding only in a file of exactly this name.
    (tmp_path / "t.json").write_bytes(BROKEN.read_bytes())
    done = run("ranktable", "validate", ".", "--format", "github")

    assert re.findall(r"file=[^,]*", done.out) == ["file=t.json"] * 2


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (".//", ["t.json", "sub/t.json"]),
        ("././", ["t.json", "sub/t.json"]),
        ("sub/../.", ["sub/../t.json", "sub/../sub/t.json"]),
        (".//sub", ["sub/t.json"]),
        ("sub//", ["sub/t.json"]),
        ("link", ["link/t.json"]),
        ("link/..", ["link/../t.json", "link/../deep/t.json"]),
    ],
)
def test_files_of_a_folder_are_found_however_it_is_written(
    given: str, named: list[str], run: Run, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    here = tmp_path / "here"
    for folder in (here, here / "sub", other, other / "deep"):
        folder.mkdir()
        (folder / "t.json").write_bytes(BROKEN.read_bytes())
    (here / "link").symlink_to(other / "deep")
    done = run("ranktable", "validate", given, "--format", "json", cwd=here)

    assert done.status == 1
    assert [each["file"] for each in json.loads(done.out)["files"]] == named


def test_a_file_of_a_folder_with_the_name_of_standard_input_is_judged(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "-").write_bytes(BROKEN.read_bytes())
    done = run("ranktable", "validate", ".//", "--format", "json")

    assert [each["file"] for each in json.loads(done.out)["files"]] == ["./-"]


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


def test_a_folder_without_files_of_ours_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    done = run("ranktable", "validate", "a")

    assert (done.status, done.err) == (
        2,
        "ranktable: a holds no table, spec or host file\n",
    )


def test_sound_but_for_what_is_ignored_says_how_much(run: Run) -> None:
    done = run("ranktable", "validate", str(BROKEN), "--ignore", "RT2,RT5")

    said = f"{BROKEN}: no errors left, with 2 findings ignored\n"
    assert (done.status, done.out) == (0, said)


def test_every_form_says_which_findings_were_ignored(run: Run) -> None:
    def form(name: str) -> str:
        command = ("validate", str(BROKEN), "--ignore", "RT2,RT5", "--format", name)
        return run("ranktable", *command).out

    found, log = json.loads(form("json")), json.loads(form("sarif"))
    codes = {"RT202": 1, "RT505": 1}
    assert found["files"][0]["ignored"] == found["totals"]["ignored"] == codes
    assert log["runs"][0]["properties"]["ignored"] == codes
    assert form("github") == "no defects; 2 findings ignored\n"
    assert "no errors left" in form("full")


def test_what_is_ignored_is_said_beside_what_is_left(run: Run) -> None:
    for given in ("--ignore=RT202", "--select=RT5"):
        done = run("ranktable", "validate", str(BROKEN), given)
        assert done.out.endswith("found 1 warning; 1 finding ignored\n")


SETTINGS = {
    "ignore = ['RT202']": 0,
    "ignore = ['RT2']": 0,
    "select = ['RT5']": 0,
    "select = ['RT2']": 1,
    "ignore = ['RT5']": 1,
    "colour = 1": 2,
    "ignore = 'RT2'": 2,
    "= ": 2,
}


@pytest.mark.parametrize("text", SETTINGS)
def test_a_project_sets_what_is_reported(text: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(BROKEN.read_bytes())
    (tmp_path / "pyproject.toml").write_text(f"[tool.ranktable]\n{text}\n")

    assert run("ranktable", "validate", "t.json").status == SETTINGS[text]


def test_settings_of_pyproject_hold_below_it(run: Run, tmp_path: Path) -> None:
    below = tmp_path / "site" / "tables"
    below.mkdir(parents=True)
    (below / "t.json").write_bytes(BROKEN.read_bytes())
    (tmp_path / "pyproject.toml").write_text("[tool.ranktable]\nignore = ['RT202']\n")
    (tmp_path / "site" / "pyproject.toml").write_text("[project]\nname = 'x'\n")

    assert run("ranktable", "validate", "t.json", cwd=below).status == 0
    (tmp_path / "site" / ".git").mkdir()
    assert run("ranktable", "validate", "t.json", cwd=below).status == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("select = 'RT202'", "Expected `array`, got `str` - at `$.select`"),
        ("ignore = ['RT9999']", "'RT9999' is not a code, such as RT202 or RT2"),
        ("chip = 'tpu9'", "chip 'tpu9' is neither a number of chips nor one of "),
        ("topology = 'x'", "topology is 'x', and there is no file "),
        ("max-errors = 'x'", "Expected `int | null`, got `str` - at `$.max-errors`"),
        ("select = ['RT999']", "there is no code that begins with RT999"),
        ("selct = ['RT2']", "Object contains unknown field `selct`"),
        ("ignore =", "Invalid value"),
    ],
)
def test_a_wrong_setting_is_refused(
    setting: str, said: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_bytes(BROKEN.read_bytes())
    (tmp_path / "pyproject.toml").write_text(f"[tool.ranktable]\n{setting}\n")
    done = run("ranktable", "validate", "t.json")

    assert (done.status, done.out) == (2, "")
    assert f"{tmp_path}/pyproject.toml: " in done.err
    assert said in done.err


def test_a_job_script_that_writes_a_spec_is_judged_as_a_script(run: Run) -> None:
    run("ranktable", "init", "slurm")
    done = run("ranktable", "validate", "slurm.sbatch")

    assert (done.status, done.out) == (0, "slurm.sbatch: sound\n")


def test_standard_input_is_named_where_no_file_is(run: Run) -> None:
    done = run("ranktable", "validate", given=BROKEN.read_bytes())

    assert done.status == 2
    assert done.err == (
        "ranktable: no FILE is given, RANK_TABLE_FILE is not set, and "
        "sccl_rank_table.json is not here\n"
        "help: name a file, or - for standard input\n"
    )


def test_topology_is_found_beside_the_settings(run: Run, tmp_path: Path) -> None:
    (tmp_path / "links.txt").write_text("0 1\n")
    settings = "[tool.ranktable]\ntopology = 'links.txt'\nchip = 2\n"
    (tmp_path / "pyproject.toml").write_text(settings)
    folder = tmp_path / "tables"
    folder.mkdir()
    run("ranktable", "gen", "--device-id", "[[0,1]]", "-o", "t.json", cwd=folder)

    assert run("ranktable", "validate", "t.json", cwd=folder).status == 0


def test_file_is_judged_once_however_its_folder_is_written(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "t.json").write_bytes(BROKEN.read_bytes())
    names = ("./a/t.json", "a", "a//t.json", str(tmp_path / "a" / "t.json"))

    done = run("ranktable", "validate", *names, "--format", "json")

    assert [each["file"] for each in json.loads(done.out)["files"]] == ["./a/t.json"]


def test_options_select_and_ignore_codes(run: Run) -> None:
    assert run("ranktable", "validate", str(BROKEN), "--ignore", "RT202").status == 0
    assert run("ranktable", "validate", str(BROKEN), "--select", "RT1,RT3").status == 0
    assert run("ranktable", "validate", str(BROKEN), "--select", "ranks").status == 2


def test_quiet_says_nothing_of_sound_files(run: Run) -> None:
    run(
        "ranktable",
        "gen",
        "--device-id",
        "[[0..7]]",
        "--ring",
        "sophgo-8",
        "-o",
        "t.json",
    )
    sound = run("ranktable", "validate", "-q", "t.json")
    both = run("ranktable", "validate", "-q", "t.json", str(BROKEN))

    assert (sound.status, sound.out) == (0, "")
    assert "t.json: sound" not in both.out
    assert "RT202" in both.out


def test_several_nodes_are_no_defect_under_strict(run: Run) -> None:
    run("ranktable", "gen", "--device-id", "[[0,1],[0,1]]", "-o", "t.json")
    done = run("ranktable", "validate", "t.json", "--strict")

    assert done.status == 0
    assert "RT505" in done.out


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


def test_what_is_not_judged_in_a_folder_is_said(run: Run, tmp_path: Path) -> None:
    run("ranktable", "gen", "--device-id", "[[0]]", "-o", "one.json")
    python = "{'version': '1.0', 'node_list': []}"
    (tmp_path / "python.json").write_text(python)
    (tmp_path / "wide.json").write_text(python.replace("'", '"'), "utf-16")
    (tmp_path / "hccl.json").write_bytes(b"")
    for name in ("a.txt", "b.py", "package.json"):
        (tmp_path / name).write_text("{}")
    done = run("ranktable", "validate", ".")
    named = run("ranktable", "validate", ".", "-v")

    assert done.status == 1
    assert {line.split(":")[0] for line in done.out.splitlines()[:-1]} == {
        *("hccl.json", "one.json", "python.json", "wide.json"),
    }
    assert done.err == "not judged: package.json, a.txt, b.py\n"
    assert named.err == "".join(
        f"not judged: {name}\n" for name in ("a.txt", "b.py", "package.json")
    )


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
