"""Runs ``ranktable simulate`` as an installed command, and tells what it has left."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.commands import run_process, torch_environment, with_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Outcome


TIMEOUT_S = 100


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
