"""``ranktable simulate`` as an installed command: options, processes, what is left."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
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
from tests.commands import (
    clean_environment,
    run_process,
    run_python,
    start_process,
    torch_environment,
    with_torch,
)
from tests.file_cases import write_files
from tests.ranks import free_port
from tests.test_imports import modules_after
from tests.test_sccl_backend import google, sophgo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.commands import Started
    from tests.conftest import Outcome, Run

TIMEOUT_S = 100
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


def test_launcher_needs_no_torch() -> None:
    modules = modules_after(
        "import ranktable.cli.commands.simulate, ranktable.simulate.add_up, "
        "ranktable.simulate.simulated_chips, ranktable.report.all_reduce"
    )

    assert "ranktable.simulate.launch" in modules
    assert not modules & {"torch", "numpy"}


# From here on processes are started.

RANKS = """
import json, os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")
text = json.dumps([[int(os.environ[n]) for n in names], sys.argv[1:], sys.stdin.read()])
sys.stdout.write(text + "\\n")
"""


def simulate(folder: Path, *arguments: str, **env: str) -> Outcome:
    """Run the command in a folder that is also its folder for temporary files.

    All its processes are forks of one that has torch imported.
    """
    return run_to_end(forked(*arguments), folder, {**torch_environment(), **env})


def simulate_afresh(folder: Path, *arguments: str, **env: str) -> Outcome:
    """Run the command, and all programs that it starts, in new interpreters."""
    return run_to_end(command(*arguments), folder, env)


def run_to_end(started: Sequence[str], folder: Path, env: dict[str, str]) -> Outcome:
    return run_process(
        started,
        given=b"typed",
        env=environment(folder, **env),
        cwd=folder,
        timeout_s=TIMEOUT_S,
    )


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "ranktable"), "simulate", *arguments]


def forked(*arguments: str) -> list[str]:
    return [str(with_torch() / "ranktable"), *command(*arguments)[1:]]


def environment(folder: Path, **more: str) -> dict[str, str]:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", **more, "TMPDIR": str(temporary)}


def left_in(folder: Path) -> list[str]:
    """Return the files that are left, and the processes in it or with this TMPDIR."""
    temporary = folder / "tmp"
    mark = f"TMPDIR={temporary}\0".encode()
    found = [path.name for path in temporary.iterdir()]
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may have ended
            in_it = (place / "cwd").readlink().is_relative_to(folder)
            if in_it or mark in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_text())
    return found


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


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


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                 start_new_session=True)
open(os.path.join(os.environ["TMPDIR"], os.environ["RANK"]), "w").close()
if "--stay" in sys.argv:
    time.sleep(600)
"""


@pytest.mark.torch
def test_process_that_a_script_leaves_behind_is_ended(tmp_path: Path) -> None:
    write(tmp_path, "s.py", STUBBORN)
    done = simulate(tmp_path, "--nproc", "1", "s.py")

    assert done.status == 0, done.err
    assert left_in(tmp_path) == ["0"]


