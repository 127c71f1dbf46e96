"""SOPHGO's torch_tpu, simulated: chips whose memory is the CPU's, SCCL over gloo.

It can be imported in a run of ``ranktable simulate`` only. Names and behaviour are
those of sophgo/torch-tpu at fe9b478b (2025-12-09). What the vendor's code gets wrong is
repaired here, unless the run is strict.
"""

from __future__ import annotations

import sys
from types import ModuleType

# First of all: it refuses to be imported anywhere else.
from torch_tpu import _run  # isort: skip

from ranktable.simulate.backend.joining import start
from ranktable.simulate.needs_chip import NeedsChip
from torch_tpu import local_ranks, refused, tpu
from torch_tpu.sccl_options import ProcessGroupSCCLOptions, chip_map_of
from torch_tpu.variables import arch, lib_pwd, print_all_torch_tpu_envs

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

# What the vendor has in these compiles for a chip.
jit, utils = (
    sys.modules.setdefault(f"torch_tpu.{name}", ModuleType(f"torch_tpu.{name}"))
    for name in ("jit", "utils")
)

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
