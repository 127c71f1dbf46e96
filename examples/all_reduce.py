"""The founding example: every chip contributes ones, every rank gets their sum.

export RANK_TABLE_FILE=sccl_rank_table.json
ranktable gen --device-id '[[3,1,0,2,7,6,5,4]]'
torchrun --nproc-per-node 8 examples/all_reduce.py
"""

import sys

import torch
import torch.distributed as dist

from ranktable.runtime import init_process_group

TENSOR_LENGTH = 4

with init_process_group() as job:
    tensor = torch.ones(TENSOR_LENGTH, device=job.device)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    values = ", ".join(f"{value:g}." for value in tensor.cpu().tolist())
    # One write a line, so that the lines of eight processes do not mix.
    sys.stdout.write(f"rank {job.rank}: chip {job.device_id}: [{values}]\n")
