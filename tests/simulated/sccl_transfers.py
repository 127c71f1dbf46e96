"""Many transfers and groups of two ranks, and the size of the folder of the run."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch_tpu

TRANSFERS = 100
GROUPS = 3

rank = int(os.environ["RANK"])
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(options.chip_map[rank])
dist.init_process_group("sccl", pg_options=options)
tensor = torch.ones(2, device="tpu")


def size_after_transfers() -> int:
    for _ in range(TRANSFERS):
        if rank == 0:
            dist.send(tensor, 1)
        else:
            dist.recv(tensor, 0)
    for _ in range(GROUPS):
        group = dist.new_group([0, 1])
        dist.all_reduce(torch.ones(1000, device="tpu"), group=group)
        dist.destroy_process_group(group)
    dist.barrier()
    folder = Path(os.environ["RANKTABLE_SIMULATE"])
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    dist.barrier()
    return size


# A fork that ends does not leave the group of the rank.
fork = os.fork()
if fork == 0:
    sys.exit(0)
os.waitpid(fork, 0)
dist.barrier()
sizes = [size_after_transfers(), size_after_transfers()]

# The names of groups begin again, but the store has the keys of those before.
for members in ([0], [0, 1]):
    dist.destroy_process_group()
    dist.init_process_group("sccl", pg_options=options)
    dist.new_group(members)
sys.stdout.write(json.dumps([rank, *sizes]) + "\n")
