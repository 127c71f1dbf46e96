"""Ascend's torch_npu, simulated: chips and HCCL on the CPU.

Only a run of ``ranktable simulate`` can import it. It is for tests of the start of a
job: device, process group, collectives. It has none of Ascend's own operators.
"""

from __future__ import annotations

import os

from ranktable.simulate.simulated_run import current_run

# First of all: it refuses an import outside a simulated run.
_FOLDER, _RUN = current_run(os.environ)

from ranktable.simulate.backend.joining import start  # noqa: E402 - after the refusal
from ranktable.simulate.simulation_error import NeedsChip  # noqa: E402
from torch_npu import npu  # noqa: E402

__all__ = ["npu"]

__simulated__ = True


def __getattr__(name: str) -> NeedsChip:
    """Return something that raises when it is used, for Ascend's own operators."""
    if name.startswith("npu_"):
        return NeedsChip(f"torch_npu.{name}", "is an operator of its own")
    raise AttributeError(f"the simulated torch_npu has no {name!r}")


start(
    _FOLDER,
    _RUN,
    module=npu,
    selected_chip=npu.selected_chip,
    chip_map=lambda *_: (),  # HCCL finds the chips by its own rank table
)
