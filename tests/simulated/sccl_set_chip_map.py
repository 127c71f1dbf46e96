"""The other script of SOPHGO's manual: ``set_chip_map`` and local ranks."""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch_tpu

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
options = torch_tpu.ProcessGroupSCCLOptions()
torch_tpu.tpu.set_chip_map(options, use_rank_table=False)
torch_tpu.tpu.set_device(rank)
device = torch.device(f"tpu:{rank}")
assert device.index == torch_tpu.tpu.current_device() == options.chip_map[rank]
assert isinstance(device, torch.device)
dist.init_process_group(
    backend="sccl", rank=rank, world_size=world_size, pg_options=options
)
tensor = torch.ones(2).to(device)
dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
sys.stdout.write(json.dumps([rank, str(device), tensor.cpu().tolist()]) + "\n")
