"""Mistakes that real chips do not tell: each is told to every rank, by rank."""

import json
import os
import sys
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
import torch_tpu

rank = int(os.environ["RANK"])
chip_map = [3, 1, 0]
device = torch.device(f"tpu:{chip_map[rank]}")
told: dict[str, str] = {}


def ones(count: int = 4, chip: int | None = None) -> torch.Tensor:
    return torch.ones(count, device=device if chip is None else f"tpu:{chip}")


def options(chips: Sequence[int]) -> torch_tpu.ProcessGroupSCCLOptions:
    made = torch_tpu.ProcessGroupSCCLOptions()
    made.chip_map = chips
    return made


def tell(name: str, call: Callable[[], object]) -> None:
    try:
        call()
    except RuntimeError as error:
        told[name] = f"{type(error).__name__}: {error}"


def join(name: str, chips: Sequence[int]) -> None:
    tell(name, lambda: dist.init_process_group("sccl", pg_options=options(chips)))
    if dist.is_initialized():
        dist.destroy_process_group()


join("maps differ", [0, 1, 3] if rank == 1 else chip_map)
join("shared chip", [3, 1, 1])
join("absent chip", [3, 1, 9])
join("short map", [3, 1])
torch_tpu.tpu.set_device(chip_map[min(rank, 1)])
join("other chip selected", chip_map)
torch_tpu.tpu.set_device(chip_map[rank])
join("no ring", chip_map)  # a warning only

dist.init_process_group("sccl", pg_options=options(chip_map))
if rank:  # the map of the world for ranks 1 and 2: the chips of ranks 0 and 1
    tell("sub-group", lambda: dist.new_group([1, 2], pg_options=options(chip_map)))
else:
    dist.new_group([1, 2])
tell("other size", lambda: dist.all_reduce(ones(4 + (rank == 2))))
tell(
    "other operation",
    dist.barrier if rank == 0 else lambda: dist.all_reduce(ones()),
)
tell("other root", lambda: dist.broadcast(ones(), min(rank, 1)))
tensor = ones()
dist.all_reduce(tensor)  # the group can go on
assert tensor.tolist() == [3.0] * 4
if rank == 1:
    tell("barrier", lambda: dist.barrier(device_ids=[chip_map[0]]))
pair = dist.new_group([0, 1])
if rank == 0:
    tell("other tensor", lambda: dist.send(ones(5), 1, group=pair))
elif rank == 1:
    tell("other tensor", lambda: dist.recv(ones(4), 0, group=pair))
if rank == 2:
    tell("other chip", lambda: dist.all_reduce(ones(chip=3)))
    raise SystemExit(0)  # and so it does not come to what the others do
tell("gone", dist.barrier)
sys.stdout.write(json.dumps([rank, told]) + "\n")
