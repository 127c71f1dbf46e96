"""SOPHGO's torch_tpu, simulated: chips and SCCL on the CPU.

Only a run of ``ranktable simulate`` can import it. Names and behaviour are those of
sophgo/torch-tpu at fe9b478b (2025-12-09). Defects of the vendor's code are repaired
here.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

# First of all: it refuses an import outside a simulated run.
from torch_tpu import _run  # isort: skip

from ranktable.simulate.backend.joining import start
from ranktable.simulate.simulation_error import NeedsChip
from torch_tpu import local_ranks, refused, tpu
from torch_tpu.sccl_options import ProcessGroupSCCLOptions, chip_map_of

__all__ = [
    "CallCppDynLib",
    "ProcessGroupSCCLOptions",
    "arch",
    "jit",
    "lib_pwd",
    "print_all_torch_tpu_envs",
    "tpu",
    "tpu_format_cast",
    "utils",
]

arch = os.environ.setdefault("CHIP_ARCH", "sg2260")
"""The architecture of the chip: one of the two that SCCL supports."""

lib_pwd = str(Path(__file__).parent / "lib")
"""The vendor's folder of libraries; here it does not exist."""


def print_all_torch_tpu_envs() -> None:
    """Print the variables that torch_tpu reads."""
    for name in ("CHIP_ARCH", "CHIP_MAP", "RANK_TABLE_FILE", "TPU_GROUP_IDX"):
        print(f"{name}={os.environ.get(name, '')}")  # noqa: T201 - that is its purpose


__simulated__ = True
CallCppDynLib = NeedsChip("torch_tpu.CallCppDynLib", "calls code compiled for a chip")
tpu_format_cast = NeedsChip("torch_tpu.tpu_format_cast", "lays tensors out for a chip")

start(
    _run.FOLDER,
    _run.RUN,
    module=tpu,
    selected_chip=local_ranks.selected_chip,
    chip_map=chip_map_of,
)
refused.refuse()
# All are among the refused; but the options of a group are in the first.
_C, jit, utils = (
    importlib.import_module(f"torch_tpu.{name}") for name in ("_C", "jit", "utils")
)
setattr(_C, "ProcessGroupSCCLOptions", ProcessGroupSCCLOptions)  # noqa: B010 - mypy sees a module
