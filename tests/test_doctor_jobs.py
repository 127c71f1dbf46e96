"""``doctor`` on the logs of jobs that really fail here, with gloo and torchrun."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from ranktable.doctor.diagnose import Diagnosis, diagnose
from tests.commands import BIN, run_process, torch_environment
from tests.ranks import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.torch

JOB = """\
import os, resource, signal, sys, time
from datetime import timedelta
import torch
import torch.distributed as dist
how = sys.argv[1]
dist.init_process_group("gloo", timeout=timedelta(seconds=8))
rank = dist.get_rank()
for step in range(4):
    if rank == 1 and step == 2:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stopped":
            signal.raise_signal(signal.SIGSTOP)
        if how == "raising":
            raise ValueError("sample 17 is empty")
        if how == "out of memory":
            used = int(open("/proc/self/statm").read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28),) * 2)
            bytearray(1 << 40)
        if how == "one batch fewer":
            break
        if how == "other shapes":
            dist.all_reduce(torch.ones(5))
            continue
        if how == "another branch":
            dist.broadcast(torch.ones(4), 0)
            continue
        if how == "late":
            time.sleep(100)  # torchrun ends it when the others have given up
    dist.all_reduce(torch.ones(4))
print("done", rank, flush=True)
"""

SIMULATED = """\
import torch, torch_tpu
import torch.distributed as dist
dist.init_process_group("sccl")
torch.tpu.set_device(dist.get_rank())
for step in range(3):
    dist.all_reduce(torch.ones(4 + (dist.get_rank() == OTHER), device="tpu"))
"""


def torchrun() -> list[str]:
    # The real one: only its processes say their ranks in tracebacks.
    return [f"{BIN}/torchrun", "--nproc-per-node=3", f"--master-port={free_port()}"]


def logged(command: Sequence[str], folder: Path) -> Diagnosis:
    """Run a job and judge what it writes."""
    done = run_process(command, env=torch_environment(), cwd=folder)
    assert done.status != 0, done.out
    log = folder / "job.log"
    log.write_text(done.out + done.err)
    return diagnose([str(log)])


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("killed", "RT611"),
        ("another branch", "RT621"),
        *(
            pytest.param(how, code, marks=pytest.mark.slow)
            for how, code in (
                ("stopped", "RT620"),  # torchrun kills it after 30 s
                ("raising", "RT610"),
                ("out of memory", "RT610"),
                ("one batch fewer", "RT620 RT611"),  # it may abort as it leaves
                ("other shapes", "RT621"),
                ("late", "RT620"),
            )
        ),
    ],
)
def test_the_rank_that_fails_under_torchrun_is_named(
    how: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    diagnosis = logged([*torchrun(), "job.py", how], tmp_path)

    (cause,) = diagnosis.causes
    assert cause.rule.code in code.split()
    assert cause.ranks == (1,)


def test_a_second_job_on_the_port_is_told(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import os, socket, torch.distributed as dist\n"
        "taken = socket.create_server(('', int(os.environ['MASTER_PORT'])))\n"
        "dist.init_process_group('gloo')\n"
    )
    env = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    done = run_process(
        [sys.executable, "job.py"], env={**torch_environment(), **env}, cwd=tmp_path
    )
    (tmp_path / "rank0.log").write_text(done.err)

    (cause,) = diagnose([str(tmp_path / "rank0.log")]).causes

    assert (cause.rule.code, cause.ranks) == ("RT605", (0,))
    assert env["MASTER_PORT"] in cause.headline


@pytest.mark.parametrize(
    ("fault", "other", "code"),
    [("die:1@2", 9, "RT620"), ("hang:1@2", 9, "RT620"), ("late:0=0.1", 1, "RT621")],
)
def test_the_rank_that_fails_on_simulated_chips_is_named(
    fault: str, other: int, code: str, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(SIMULATED.replace("OTHER", str(other)))
    command = [f"{BIN}/ranktable", "simulate", "--nproc=3", "--timeout=10"]

    diagnosis = logged([*command, f"--fault={fault}", "job.py"], tmp_path)

    assert [(c.rule.code, c.ranks) for c in diagnosis.causes] == [(code, (1,))]


def test_logs_of_every_rank_in_files_of_their_own_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    done = run_process(
        [*torchrun(), "--redirects=3", "--log-dir=logs", "job.py", "raising"],
        env=torch_environment(),
        cwd=tmp_path,
    )
    (tmp_path / "logs" / "agent.log").write_text(done.err)

    (cause,) = diagnose([str(tmp_path / "logs")]).causes

    assert (cause.rule.code, cause.ranks) == ("RT610", (1,))
    assert os.path.basename(cause.evidence[0].file) == "stderr.log"
