"""Parts of torch that use collectives: the results are those on the CPU."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch_tpu
from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

STEPS = 3

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
device = torch.device(f"tpu:{chip_map[rank]}")
dist.init_process_group()  # the backend and the chips are found
world = dist.group.WORLD
assert world is not None
assert world.name() == "SCCL"
on_cpu = dist.new_group(backend="gloo")


class Network(torch.nn.Module):
    """Two branches, of which one is not always taken."""

    def __init__(self) -> None:
        super().__init__()
        self.always, self.sometimes = (torch.nn.Linear(4, 16) for _ in range(2))
        self.head = torch.nn.Sequential(
            torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 3)
        )

    def forward(self, batch: torch.Tensor, *, is_whole: bool) -> torch.Tensor:
        hidden = self.always(batch)
        if is_whole:
            hidden = hidden + self.sometimes(batch)
        output: torch.Tensor = self.head(hidden)
        return output


def trained(
    device: torch.device, group: dist.ProcessGroup | None, **options: bool
) -> list[torch.Tensor]:
    """Return the parameters after some steps on one device."""
    torch.manual_seed(rank)  # rank 0's parameters go to all
    model = Network().to(device)
    parallel = DistributedDataParallel(model, process_group=group, **options)  # type: ignore[arg-type]  # all of these are flags
    optimiser = torch.optim.AdamW(parallel.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        inputs, wanted = (
            torch.randn(8, size, generator=generator).to(device) for size in (4, 3)
        )
        is_whole = "find_unused_parameters" not in options or step == 1
        optimiser.zero_grad()
        output = parallel(inputs, is_whole=is_whole)
        (output - wanted).pow(2).mean().backward()
        optimiser.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


flags: tuple[dict[str, bool], ...] = (
    {},
    {"gradient_as_bucket_view": True},
    {"find_unused_parameters": True},
    {"static_graph": True},
)
for options in flags:
    pairs = zip(
        trained(device, None, **options),
        trained(torch.device("cpu"), on_cpu, **options),
        strict=True,
    )
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs), options

tensor = functional.all_reduce(torch.ones(2, device=device), "sum", world)
assert tensor.tolist() == [world_size] * 2
tensor = functional.all_gather_tensor(torch.tensor([rank], device=device), 0, world)
assert tensor.tolist() == list(range(world_size))

mesh = init_device_mesh("tpu", (world_size, 1), mesh_dim_names=("dp", "tp"))
whole = torch.arange(8.0, device=device).view(4, 2)
parts = distribute_tensor(whole, mesh["dp"], [Shard(0)])
assert parts.to_local().shape[0] == 4 // world_size
doubled = parts * 2
assert isinstance(doubled, DTensor)
assert torch.equal(doubled.full_tensor(), whole * 2)


def told(shard: Callable[[torch.nn.Module], object]) -> str:
    """Return what FSDP ends with, which takes memory from tensors."""
    try:
        sharded: Any = shard(torch.nn.Linear(4, 4, device=device))
        sharded(torch.ones(1, 4, device=device)).sum().backward()
    except RuntimeError as error:
        return str(error)
    return ""


assert "FSDP" in told(FullyShardedDataParallel)
assert "FSDP" in told(fully_shard), told(fully_shard)

everything: list[object] = [None] * world_size
dist.all_gather_object(everything, {"rank": rank})
assert everything == [{"rank": each} for each in range(world_size)]
listed = [rank, "same"] if rank == 0 else [None, None]
dist.broadcast_object_list(listed, 0)
assert listed == [0, "same"]
gathered: list[object] | None = [None] * world_size if rank == 0 else None
dist.gather_object(rank, gathered)
assert gathered in (None, list(range(world_size)))
scattered: list[object] = [None]
dist.scatter_object_list(scattered, ["a", "b"] if rank == 0 else None)
assert scattered == ["ab"[rank]]

# Torch drops the gloo of a group for both devices, as on the vendor's chips.
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
for backend in ("cpu:gloo,tpu:sccl", "tpu:sccl,cpu:gloo"):
    dist.destroy_process_group()
    own = PrefixStore(backend, store)
    dist.init_process_group(backend, store=own, rank=rank, world_size=world_size)
    for group in (None, dist.new_group([0, 1])):
        tensor = torch.ones(2, device=device)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [world_size] * 2
    dist.all_gather_object(everything, rank)
    assert everything == list(range(world_size))
dist.barrier()
sys.stdout.write(json.dumps([rank, "done"]) + "\n")
