"""What ``ranktable simulate`` reads and refuses before it starts a process."""

from __future__ import annotations

import re
import shutil
import tempfile
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import make_table
from ranktable.schema.topology import SOPHGO_8
from ranktable.schema.writing import dump
from ranktable.simulate.faults import parse_fault
from ranktable.simulate.processes import run_folder
from ranktable.simulate.requirements import (
    SIMULATED,
    rank_environment,
    refuse_real_package,
)
from ranktable.simulate.simulated_run import VARIABLE, Fault
from ranktable.simulate.simulation import make_boxes, make_run, ring_warning
from tests.commands import run_python
from tests.file_cases import write_files
from tests.simulate_command import ADD_UP, environment, simulate_afresh, write
from tests.test_imports import modules_after
from tests.test_sccl_backend import google, sophgo

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


TWICE = """{"version":"1.0","node_list":[{"device_list":[
  {"device_id":"3","rank":"0","world_rank":"0"},
  {"device_id":"3","rank":"1","world_rank":"1"}]}]}"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("late:3=2.5", Fault(kind="late", rank=3, delay_s=2.5)),
        ("hang:2", Fault(kind="hang", rank=2)),
        ("hang:2@12", Fault(kind="hang", rank=2, collective=12)),
        ("die:1@1", Fault(kind="die", rank=1)),
    ],
)
def test_fault_is_read_as_it_is_spelt(text: str, fault: Fault) -> None:
    assert parse_fault(text, 4) == fault


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *(
            (text, "is not a fault of one of the forms late:RANK=SECONDS, hang:RANK")
            for text in (
                *("", "Hang:1", "hang", "hang:x", "hang:-1", "hang: 2", "hang:1=2"),
                *("hang:\u0662", "hang:1@0", "hang:1@2x", "late:1", "late:1@2"),
                *("late:1=1e3", "die:1 ", "map:1"),
            )
        ),
        ("hang:4", "'hang:4': rank 4 is not among the 4 ranks of the job"),
        ("late:1=0", "the delay must be above 0 and at most 86400 seconds"),
        ("late:1=86401", "the delay must be above 0 and at most 86400 seconds"),
    ],
)
def test_malformed_fault_is_shown_with_its_forms(text: str, reason: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(reason)):
        parse_fault(text, 4)


@pytest.mark.parametrize("nproc", [1, 2, 4, 6, 8])
def test_boxes_are_in_ring_order(nproc: int) -> None:
    table = make_boxes(nproc, 2)

    assert len(table.local_chip_map(0)) == nproc
    assert SOPHGO_8.broken_links(table.local_chip_map(0)) == []
    assert table.local_chip_map(1) == table.local_chip_map(0)
    assert ring_warning(nproc) is None


@pytest.mark.parametrize("nproc", [3, 5, 7, 9])
def test_boxes_without_a_ring_are_in_plain_order(nproc: int) -> None:
    assert make_boxes(nproc, 1).chip_map == list(range(nproc))


def test_box_larger_than_the_published_one_is_said_to_have_no_known_ring() -> None:
    assert ring_warning(7) is None  # the ranks say it
    assert "no ring of 9 is known" in str(ring_warning(9))


def test_folder_of_a_dead_launcher_is_removed_and_that_of_a_live_one_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with run_folder() as live:
        orphan = shutil.copytree(live, tmp_path / "ranktable-simulate-orphan")
        starting = tmp_path / "ranktable-simulate-starting"
        starting.mkdir()
        with run_folder():
            left = set(tmp_path.glob("*"))

    assert {live, starting} < left
    assert orphan not in left


def test_nodes_of_a_run_are_in_the_order_of_their_ranks() -> None:
    table = make_table([[3, 1], [0, 2]])
    turned = type(table)(nodes=table.nodes[::-1])

    assert make_run(turned).chips == ((3, 1), (0, 2))


@pytest.mark.parametrize("has_init", [False, True])
def test_folder_without_a_module_is_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_init: bool
) -> None:
    write_files(tmp_path, NOTES | (INIT if has_init else {}))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(SIMULATED)  # as in a simulated run

    if has_init:
        with pytest.raises(ArgumentError, match=str(tmp_path / "torch_tpu")):
            refuse_real_package(is_forced=False)
    else:
        refuse_real_package(is_forced=False)


NOTES = {"torch_tpu/notes": ""}
INIT = {"torch_tpu/__init__.py": "raise SystemExit"}


def test_environment_of_ranks_has_nothing_of_an_outer_job() -> None:
    outer = {
        "SLURM_PROCID": "3",
        "RANK": "3",
        "MASTER_ADDR": "n1",
        "PET_NNODES": "2",
        "TORCHELASTIC_RUN_ID": "x",
        "SLURM_JOB_NAME": "mine",
        "CHIP_MAP": "1,0",
        "PYTHONPATH": "/mine",
        "OMP_NUM_THREADS": "4",
    }
    made = rank_environment(outer, table="/t.json", of_run={VARIABLE: "/run"})

    assert made == {
        "SLURM_JOB_NAME": "mine",
        "CHIP_MAP": "1,0",
        "PYTHONPATH": f"{SIMULATED}:/mine",
        "OMP_NUM_THREADS": "4",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "GLOO_SOCKET_IFNAME": "lo",
        "RANK_TABLE_FILE": "/t.json",
        VARIABLE: "/run",
    }


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--nproc", "0", "s.py"], 2, "0 is not a number of chips"),
        (["--nproc", "-3", "s.py"], 2, "-3 is not a number of chips"),
        (["--nodes", "0", "s.py"], 2, "0 is not a number of nodes"),
        (["--nproc", "1025", "s.py"], 2, "1025 ranks are too many"),
        (["--nproc", "600", "--nodes", "2", "s.py"], 2, "1200 ranks are too many"),
        (["--nproc", "x", "s.py"], 2, "--nproc"),
        (["--nprocs", "2", "s.py"], 2, "No such option: --nprocs"),
        (["--rank-table", "no.json", "s.py"], 2, "RT001"),
        (["--rank-table", "-", "s.py"], 2, "name a file"),
        (["--rank-table", "t.json", "--nproc", "2", "s.py"], 2, "leave out --nproc"),
        (["--rank-table", "twice.json", "s.py"], 1, "RT207"),
        (["--rank-table", "t.json", "--fault", "hang:2", "s.py"], 2, "rank 2 is not"),
        (
            ["--nproc", "2", "--fault", "hang:1@0", "s.py"],
            2,
            "'hang:1@0' is not a fault",
        ),
        (["--timeout", "0", "s.py"], 2, "0 seconds is not a time"),
        (["--timeout", "nan", "s.py"], 2, "nan seconds is not a time"),
        (["--once", "--nodes", "2", "s.py"], 2, "--once is for one node"),
        (["--once"], 2, "--once is for a SCRIPT"),
        (["--format", "json", "s.py"], 2, "--format is for the all_reduce"),
        (["missing.py"], 2, "there is no script 'missing.py'"),
        ([""], 2, "there is no script ''"),
        (["."], 2, "'.' is a directory, not a script"),
        (["/dev/null"], 2, "'/dev/null' is not a file that every rank can read"),
        (["-m", "no_such_module.part"], 2, "there is no module 'no_such_module.part'"),
        (["own/s.py"], 2, "own/torch_tpu, which is beside it"),
    ],
)
def test_what_cannot_be_started_is_said_before_anything_starts(
    arguments: list[str],
    status: int,
    said: str,
    run: Run,
    tmp_path: Path,
) -> None:
    write_files(tmp_path, {"s.py": "", "own/s.py": "", "own/torch_tpu/__init__.py": ""})
    dump(make_table([[3, 1]]), tmp_path / "t.json")
    (tmp_path / "twice.json").write_text(TWICE)
    done = run("ranktable", "simulate", *arguments)

    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert "simulating" not in done.err


def test_missing_torch_is_said_before_anything_starts(run: Run, tmp_path: Path) -> None:
    hidden = {"site/sitecustomize.py": "import sys\nsys.modules['torch'] = None\n"}
    write_files(tmp_path, {"s.py": "", **hidden})
    env = {"PYTHONPATH": str(tmp_path / "site")}
    done = run("ranktable", "simulate", "s.py", env=env)

    why = "ranktable: torch is not installed; pip install torch\n"
    assert (done.status, done.out, done.err) == (2, "", why)


@pytest.mark.torch
@pytest.mark.parametrize("version", ["2.8.0", "2.9.1+cpu", "1.13"])
def test_older_torch_is_refused_with_the_command_for_a_newer_one(
    version: str, run: Run, tmp_path: Path
) -> None:
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
    files = {f"site/torch-{version}.dist-info/METADATA": metadata, "s.py": ""}
    write_files(tmp_path, files)
    env = {"PYTHONPATH": str(tmp_path / "site")}
    done = run("ranktable", "simulate", "s.py", env=env)

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"ranktable: simulated chips need torch 2.10 or newer, and torch {version} is "
        "installed here\nhelp: pip install 'torch>=2.10', here or, if torch_tpu needs "
        "this one, in a virtual environment beside this one, with ranktable\n"
    )


@pytest.mark.torch
def test_launcher_without_room_names_the_folder(tmp_path: Path) -> None:
    limited = "import resource, sys\n"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
    limited += "from ranktable.cli import main\nsys.argv = ['ranktable', 'simulate']\n"
    done = run_python("-c", limited + "main()", env=environment(tmp_path))

    assert done.status == 2
    assert str(tmp_path / "tmp" / "ranktable-simulate-") in done.err, done.err
    assert "Traceback" not in done.err


def test_launcher_needs_no_torch() -> None:
    modules = modules_after(
        "import ranktable.cli.commands.simulate, ranktable.simulate.add_up, "
        "ranktable.simulate.simulated_chips, ranktable.report.all_reduce"
    )

    assert "ranktable.simulate.launch" in modules
    assert not modules & {"torch", "numpy"}


@pytest.mark.parametrize("make", [google, sophgo])
def test_real_package_stops_it(make: object, run: Run, tmp_path: Path) -> None:
    if make is google:
        google(tmp_path / "site")
    else:
        sophgo(tmp_path / "site", is_new=True)
    (tmp_path / "s.py").touch()
    done = run(
        "ranktable", "simulate", "s.py", env={"PYTHONPATH": str(tmp_path / "site")}
    )
    owner = "Google's" if make is google else "SOPHGO's"

    assert done.status == 2
    assert f"{owner} torch_tpu is installed here" in done.err
    assert "--force" in done.err


@pytest.mark.torch
@pytest.mark.parametrize("make", [google, sophgo])
def test_forced_run_does_not_touch_the_real_package(
    make: object, tmp_path: Path
) -> None:
    if make is google:
        google(tmp_path / "site")
    else:
        sophgo(tmp_path / "site", is_new=True)
    write(tmp_path, "s.py", ADD_UP)
    site = str(tmp_path / "site")
    given = ["--nproc", "2", "--force", "s.py"]
    done = simulate_afresh(tmp_path, *given, PYTHONPATH=site)

    assert done.status == 0, done.err


@pytest.mark.torch
def test_nothing_of_it_can_be_imported_elsewhere(tmp_path: Path) -> None:
    code = "import importlib.util as u, torch; print(u.find_spec('torch_tpu'))"
    done = run_python("-c", code, env=environment(tmp_path))

    assert done.out == "None\n"
