"""How a simulated run ends: its scripts as in Python, and nothing is left behind."""

from __future__ import annotations

import gzip
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.commands import (
    clean_environment,
    run_python,
    start_process,
    torch_environment,
)
from tests.simulate_command import (
    TIMEOUT_S,
    command,
    environment,
    forked,
    left_in,
    simulate,
    simulate_afresh,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.commands import Started


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
