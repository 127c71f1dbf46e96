"""The process that starts the ranks of a run: it imports torch once and forks.

A forked rank shares the memory of torch's code, and does not need a second to import
it. A rank has the variables of torchrun, and the run ends like that of torchrun: the
first rank that fails ends the others.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import gc
import os
import runpy
import signal
import sys
import time
import weakref
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from ranktable.simulate.simulated_run import RANK_PROCESS, RUN_ID, leave

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_PR_SET_PDEATHSIG = 1  # Linux: prctl(2)
_SIGNALLED = 128  # plus the number of the signal, as in shells
_OTHERS_S = 1.0
"""Time for the other ranks to report what they have seen, after one has failed."""
_GRACE_S = 2.0
"""Time to end after a signal."""
_POLL_S = 0.01
_JOB, _FAILURE = "job.json", "failed.json"


class RankJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to start.

    Attributes:
        node_sizes: Ranks of each node.
        script: A script, or the name of a module.
        arguments: The arguments of the script.
        is_module: Whether the script is a module.
        keeps_output: Whether the output of ranks goes to files.
        port: Port of the ranks' store.
    """

    node_sizes: tuple[int, ...]
    script: str
    arguments: tuple[str, ...]
    is_module: bool
    keeps_output: bool
    port: int


class RankFailure(msgspec.Struct, frozen=True, kw_only=True):
    """How the first failed rank has ended.

    Attributes:
        rank: Its global rank.
        status: Its exit status; if negative, the signal that ended it.
    """

    rank: int
    status: int


class _ToldError(BaseException):
    """A signal was received."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def write_job(folder: Path, job: RankJob) -> list[str]:
    """Write a job into the folder of its run, and return the command that runs it."""
    (folder / _JOB).write_bytes(msgspec.json.encode(job))
    return [sys.executable, "-u", "-m", __name__, str(folder)]


def read_failure(folder: Path) -> RankFailure | None:
    """Return how the first failed rank has ended, None if none has failed."""
    path = folder / _FAILURE
    if not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=RankFailure)


def output_of(folder: Path, rank: int) -> Path:
    """Return the file for what a rank prints to standard output."""
    return folder / f"output-{rank}"


def main() -> None:
    """Start the ranks of a job; in the process of a rank, run the rank."""
    # If the launcher is killed, this process ends its ranks and itself.
    _die_with_parent(signal.SIGTERM)
    folder = Path(sys.argv[1])
    job = msgspec.json.decode((folder / _JOB).read_bytes(), type=RankJob)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _tell)
    ranks: dict[int, int] = {}
    try:
        _import_torch()
        for variables in _variables(job):
            rank = int(variables["RANK"])
            pid = os.fork()
            if pid == 0:
                break
            ranks[pid] = rank
        else:
            sys.exit(_wait(ranks, job, folder))
    except _ToldError as told:
        _end(ranks, told.signum)
        sys.exit(_SIGNALLED + told.signum)
    _become_rank(variables, job, folder)
    _run_script(job)


def _tell(signum: int, _frame: FrameType | None) -> NoReturn:
    raise _ToldError(signum)


def _die_with_parent(signum: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)


def _import_torch() -> None:
    kept: dict[str, ModuleType] = {}
    # Before all others, so it is called after them, when the script has ended.
    atexit.register(lambda: sys.modules.update(dict.fromkeys(kept)))  # type: ignore[arg-type]  # None: as Python does

    import ranktable.simulate.backend.group  # noqa: F401 - ranks need it
    from ranktable.simulate import child_groups
    from ranktable.simulate.device import kernels

    child_groups.install()

    finalizers: Any = weakref.finalize
    for finalizer in finalizers._registry:
        finalizer.atexit = False
    kernels.register()  # it writes to 40 MiB, which a rank would have of its own

    # Objects that exist now are never collected, so their memory stays shared.
    gc.collect()
    gc.freeze()
    kept.update(
        (name, module)
        for name, module in sys.modules.items()
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "__main__"}
    )
    _leave_alone_at_exit(kept)


def _leave_alone_at_exit(modules: dict[str, ModuleType]) -> None:
    """Let a rank end without taking apart what is imported before it is forked.

    Python takes all objects apart, and C++ the tables of torch's operators. This writes
    to 80 MiB that the ranks share. What the script makes ends as usual.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(modules))
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # of glibc; called in the opposite order
        libc.on_exit(libc._exit, None)
        libc["__cxa_atexit"](libc.fflush, None, None)


