"""``ranktable init``, and every template: copied, checked, and run where it can be."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cli.commands.init import SCHEMA, templates
from ranktable.cli.output import OutputFile, put_files
from ranktable.schema.yaml_parser import parse_yaml
from tests.commands import run_in_shell, run_process
from tests.slurm_cluster import PAUSE_S
from tests.test_real_launchers import (
    TIMEOUT_S,
    finish,
    needs_mpirun,
    needs_slurm,
    start,
)
from tests.test_real_launchers import slurm as slurm  # noqa: PLC0414 - a fixture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.commands import Commands
    from tests.conftest import Run

FOLDER = Path(__file__).parent.parent / "templates"
NAMES = [template.name for template in templates()]
SAY = """
import ranktable
from ranktable.runtime import resolve_environment

rank = resolve_environment().rank
print(f"rank {rank} has chip {ranktable.read_rank_table()[rank]}\\n", end="")
"""


def init(run: Run, *arguments: str) -> None:
    done = run("ranktable", "init", *arguments)
    assert done.status == 0, done.err


def documents(path: Path) -> list[Any]:
    """Return the documents of a YAML file that is read strictly."""
    found, findings = parse_yaml(path.read_text())
    assert not findings
    return [document.data for document in found]


# the command


def test_every_file_of_the_folder_is_a_template() -> None:
    sources = {source for template in templates() for source, _ in template.files}
    there = {str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*") if p.is_file()}

    assert {s for s in sources if not s.startswith(SCHEMA)} == there - {
        "README.md",
        "index.toml",
    }


def test_the_page_lists_every_template() -> None:
    rows = re.findall(
        r"^\| \[.*\]\((.*)\) \| ([\w-]+) \|",
        (FOLDER / "README.md").read_text(),
        re.MULTILINE,
    )

    assert rows == [(template.files[0][0], template.name) for template in templates()]


@pytest.mark.parametrize("name", NAMES)
def test_copy_is_the_template_and_a_second_one_changes_nothing(
    name: str, run: Run, tmp_path: Path
) -> None:
    template = next(template for template in templates() if template.name == name)

    first, second = (run("ranktable", "init", name) for _ in range(2))

    targets = [target for _, target in template.files]
    assert first.err.splitlines() == [f"wrote {target}" for target in targets]
    assert second.err.splitlines() == [f"unchanged {target}" for target in targets]
    source, target = FOLDER / template.files[0][0], tmp_path / targets[0]
    assert target.read_bytes() == source.read_bytes()
    assert os.access(target, os.X_OK) == os.access(source, os.X_OK)


def test_a_failure_says_what_was_written_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, folder = tmp_path / "a" / "new", tmp_path / "folder"
    folder.mkdir()
    files = [OutputFile(path=str(path), data=b"ours") for path in (new, folder)]
    with pytest.raises(ranktable.RankTableError, match="not a regular file"):
        put_files(files, force=True)

    assert new.read_bytes() == b"ours"
    assert capsys.readouterr().err == f"wrote {new}\n"


# cluster specs


# jobs


@pytest.mark.parametrize("name", ["slurm", "openmpi", "torchrun"])
def test_job_script_is_bash_and_says_how_it_is_used(
    name: str, run: Run, tmp_path: Path
) -> None:
    init(run, name, "-o", "job")
    for options, status in ((["-n"], 0), ([], 2)):
        done = run_process(["/bin/bash", *options, tmp_path / "job"])

        assert done.status == status
        assert done.err.startswith("usage: ") == bool(status)


@pytest.mark.slow
@pytest.mark.torch
@needs_mpirun
def test_job_of_open_mpi_starts_a_process_for_each_chip(
    run: Run, tmp_path: Path
) -> None:
    init(run, "openmpi")
    (tmp_path / "cluster.yaml").write_text("nodes: localhost\nchips: [5, 4]\n")
    (tmp_path / "say.py").write_text(SAY)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    loopback = {f"OMPI_MCA_{name}_tcp_if_include": "lo" for name in ("btl", "oob")}
    shared = {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    command = ["bash", "openmpi.sh", "say.py"]
    job = start(command, tmp_path, **as_root, **loopback, **shared)

    said = sorted(finish(job, tmp_path).splitlines())

    assert said == ["rank 0 has chip 5", "rank 1 has chip 4"]


@pytest.mark.slow
@pytest.mark.torch
@needs_slurm
@pytest.mark.xdist_group("slurm")  # one cluster
def test_job_of_slurm_makes_the_table_of_its_hosts(
    slurm: Mapping[str, str], run: Run, tmp_path: Path
) -> None:
    init(run, "slurm")
    (tmp_path / "say.py").write_text(SAY)
    more = {"CHIPS": "[2, 6]", "RING": "sophgo-8"}
    command = ["sbatch", "--output=said", "slurm.sbatch", "say.py"]
    finish(start(command, tmp_path, **slurm, **more), tmp_path)
    end = time.monotonic() + TIMEOUT_S
    lines: list[str] = []
    while len(lines) < 4 and time.monotonic() < end:
        time.sleep(PAUSE_S)
        there = tmp_path / "said"
        text = there.read_text() if there.exists() else ""
        lines = sorted(re.findall("^rank .*\n", text, re.MULTILINE))

    assert lines == [f"rank {r} has chip {c}\n" for r, c in enumerate((2, 6, 2, 6))]
    (path,) = tmp_path.glob("rank_table-*.json")
    hosts = [node.host for node in ranktable.load(path).nodes]
    assert hosts == ["127.0.0.1", "127.0.0.2"]


def test_manifest_has_a_sound_table_of_its_pods(run: Run, tmp_path: Path) -> None:
    init(run, "kubernetes")
    config, service, job = documents(tmp_path / "kubernetes.yaml")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (mount,) = container["volumeMounts"]
    (volume,) = pod["volumes"]
    (name,) = config["data"]
    (tmp_path / "table.json").write_text(config["data"][name])
    judged = run("ranktable", "validate", "table.json", "--topology", "sophgo-8")
    hosts = run("ranktable", "convert", "table.json", "--to", "slurm-nodelist")

    whole = run("ranktable", "validate", "kubernetes.yaml", "--format", "concise")

    assert judged.status == 0
    assert (whole.status, "RT505" in whole.out) == (0, False)
    assert (hosts.status, hosts.out) == (0, "train-[0-1].train 8(x2)\n")
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert volume["name"] == mount["name"]
    assert container["env"] == [
        {"name": "RANK_TABLE_FILE", "value": f"{mount['mountPath']}/{name}"}
    ]
    (first,) = pod["initContainers"]
    assert (first["env"], first["volumeMounts"]) == (container["env"], [mount])
    assert first["command"][:2] == ["sh", "-c"]
    posted = run_in_shell(
        first["command"][2].replace("/dev/termination-log", "posted"),
        tmp_path,
        env={"RANK_TABLE_FILE": "table.json"},
    )
    assert posted.status == 0
    assert "train-" in (tmp_path / "posted").read_text()
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}


# checks


@pytest.mark.parametrize(("chips", "status"), [(8, 0), (0, 1)])
def test_hooks_judge_the_files_that_they_get(
    chips: int,
    status: int,
    run: Run,
    commands: Commands,
    tmp_path: Path,
) -> None:
    import shlex

    init(run, "pre-commit")
    ((data,),) = (documents(tmp_path / ".pre-commit-config.yaml"),)
    write_site(tmp_path, chips)
    found = []
    for hook, name in zip(
        data["repos"][0]["hooks"], ("rank_table.json", "cluster.yaml"), strict=True
    ):
        found.append(
            in_shell([*shlex.split(hook["entry"]), name, name], tmp_path, commands)
        )

    assert found == [status, status]


@pytest.mark.parametrize(("chips", "status"), [(8, 0), (0, 1)])
def test_steps_of_the_workflow_judge_the_files_of_the_repository(
    chips: int,
    status: int,
    run: Run,
    commands: Commands,
    tmp_path: Path,
) -> None:
    init(run, "github")
    (data,) = documents(tmp_path / ".github" / "workflows" / "rank-tables.yml")
    _, _, install, check, summary = data["jobs"]["check"]["steps"]
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    empty = in_shell([*shell, check["run"]], tmp_path, commands)
    write_site(tmp_path, chips)
    found = in_shell([*shell, check["run"]], tmp_path, commands)
    post = f"git init -q . && git add . && GITHUB_STEP_SUMMARY=s.md; {summary['run']}"
    posted = in_shell([*shell, post], tmp_path, commands)

    assert (posted, summary["if"]) == (0, "always()")
    assert (tmp_path / "s.md").read_text().startswith("### rank")
    # The name in the index is not ours, so nothing installs it from there.
    assert install["run"].endswith('pip install "$RANKTABLE"')
    assert empty == 2  # a gate that looked at nothing is not green
    assert found == status


def write_site(folder: Path, chips: int) -> None:
    """Write a table and a spec, which are sound unless there are no chips."""
    (folder / "cluster.yaml").write_text(f"nodes: 1\nchips: {chips}\n")
    table = (FOLDER / "rank_tables" / "sophgo-8.json").read_text()
    text = table if chips else table.replace('"rank":"1"', '"rank":"0"')
    (folder / "rank_table.json").write_text(text)


def in_shell(command: list[str], folder: Path, commands: Commands) -> int:
    """Return the exit status of a command that finds ranktable."""
    line = shlex.join(command)
    return run_in_shell(line, folder, programs=commands.folder).status


# editors


def test_settings_of_the_editor_name_schemas_that_are_there(
    run: Run, tmp_path: Path
) -> None:
    init(run, "vscode")
    settings = json.loads((tmp_path / ".vscode" / "settings.json").read_text())
    named = {entry["url"] for entry in settings["json.schemas"]}
    named |= set(settings["yaml.schemas"])
    schemas = {
        path.name: json.loads(path.read_text())["$id"]
        for path in (tmp_path / name for name in named)
    }

    assert schemas == {
        f"{name}.schema.json": f"urn:ranktable:schema:{name}"
        for name in ("rank-table", "cluster-spec")
    }
    assert set(settings) == {"json.schemas", "yaml.schemas"}


def test_an_installed_package_has_the_templates() -> None:
    """The wheel puts them where ``init`` looks first."""
    text = (FOLDER.parent / "pyproject.toml").read_text()

    assert '"templates" = "ranktable/templates"' in text
