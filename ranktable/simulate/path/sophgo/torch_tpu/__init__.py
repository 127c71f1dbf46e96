"""SOPHGO's torch_tpu, simulated: chips whose memory is the CPU's, SCCL over gloo.

It can be imported in a run of ``ranktable simulate`` only. Names and behaviour are
those of sophgo/torch-tpu at fe9b478b (2025-12-09). What the vendor's code gets wrong is
repaired here, unless the run is strict.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

# First of all: it refuses to be imported anywhere else.
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
    "utils",
]

arch = os.environ.setdefault("CHIP_ARCH", "sg2260")
"""The chip: one of the two that SCCL drives."""

lib_pwd = str(Path(__file__).parent / "lib")
"""Where the vendor keeps its libraries; there are none here."""


def print_all_torch_tpu_envs() -> None:
    """Print the variables that torch_tpu reads."""
    for name in ("CHIP_ARCH", "CHIP_MAP", "RANK_TABLE_FILE", "TPU_GROUP_IDX"):
        print(f"{name}={os.environ.get(name, '')}")  # noqa: T201 - that is its purpose


__simulated__ = True
__profile__ = _run.RUN.profile  # by which ranktable.dist chooses its table
CallCppDynLib = NeedsChip("torch_tpu.CallCppDynLib", "calls code compiled for a chip")

start(
    _run.FOLDER,
    _run.RUN,
    module=tpu,
    selected_chip=local_ranks.selected_chip,
    chip_map=chip_map_of,
)
local_ranks.put_in_place()
refused.refuse()
# All are among the refused; but the options of a group are in the first.
_C, jit, utils = (
    importlib.import_module(f"torch_tpu.{name}") for name in ("_C", "jit", "utils")
)
setattr(_C, "ProcessGroupSCCLOptions", ProcessGroupSCCLOptions)  # noqa: B010 - mypy sees a module
