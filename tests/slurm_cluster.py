"""A Slurm of two nodes on this machine, for as long as the tests run.

The nodes are named ``127.0.0.1`` and ``127.0.0.2``: the whole of 127/8 is the loopback
interface, so that the host lists that Slurm writes (``127.0.0.[1-2]``) name hosts that
can be reached, without a name server and without a line in /etc/hosts. All daemons
belong to the user of the tests, keep their files in one folder, and end with the
process that started them.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.commands import DEVNULL, Started, start_process, wait_at_most
from tests.ranks import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch")
NODES = ("127.0.0.1", "127.0.0.2")
START_S = 30
STOP_S = 10
PAUSE_S = 0.05

# Two CPUs a node whatever the machine has. proctrack/pgid and task/none need no
# cgroups and no root. Only the backfill scheduler starts jobs of several components.
CONFIGURATION = """\
ClusterName=ranktable
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,batch_sched_delay=0
ReturnToService=2
KillWait=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeAddr={name} NodeHostname=localhost Port={port} CPUs=2\n"


def find_program(name: str) -> str | None:
    """Return the path of a program; daemons are not on every user's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def slurm_cluster(more: str = "") -> Iterator[Mapping[str, str]]:
    """Start the cluster and give the variables that its commands need.

    Args:
        more: More lines of slurm.conf.

    Raises:
        RuntimeError: It did not start within 30 s; the message has the daemons' logs.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="ranktable-slurm-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o711)  # munged wants its socket reachable by everyone
        env = {**os.environ, "SLURM_CONF": str(_configure(folder, more))}
        socket_file, key = folder / "munge.socket", folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(64))

        def start(log: str, *command: str) -> Started:
            daemon = _start(folder / f"{log}.log", env, *command)
            stack.callback(_end, daemon)
            return daemon

        files = (
            f"--{name}-file=munge.{name}" for name in ("key", "log", "pid", "seed")
        )
        # --force: the folder may lie in one that munged would not trust.
        munged = ("munged", "--foreground", "--force", f"--socket={socket_file}")
        daemons = [start("munged", *munged, *files)]
        _wait_until(socket_file.exists, daemons, folder)
        # -i: there is no state of an earlier run to read.
        daemons.append(start("slurmctld", "slurmctld", "-D", "-i"))
        daemons += [start(name, "slurmd", "-D", "-N", name) for name in NODES]
        _wait_until(lambda: _are_idle(env), daemons, folder)
        stack.callback(_end_jobs, env)
        yield {"SLURM_CONF": env["SLURM_CONF"]}


def _configure(folder: Path, more: str) -> Path:
    port, *node_ports = [free_port() for _ in range(1 + len(NODES))]
    user = pwd.getpwuid(os.getuid()).pw_name
    nodes = [
        NODE.format(name=name, port=node_port)
        for name, node_port in zip(NODES, node_ports, strict=True)
    ]
    for name in ("state", *NODES):
        (folder / name).mkdir()
    path = folder / "slurm.conf"
    head = CONFIGURATION.format(folder=folder, port=port, user=user)
    path.write_text(head + more + "".join(nodes), encoding="utf-8")
    return path


def _start(log: Path, env: Mapping[str, str], name: str, *options: str) -> Started:
    """Start a daemon that writes to a log and ends at the latest with this process."""
    program = find_program(name)
    assert program is not None
    with log.open("wb") as file:
        return start_process(
            ["setpriv", "--pdeathsig", "TERM", program, *options],
            out=file,
            err=file,
            env=env,
            cwd=log.parent,
            leads_session=True,  # an interrupt from the keyboard is for the tests
        )


def _end(daemon: Started) -> None:
    daemon.terminate()
    if not wait_at_most(daemon, STOP_S):
        daemon.kill()
        daemon.wait()


def _ask(env: Mapping[str, str], *command: str) -> str:
    """Return what a command of Slurm prints, nothing if it gets no answer."""
    asked = start_process(command, pipes=["stdout"], err=DEVNULL, env=env)
    with asked:
        if not wait_at_most(asked, STOP_S):
            asked.kill()
            return ""
        assert asked.stdout is not None
        return asked.stdout.read()


def _are_idle(env: Mapping[str, str]) -> bool:
    states = _ask(env, "sinfo", "--noheader", "--Node", "--format=%N %t").splitlines()
    return states == [f"{name} idle" for name in NODES]


def _end_jobs(env: Mapping[str, str]) -> None:
    """Cancel what a failed test left running, and wait for its processes to end."""
    user = f"--user={pwd.getpwuid(os.getuid()).pw_name}"
    _ask(env, "scancel", user)
    end = time.monotonic() + STOP_S
    while _ask(env, "squeue", "--noheader", user) and time.monotonic() < end:
        time.sleep(PAUSE_S)


def _wait_until(
    is_so: Callable[[], bool], daemons: list[Started], folder: Path
) -> None:
    end = time.monotonic() + START_S
    while not is_so():
        ended = [daemon for daemon in daemons if daemon.poll() is not None]
        if ended or time.monotonic() > end:
            logs = "".join(
                f"\n== {log.name}\n{log.read_text(errors='replace')}"
                for log in sorted(folder.glob("*.log"))
            )
            why = "a daemon ended" if ended else f"not ready after {START_S} s"
            raise RuntimeError(f"Slurm did not start: {why}{logs}")
        time.sleep(PAUSE_S)