def started(folder: Path, arguments: Sequence[str]) -> Started:
    """Start stubborn ranks, and return when all of them run."""
    write(folder, "s.py", STUBBORN)
    process = start_process(
        forked(*arguments, "s.py", "--stay"),
        pipes=["stdout", "stderr"],
        env=environment(folder, **torch_environment()),
        cwd=folder,
        leads_session=True,
    )
    end = time.monotonic() + TIMEOUT_S
    while not all((folder / "tmp" / rank).exists() for rank in "01"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    return process


@pytest.mark.torch
@pytest.mark.parametrize(
    ("signum", "shape"),
    [
        (signal.SIGINT, ["--nproc", "2"]),
        (signal.SIGTERM, ["--nproc", "1", "--nodes", "2"]),
        (signal.SIGHUP, ["--nproc", "2"]),
    ],
)
def test_signal_ends_everything_within_seconds(
    signum: signal.Signals, shape: list[str], tmp_path: Path
) -> None:
    process = started(tmp_path, shape)
    begin = time.monotonic()
    process.send_signal(signum)
    process.communicate(timeout=TIMEOUT_S)
    took_s = time.monotonic() - begin

    assert process.returncode == 128 + signum
    assert sorted(left_in(tmp_path)) == ["0", "1"]
    assert took_s < 40  # the ranks would run for ten minutes


@pytest.mark.torch
def test_ranks_end_when_the_launcher_is_killed(tmp_path: Path) -> None:
    write(tmp_path, "s.py", "import time; print('up', flush=True); time.sleep(600)")
    process = start_process(
        command("--nproc", "1", "s.py"),
        pipes=["stdout"],
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.kill()
    process.communicate()
    end = time.monotonic() + TIMEOUT_S
    while len(left_in(tmp_path)) > 1 and time.monotonic() < end:
        time.sleep(0.1)
    left = left_in(tmp_path)
    write(tmp_path, "s.py", "")
    done = simulate(tmp_path, "--nproc", "1", "s.py")
    while left_in(tmp_path) and time.monotonic() < end:  # a rank that ends has its lock
        done = simulate(tmp_path, "--nproc", "1", "s.py")

    # A process that is killed cannot remove its folder; a later run does.
    assert [name.startswith("ranktable-simulate-") for name in left] == [True]
    assert done.status == 0, done.err
    assert left_in(tmp_path) == [], list((tmp_path / "tmp").rglob("*"))


# What the ranks do on simulated chips.

ADD_UP = """
import os, sys
import torch
import torch.distributed as dist
import torch_tpu

assert torch_tpu.__simulated__ is True
rank = int(os.environ["RANK"])
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = chip_map
dist.init_process_group("sccl", pg_options=options)
tensor = torch.ones(2).to(f"tpu:{chip_map[rank]}")
dist.all_reduce(tensor)
dist.all_reduce(tensor)
sys.stdout.write(f"{rank} {tensor.device} {tensor.tolist()}\\n")
"""


@pytest.mark.torch
def test_without_a_script_a_table_shows_what_each_rank_has_got(tmp_path: Path) -> None:
    dump(make_table([[6, 2], [3]]), tmp_path / "t.json")
    done = simulate(tmp_path, "--rank-table", "t.json")
    rows = [line.split("  ") for line in done.out.splitlines()]
    cells = [[cell.strip() for cell in row if cell] for row in rows]

    assert done.status == 0, done.err
    assert cells[0] == ["rank", "node", "chip", "result", "time"]
    assert [row[:4] for row in cells[1:]] == [
        ["0", "0", "6", "[3., 3., 3., 3.]"],
        ["1", "0", "2", "[3., 3., 3., 3.]"],
        ["2", "1", "3", "[3., 3., 3., 3.]"],
    ]
    assert all(row[4].endswith(" ms") for row in cells[1:])
    assert left_in(tmp_path) == []


LAST_OBJECT = """\
import os, sys
import torch, torch_tpu
torch.ones(2).to("tpu")

class Last:
    def __del__(self, open=open, write=os.write):
        write(1, open("/proc/self/smaps_rollup", "rb").read())

sys.last_object = Last()  # Python removes it after all modules
"""


@pytest.mark.torch
def test_rank_shares_most_of_its_memory_until_it_has_ended(tmp_path: Path) -> None:
    script = write(tmp_path, "s.py", LAST_OBJECT)
    done = simulate_afresh(tmp_path, "--nproc", "1", script)
    used_kib = re.findall(r"Private_(?:Clean|Dirty): +(\d+) kB", done.out)

    assert len(used_kib) == 2, done.err
    assert sum(map(int, used_kib)) < 90 * 1024, done.out


NO_ROOM = """\
import os, resource, sys
import torch, torch.distributed as dist, torch_tpu

rank = int(os.environ["RANK"])
torch_tpu.tpu.set_device(torch_tpu.tpu.read_rank_table()[rank])
dist.init_process_group("sccl")
if rank == 1:  # as if the disk were full
    room = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
dist.all_reduce(torch.ones(1 << 20, device="tpu"))
"""


@pytest.mark.torch
def test_rank_without_room_for_its_tensor_says_where(tmp_path: Path) -> None:
    script = write(tmp_path, "s.py", NO_ROOM)
    done = simulate(tmp_path, "--nproc", "2", script, str(1 << 20))

    assert done.status == 1
    assert re.search(
        r"error: rank 1 cannot write 4194304 bytes for other ranks into \S+: File too "
        "large; set TMPDIR to a folder with room",
        done.err,
    )


@pytest.mark.torch
def test_rank_without_room_for_anything_says_so_itself(tmp_path: Path) -> None:
    script = write(tmp_path, "s.py", NO_ROOM)
    done = simulate(tmp_path, "--nproc", "2", script, "10")

    assert done.status == 1
    assert "SimulationError: rank 1 cannot write 4194304 bytes" in done.err
    assert "error: rank 1 ended" in done.err
    assert "internal error" not in done.err


@pytest.mark.torch
def test_box_without_a_ring_is_warned_of_once(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--nproc", "3")

    assert done.status == 0, done.err
    assert done.err.count("warning: ") == done.err.count("ring") == 1


ENDING_IN_ORDER = """\
import atexit, ctypes, sys, threading, time, weakref

class Noted:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print(self.name)

def work():
    time.sleep(0.3)
    print("thread")

atexit.register(print, "at exit")
threading.Thread(target=work).start()
own = Noted("own")
gone = weakref.proxy(Noted("gone"))
ctypes.CDLL(None).printf(b"from C\\n")
sys.exit("no more")
"""
ENDINGS = {
    "daemon thread": """\
import threading, time
count = 0
def work():
    global count
    while True:
        count += 1
        time.sleep(0)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("done")
""",
    "file of an imported module": """\
import pathlib
pathlib.Path("helper.py").write_text("import gzip; log = gzip.open('log.gz', 'wt')")
import helper
helper.log.write("hello " * 1000)
left = open("left.txt", "w")
left.write("left open")
""",
    "flush that raises": """\
import io
class Tee(io.TextIOBase):
    def flush(self):
        raise RuntimeError("it is gone")
tees = [Tee()]
tees.append(tees)
""",
    "no main module": "import sys; print('hi'); sys.modules.pop('__main__')",
    "object in a cycle": """\
class Closer:
    def __init__(self):
        self.me = self
    def __del__(self):
        print("closed", flush=True)
closer = Closer()
""",
}


# Each rank runs the script of the folder of its number, and writes there.
ENDING_OF_A_RANK = """\
import os, sys
os.chdir(os.environ["RANK"])
sys.path[0] = os.getcwd()
for number, name in enumerate(("out", "err"), 1):
    os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
exec(compile(open("s.py").read(), "s.py", "exec"))
"""


@pytest.mark.torch
def test_script_ends_as_in_python(tmp_path: Path) -> None:
    write(tmp_path, "s.py", ENDING_IN_ORDER)
    theirs = run_python("s.py", cwd=tmp_path)
    ours = simulate_afresh(tmp_path, "--nproc", "1", "s.py")

    assert (ours.status, ours.out) == (theirs.status, theirs.out), ours.err
    assert errors_of_script(ours.err) == theirs.err


def errors_of_script(err: str) -> str:
    lines = err.splitlines(keepends=True)
    own = ("ranktable: ", "error: rank 0 ended with exit status ")
    return "".join(line for line in lines if not line.startswith(own))


@pytest.mark.torch
def test_whatever_a_script_leaves_open_ends_as_in_python(tmp_path: Path) -> None:
    for name in ("python", "ranks"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "s.py", ENDING_OF_A_RANK)
        for rank, script in enumerate(ENDINGS.values()):
            (tmp_path / name / str(rank)).mkdir()
            write(tmp_path / name / str(rank), "s.py", script)
    for rank in range(len(ENDINGS)):
        env = {**clean_environment(), "RANK": str(rank)}
        run_python("s.py", env=env, cwd=tmp_path / "python")
    nproc = ("--nproc", str(len(ENDINGS)))
    done = simulate_afresh(tmp_path / "ranks", *nproc, "s.py")

    assert done.status == 0, done.err
    for rank, name in enumerate(ENDINGS):
        theirs, ours = (tmp_path / each / str(rank) for each in ("python", "ranks"))
        assert (name, texts_in(ours)) == (name, texts_in(theirs))
    assert texts_in(tmp_path / "ranks" / "0")["out"] == b"done\n"


def texts_in(folder: Path) -> dict[str, bytes]:
    """Return what the files hold that a script left, without compression."""
    return {
        path.name: gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
        for path in folder.iterdir()
        if path.is_file()
    }


@pytest.mark.torch
def test_json_has_the_same_and_the_findings(tmp_path: Path) -> None:
    options = ["--nproc", "2", "--format", "json"]
    good = json.loads(simulate(tmp_path, *options).out)
    done = simulate(tmp_path, *options, "--fault", "die:1")
    bad = json.loads(done.out)

    times = [rank.pop("time_s") for rank in good["ranks"]]
    assert all(0 < time_s < TIMEOUT_S for time_s in times)
    assert good == {
        "ok": True,
        "world_size": 2,
        "num_nodes": 1,
        "ranks": [
            {"rank": 0, "node_rank": 0, "device_id": 0, "result": [2.0] * 4},
            {"rank": 1, "node_rank": 0, "device_id": 1, "result": [2.0] * 4},
        ],
        "findings": [],
    }
    assert (done.status, bad["ok"], bad["ranks"]) == (1, False, [])
    assert [found["rank"] for found in bad["findings"]] == [1]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("late:1=60", "rank 1 did not join .* within 4 s"),
        ("hang:1", "rank 1 did not reach all_reduce .*, within 4 s"),
        ("hang:1@2", "rank 1 did not reach all_reduce .* collective 2 .*, within 4 s"),
        ("die:1@2", "rank 1 ended"),
    ],
)
def test_fault_ends_the_run_with_a_sentence_that_names_the_rank(
    fault: str, said: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", ADD_UP)
    begin = time.monotonic()
    done = simulate(
        tmp_path, "--nproc", "2", "--timeout", "4", "--fault", fault, "s.py"
    )
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]

    assert done.status == 1
    assert re.search(said, errors[0]), done.err
    assert time.monotonic() - begin < 90
    assert left_in(tmp_path) == []


@pytest.mark.torch
def test_late_rank_within_the_timeout_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "s.py", ADD_UP)
    done = simulate(tmp_path, "--nproc", "2", "--fault", "late:1=1", "s.py")

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == [
        "0 tpu:0 [4.0, 4.0]",
        "1 tpu:1 [4.0, 4.0]",
    ]


