"""Some steps, in which something may go wrong on purpose."""

import os
import sys

import torch
import torch.distributed as dist
import torch_tpu

rank = int(os.environ["RANK"])
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = chip_map
dist.init_process_group("sccl", pg_options=options)
for _ in range(3):
    tensor = torch.ones(4, device="tpu")
    dist.all_reduce(tensor)
sys.stdout.write(f"rank {rank}: {tensor.tolist()}\n")
