"""DistributedDataParallel in a job that ``ranktable.runtime`` has joined."""

import json
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from ranktable.runtime import init_process_group

with init_process_group("sccl") as job:
    torch.manual_seed(1)
    layer = torch.nn.Linear(3, 1).to(job.device)
    model = DistributedDataParallel(layer, device_ids=job.device_ids)
    model(torch.full((2, 3), float(job.rank))).sum().backward()
    grad = layer.weight.grad
    assert grad is not None
    said = [job.rank, job.device_ids, str(grad.device), grad.flatten().tolist()]
sys.stdout.write(json.dumps(said) + "\n")