@pytest.mark.torch
def test_error_fails_the_run_even_if_the_script_catches_it(tmp_path: Path) -> None:
    script = ADD_UP.replace("torch.ones(2)", "torch.ones(2 + rank)")
    caught = "".join(f"    {line}\n" for line in script.splitlines())
    write(tmp_path, "s.py", f"try:\n{caught}except RuntimeError:\n    pass\n")
    done = simulate(tmp_path, "--nproc", "2", "s.py")

    assert done.status == 1
    assert "error: in collective 1" in done.err
    assert "Traceback" not in done.err


@pytest.mark.torch
def test_script_that_starts_its_ranks_itself_is_started_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        "s.py",
        """
import os, sys
import torch, torch_tpu
import torch.distributed as dist
import torch.multiprocessing as mp

def add_up(rank, chip_map, store, options=None):
    dist.init_process_group("sccl", init_method=store, rank=rank, world_size=2,
                            pg_options=options)
    tensor = torch.ones(1).to(f"tpu:{chip_map[rank]}")
    dist.all_reduce(tensor)
    sys.stdout.write(f"{rank} {tensor.device} {tensor.tolist()}\\n")
    dist.destroy_process_group()

def work(rank, port):
    chip_map = torch_tpu.tpu.read_rank_table()
    torch_tpu.tpu.set_device(chip_map[rank])
    options = torch_tpu.ProcessGroupSCCLOptions()
    options.chip_map = chip_map
    add_up(rank, chip_map, f"file://{os.getcwd()}/store", options)
    add_up(rank, chip_map, f"tcp://127.0.0.1:{port}")

if __name__ == "__main__":
    assert "RANK" not in os.environ
    mp.spawn(work, (int(sys.argv[1]),), nprocs=2)
""",
    )
    dump(make_table([[3, 1]]), tmp_path / "t.json")
    options = ["--rank-table", "t.json", "--once", "s.py"]
    done = simulate_afresh(tmp_path, *options, str(free_port()))

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == [
        *["0 tpu:3 [2.0]"] * 2,
        *["1 tpu:1 [2.0]"] * 2,
    ]
    assert left_in(tmp_path) == []


