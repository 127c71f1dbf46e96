"""A script that starts its ranks itself."""

import json
import sys

import torch
import torch.distributed as dist
import torch_tpu
from torch.multiprocessing.spawn import spawn


def train(rank: int, world_size: int, port: str) -> None:
    chip_map = torch_tpu.tpu.read_rank_table()
    torch_tpu.tpu.set_device(chip_map[rank])
    dist.init_process_group(
        "sccl",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=world_size,
    )
    tensor = torch.ones(2, device="tpu")
    dist.all_reduce(tensor)
    said = json.dumps([rank, tensor.device.index, tensor.tolist()])
    sys.stdout.write(said + "\n")


if __name__ == "__main__":
    spawn(train, (2, sys.argv[1]), nprocs=2)  # type: ignore[no-untyped-call]