def _variables(job: RankJob) -> Iterator[dict[str, str]]:
    """Yield the variables of each rank."""
    rank, world_size = 0, sum(job.node_sizes)
    for node, size in enumerate(job.node_sizes):
        for local_rank in range(size):
            numbers = {
                "RANK": rank,
                "WORLD_SIZE": world_size,
                "LOCAL_RANK": local_rank,
                "LOCAL_WORLD_SIZE": size,
                "GROUP_RANK": node,
                "GROUP_WORLD_SIZE": len(job.node_sizes),
                "ROLE_RANK": rank,
                "ROLE_WORLD_SIZE": world_size,
                "TORCHELASTIC_RESTART_COUNT": 0,
                "TORCHELASTIC_MAX_RESTARTS": 0,
                "MASTER_PORT": job.port,
            }
            yield {
                **{name: str(number) for name, number in numbers.items()},
                "MASTER_ADDR": "127.0.0.1",
                "ROLE_NAME": "default",
                "TORCHELASTIC_RUN_ID": RUN_ID,
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            rank += 1


def _wait(ranks: dict[int, int], job: RankJob, folder: Path) -> int:
    """Wait until all ranks have ended, and return the exit status."""
    from datetime import timedelta

    from torch._C._distributed_c10d import TCPStore

    # After the forks, because it has a thread. Ranks try until the store is there.
    store = TCPStore(
        "127.0.0.1",
        job.port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(minutes=1),
    )
    while ranks:
        pid, ended = os.waitpid(-1, 0)
        status = os.waitstatus_to_exitcode(ended)
        rank = ranks.pop(pid, None)
        if rank is not None and status:
            failure = RankFailure(rank=rank, status=status)
            leave(folder / _FAILURE, failure)
            _reap(ranks, _OTHERS_S)
            _end(ranks, signal.SIGTERM)
            return 1
    del store
    return 0


def _end(ranks: dict[int, int], signum: int) -> None:
    """End ranks: by the signal, and after a while by force."""
    _signal(ranks, signum)
    _reap(ranks, _GRACE_S)
    _signal(ranks, signal.SIGKILL)


def _signal(ranks: dict[int, int], signum: int) -> None:
    for pid in ranks:  # not yet waited for, so the process id is still theirs
        os.kill(pid, signum)


def _reap(ranks: dict[int, int], time_s: float) -> None:
    """Wait for ranks for a time."""
    end = time.monotonic() + time_s
    while ranks and time.monotonic() < end:
        pid, _ = os.waitpid(-1, os.WNOHANG)
        ranks.pop(pid, None)
        if not pid:
            time.sleep(_POLL_S)


def _become_rank(variables: dict[str, str], job: RankJob, folder: Path) -> None:
    """Make this process a rank as torchrun would start it."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _die_with_parent(signal.SIGKILL)
    os.setsid()
    os.environ.update(variables)
    os.environ[RANK_PROCESS] = f"{os.getpid()}:{job.port}"
    # Otherwise the random numbers would be the same on all ranks.
    sys.modules["torch"].default_generator.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    rank = int(variables["RANK"])
    if job.keeps_output:
        file = os.open(output_of(folder, rank), os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, sys.stdout.fileno())
        os.close(file)


def _run_script(job: RankJob) -> None:
    """Run the script as ``python SCRIPT`` does, or ``python -m MODULE``."""
    main_module = ModuleType("__main__")
    sys.modules["__main__"] = main_module
    sys.argv = [job.script, *job.arguments]
    sys.path[0] = str(Path(job.script).resolve().parent)
    try:
        if job.is_module:
            sys.path[0] = str(Path.cwd())
            runpy._run_module_as_main(job.script)  # type: ignore[attr-defined]
        else:
            main_module.__dict__.update(__file__=job.script, __builtins__=builtins)
            code = compile(Path(job.script).read_bytes(), job.script, "exec")
            exec(code, main_module.__dict__)  # noqa: S102 - the user's script
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the script's own
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
            trace = trace.tb_next  # readers need the lines of the script
        error.__traceback__ = trace  # Python prints this traceback
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        sys.excepthook(type(error), error, trace)
        is_told = isinstance(error, KeyboardInterrupt)
        sys.exit(_SIGNALLED + signal.SIGINT if is_told else 1)


_OWN_FILES = (__file__, "<frozen runpy>", runpy.__file__)


if __name__ == "__main__":
    main()