OWN_RANKS = """
import os, subprocess, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def join(rank, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    sys.stdout.write(f"{rank} {tensor.item()}\\n")

if __name__ == "__main__":
    how, port, *rank = sys.argv[1:]
    if rank:
        join(int(rank[0]), port)
    elif how == "command":
        command = [sys.executable, *sys.argv]
        started = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
        [each.wait() for each in started]
    else:
        own = os.environ.get("RANK")
        ranks = [int(own)] if how == "helpers" else range(2)
        mp.set_start_method("fork" if how == "fork" else "spawn")
        started = [mp.Process(target=join, args=(rank, port)) for rank in ranks]
        [each.start() for each in started]
        [each.join() for each in started]
"""


@pytest.mark.torch
@pytest.mark.deadline
@pytest.mark.parametrize("how", ["spawn", "fork", "command"])
def test_script_that_starts_its_ranks_itself_is_told_of_once(
    how: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", OWN_RANKS)
    done = simulate_afresh(tmp_path, "--nproc", "2", "s.py", how, str(free_port()))

    assert done.status == 1
    told = [line for line in done.err.splitlines() if line.startswith("error: ")]
    # One process of each pair is refused, perhaps not both of the same rank.
    why = "ranks have started processes that make the same process group; give --once"
    assert any(why in line for line in told), done.err


IN_ORDER = """
import os, sys, time
from datetime import timedelta
import torch.distributed as dist
import torch.multiprocessing as mp

def await_file(name):
    while not os.path.exists(name):
        time.sleep(0.01)

def join(rank, port, until):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    limit = timedelta(seconds=5)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=limit)
    dist.barrier()
    await_file(until)

def begin(rank, port, until):
    started = mp.Process(target=join, args=(rank, port, until))
    started.start()
    return started

if __name__ == "__main__":
    port, staying, until, after = sys.argv[1:]
    mp.set_start_method("fork")
    if os.environ["RANK"] == "0":
        staying = int(staying)
        first = [begin(r, port, until if r == staying else "s.py") for r in range(2)]
        first[1 - staying].join()
        open("one", "w").close()
        first[staying].join()
        open("all", "w").close()
    else:
        await_file("one")
        for rank in range(2):
            begin(rank, port, "s.py").join()
            open(f"second{rank}", "w").close()
            await_file(after)
"""
"""Processes of rank 0 make a group, and one of them ends before those of rank 1 start.

The other one stays until a file is there. So does rank 1 between its two processes.
"""


@pytest.mark.torch
@pytest.mark.parametrize("staying", ["0", "1"])
@pytest.mark.parametrize("until", ["second0", "second1"])
def test_processes_of_a_rank_that_comes_late_are_all_refused(
    staying: str, until: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", IN_ORDER)
    after = "all" if until == "second0" else "one"
    arguments = ["s.py", str(free_port()), staying, until, after]
    done = simulate(tmp_path, "--nproc", "2", *arguments)

    assert done.status == 1
    assert done.err.count("SimulationError: several ranks have started") == 2, done.err
    assert "torch.distributed.Dist" not in done.err


TAKING_TURNS = IN_ORDER.replace(
    'await_file("one")\n        for rank in range(2):',
    'await_file("all")\n        for rank in ():',
) + (
    "        second = [begin(rank, port, 's.py') for rank in range(2)]\n"
    "        [each.join() for each in second]\n"
    "        sys.exit(sum(each.exitcode for each in second))\n"
)


@pytest.mark.torch
def test_ranks_may_take_turns_with_one_port(tmp_path: Path) -> None:
    write(tmp_path, "s.py", TAKING_TURNS)
    arguments = ["s.py", str(free_port()), "0", "s.py", "s.py"]
    done = simulate(tmp_path, "--nproc", "2", *arguments)

    assert done.status == 0, done.err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "how"),
    [
        (["--nproc", "2", "--once"], "spawn"),
        (["--nproc", "1"], "spawn"),
        (["--nproc", "2"], "helpers"),
    ],
)
def test_processes_of_ranks_that_do_not_clash_make_a_group(
    options: list[str], how: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", OWN_RANKS)
    (tmp_path / "site").mkdir()
    write(tmp_path, "site/sitecustomize.py", "import sys; sys.stdout.write('own ')")
    arguments = [*options, "s.py", how, str(free_port())]
    done = simulate_afresh(tmp_path, *arguments, PYTHONPATH=str(tmp_path / "site"))

    assert done.status == 0, done.err
    assert {"0 2.0", "1 2.0"} <= set(done.out.replace("own ", "").splitlines())
    assert done.out.count("own ") > 1


@pytest.mark.torch
def test_job_that_torchrun_restarts_until_it_succeeds_has_succeeded(
    tmp_path: Path,
) -> None:
    write(tmp_path, "s.py", ADD_UP)
    write(
        tmp_path,
        "elastic.py",
        "import subprocess, sys\n"
        "run = [sys.executable, '-m', 'torch.distributed.run', '--nproc-per-node', '2']"
        "\nrun += ['--standalone', '--max-restarts', '2', 's.py']\n"
        "sys.exit(subprocess.run(run).returncode)\n",
    )
    options = ["--nproc", "2", "--once", "--fault", "die:1@2", "--timeout", "30"]
    done = simulate_afresh(tmp_path, *options, "elastic.py")

    assert done.status == 0, done.err
    assert "error: " not in done.err
    assert sorted(done.out.splitlines()) == [
        "0 tpu:0 [4.0, 4.0]",
        "1 tpu:1 [4.0, 4.0]",
    ]


@pytest.mark.torch
def test_launcher_without_room_names_the_folder(tmp_path: Path) -> None:
    limited = "import resource, sys\n"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
    limited += "from ranktable.cli import main\nsys.argv = ['ranktable', 'simulate']\n"
    done = run_python("-c", limited + "main()", env=environment(tmp_path))

    assert done.status == 2
    assert str(tmp_path / "tmp" / "ranktable-simulate-") in done.err, done.err
    assert "Traceback" not in done.err


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


BESIDE_A_LISTENER = """
import sys
import torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + sys.argv[1],
                        rank=0, world_size=1)
"""


@pytest.mark.torch
def test_a_program_on_the_port_of_the_script_is_no_store(tmp_path: Path) -> None:
    write(tmp_path, "s.py", BESIDE_A_LISTENER)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        arguments = ["--nproc", "1", "--timeout", "20", "s.py", port]
        done = simulate_afresh(tmp_path, *arguments)

    assert done.status == 1
    assert "EADDRINUSE" in done.err


FORK_OF_GLOO = """
import os, sys
import torch.distributed as dist
import torch_tpu
group = dist.init_process_group("cpu:gloo,tpu:sccl")
child = os.fork()
if child == 0:
    sys.exit(0)
print("child", os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.torch
def test_a_fork_of_a_rank_with_gloo_ends(tmp_path: Path) -> None:
    write(tmp_path, "s.py", FORK_OF_GLOO)
    done = simulate_afresh(tmp_path, "--nproc", "1", "--timeout", "30", "s.py")

    assert (done.status, "child 0" in done.out) == (0, True), done.err
