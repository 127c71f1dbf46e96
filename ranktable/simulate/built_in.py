"""The built-in script, for a run without one: every chip contributes ones.

It does the same as the script of SOPHGO's manual. Only ranks run it:
``python -m ranktable.simulate.built_in FOLDER``.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from ranktable.simulate.add_up import TENSOR_LENGTH, Contribution
from ranktable.simulate.simulated_run import leave
from ranktable.simulate.simulation_error import SimulationError


def main() -> None:
    """Join the group, add up, and leave the result in the folder."""
    rank = int(os.environ["RANK"])
    try:
        found = _add_up(rank, _join(rank, int(os.environ["WORLD_SIZE"])))
    except SimulationError:
        sys.exit(1)  # the error is reported already, and the launcher prints it
    leave(Path(sys.argv[1]) / f"{rank}.json", found)


def _join(rank: int, world_size: int) -> str:
    """Join as in the manual, and return the device."""
    torch_tpu = importlib.import_module("torch_tpu")
    chip_map = torch_tpu.tpu.read_rank_table()
    torch_tpu.tpu.set_device(chip_map[rank])
    options = torch_tpu.ProcessGroupSCCLOptions()
    options.chip_map = chip_map
    dist.init_process_group(
        backend="sccl", rank=rank, world_size=world_size, pg_options=options
    )
    return f"tpu:{chip_map[rank]}"


def _add_up(rank: int, device: str) -> Contribution:
    tensor = torch.ones(TENSOR_LENGTH).to(device)
    dist.all_reduce(tensor.clone())  # the first one makes the connections
    start = time.perf_counter()
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    result = tensor.cpu().tolist()
    return Contribution(
        rank=rank,
        node_rank=int(os.environ["GROUP_RANK"]),
        device_id=tensor.device.index,
        result=result,
        time_s=time.perf_counter() - start,
    )


if __name__ == "__main__":
    main()
