"""What shows that Slurm or Ray gave each process chips of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PER_TASK = ("SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU")
STEP_CHIPS = "SLURM_STEP_GPUS"


def isolated_by(env: Mapping[str, str]) -> str:
    """Return the variable that shows that each process was given its own chips."""
    for name in PER_TASK:
        if env.get(name):
            return name
    if "gres/gpu" in env.get("SLURM_TRESPER_TASK", ""):
        return "SLURM_TRESPER_TASK"
    if re.search("per_task|single", env.get("SLURM_TRES_BIND", "")):
        return "SLURM_TRES_BIND"
    if step_chip(env) is not None:
        return STEP_CHIPS
    return next((name for name in sorted(env) if name.startswith("RAY_")), "")


def step_chip(env: Mapping[str, str]) -> int | None:
    """Return the chip that Slurm gave to this task alone, None if it gave several."""
    text = env.get(STEP_CHIPS, "")
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else None
