"""Vendor code with local ranks, on chips in another order; see the test for results."""

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.tensor as dtensor
import torch_tpu
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.checkpoint import checkpoint

rank = int(os.environ["LOCAL_RANK"])
options = torch_tpu.ProcessGroupSCCLOptions()
torch_tpu.tpu.set_chip_map(options, use_rank_table=False, chip_map=[3, 1, 0, 2])
torch_tpu.tpu.set_device(rank)
device = torch.device(f"tpu:{rank}")
tensor: Any = torch.ones(2)  # torch's types have no method tpu
linear: Any = torch.nn.Linear(2, 2)
forms = {
    "name": device,
    "pair": torch.device("tpu", rank),
    "number": torch.device(rank),
    "method": tensor.tpu(rank).device,
    "module": linear.tpu(rank).weight.device,
    "data parallel": DataParallel(linear, device_ids=[rank]).src_device_obj,
    "of a tensor": torch.device(tensor.to(device).device),
    "copy of it": tensor.to(device).clone().device,
}
chips = {str(each) for each in forms.values()}
twice = {
    str(each)
    for each in (
        tensor.tpu().device,
        tensor.tpu(device).device,
        torch.device("tpu", torch_tpu.tpu.current_device()),
    )
}


def caught(backward: object) -> str:
    try:
        backward.sum().backward()  # type: ignore[attr-defined]
    except ValueError as error:
        return str(error)
    return ""


class Current(torch.autograd.Function):
    """Notes the current chip in backward."""

    seen: tuple[int, str] = (-1, "")

    @staticmethod
    def forward(ctx: object, source: torch.Tensor) -> torch.Tensor:
        del ctx
        return source * 2

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        del ctx
        made = torch.empty(1, device="tpu").device
        Current.seen = (torch_tpu.tpu.current_device(), str(made))
        return grad


def raises(*_: object) -> None:
    raise ValueError("mine")


attempts = 0


def recomputed(source: torch.Tensor) -> torch.Tensor:
    global attempts  # noqa: PLW0603 - counts
    attempts += 1
    if attempts > 1:
        raise ValueError("again")
    return source * source


leaf = torch.ones(2, device=device, requires_grad=True)
doubled = leaf * 2
doubled.register_hook(raises)  # type: ignore[no-untyped-call]
errors = [caught(doubled), caught(checkpoint(recomputed, leaf, use_reentrant=False))]
Current.apply(leaf).sum().backward()  # type: ignore[no-untyped-call]

dist.init_process_group("sccl", pg_options=options)
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(3, 1).to(device), device_ids=[rank])
model(torch.full((2, 3), float(rank))).sum().backward()
grad = model.module.weight.grad
assert grad is not None
mesh = init_device_mesh("tpu", (4,))
torch.manual_seed(3)
whole = torch.nn.Linear(4, 8).to(device)
inputs = torch.ones(2, 4, device=device)
expected = whole(inputs).detach()
split = parallelize_module(
    whole, mesh, ColwiseParallel(output_layouts=dtensor.Replicate())
)
same = torch.allclose(split(inputs), expected)
sharded = dtensor.rand(8, 2, device_mesh=mesh, placements=[dtensor.Shard(0)])
values = sharded.full_tensor().flatten().tolist()
synchronised = ""
try:
    torch.nn.SyncBatchNorm(2).to(device)(torch.ones(3, 2, device=device))
except RuntimeError as error:
    synchronised = str(error)
said = {
    "chips": sorted(chips),
    "twice": sorted(twice),
    "other": str(torch.device("cpu", 0)),
    "errors": errors,
    "seen": Current.seen,
    "grad": [str(grad.device), grad.flatten().tolist()],
    "same": same,
    "synchronised": synchronised,
    "random": [len(set(values)), sum(values)],
}
sys.stdout.write(json.dumps([rank, said]) + "\n")
