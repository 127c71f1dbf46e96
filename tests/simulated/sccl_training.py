"""What training scripts do on two chips, compared with one process on the CPU."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
import torch_tpu
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

STEPS, MICRO_BATCHES, ROWS, WIDTH = 3, 2, 4, 8

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
device, cpu = torch.device(f"tpu:{chip_map[rank]}"), torch.device("cpu")
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = chip_map
dist.init_process_group("sccl", pg_options=options)
torch.manual_seed(1)
inputs = torch.randn(STEPS, world_size, MICRO_BATCHES, ROWS, WIDTH)


class Network(torch.nn.Module):
    """Two layers, the first of which may be computed again in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.computes_again = False

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if self.computes_again:
            hidden = checkpoint(self.first, batch, use_reentrant=False)
        else:
            hidden = self.first(batch)
        output: torch.Tensor = self.last(torch.relu(hidden))
        return output


def new_network(on: torch.device) -> Network:
    torch.manual_seed(2)
    return Network().to(on)


def loss_of(output: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    return output.float().square().mean()


def trained(
    model: torch.nn.Module, batches: torch.Tensor, *, is_mixed: bool = False
) -> None:
    """Take steps; each adds up the gradients of all batches that it is given."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
    for batches_of_step in batches:
        for number, batch in enumerate(batches_of_step, start=1):
            is_last = number == len(batches_of_step)
            context: AbstractContextManager[None] = nullcontext()
            if isinstance(model, DistributedDataParallel) and not is_last:
                context = model.no_sync()
            with context:
                with torch.autocast(batch.device.type, torch.bfloat16, is_mixed):
                    loss = loss_of(model(batch))
                torch.autograd.backward(loss / len(batches_of_step))
        optimiser.step()
        optimiser.zero_grad()


def assert_same_parameters(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    for ours_, theirs_ in pairs:
        torch.testing.assert_close(ours_.detach().cpu(), theirs_.detach())


def check_data_parallel(
    *, is_mixed: bool = False, computes_again: bool = False
) -> None:
    model, alone = new_network(device), new_network(cpu)
    model.computes_again = computes_again
    parallel = DistributedDataParallel(model)
    trained(parallel, inputs[:, rank].to(device), is_mixed=is_mixed)
    trained(alone, inputs.flatten(1, 2), is_mixed=is_mixed)
    assert_same_parameters(model, alone)


def check_tensor_parallel() -> None:
    model, alone = new_network(device), new_network(cpu)
    mesh = init_device_mesh("tpu", (world_size,))
    plan = {"first": ColwiseParallel(), "last": RowwiseParallel()}
    trained(parallelize_module(model, mesh, plan), inputs[:, 0].to(device))
    trained(alone, inputs[:, 0])
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        assert isinstance(ours, DTensor)
        torch.testing.assert_close(ours.full_tensor().cpu(), theirs)


def check_pipeline() -> None:
    whole, alone = new_network(device), new_network(cpu)
    layers = (torch.nn.Sequential(whole.first, torch.nn.ReLU()), whole.last)
    stage = PipelineStage(layers[rank], rank, world_size, device)
    schedule = ScheduleGPipe(stage, MICRO_BATCHES, loss_fn=loss_of)
    batch = inputs[0].flatten(0, -2)
    target = torch.zeros(len(batch), device=device)
    if rank == 0:
        schedule.step(batch.to(device))
    else:
        losses: list[torch.Tensor] = []
        output = schedule.step(target=target, losses=losses)
        torch.testing.assert_close(output.cpu(), alone(batch))
    torch.autograd.backward(loss_of(alone(batch)))
    theirs = (alone.first, alone.last)[rank].weight.grad
    ours = (whole.first, whole.last)[rank].weight.grad
    assert ours is not None
    torch.testing.assert_close(ours.cpu(), theirs)


def check_distributed_checkpoint() -> None:
    mesh = init_device_mesh("tpu", (world_size,))
    whole = torch.arange(8.0).view(4, 2)

    def state_of(model: Network, tensor: torch.Tensor) -> dict[str, object]:
        parts = distribute_tensor(tensor.to(device), mesh, [Shard(0)])
        return {"model": model.state_dict(), "parts": parts}

    saved = new_network(device)
    save(state_of(saved, whole), checkpoint_id=sys.argv[1])
    loaded = Network().to(device)
    state = state_of(loaded, torch.zeros(4, 2))
    load(state, checkpoint_id=sys.argv[1])
    assert_same_parameters(loaded, new_network(cpu))
    parts = state["parts"]
    assert isinstance(parts, DTensor)
    assert torch.equal(parts.full_tensor().cpu(), whole)


checks: dict[str, Callable[[], None]] = {
    "accumulation": check_data_parallel,
    "AMP": lambda: check_data_parallel(is_mixed=True),
    "checkpointing": lambda: check_data_parallel(computes_again=True),
    "all three": lambda: check_data_parallel(is_mixed=True, computes_again=True),
    "tensor parallel": check_tensor_parallel,
    "pipeline": check_pipeline,
    "DCP": check_distributed_checkpoint,
}
passed = []
for name, check in checks.items():
    check()
    passed.append(name)
sys.stdout.write(json.dumps([rank, passed]) + "\n")
