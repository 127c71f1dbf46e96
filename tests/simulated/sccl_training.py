"""What training scripts do on several chips, compared with one process on the CPU."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch_tpu
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

STEPS, MICRO_BATCHES, ROWS, WIDTH, LAYERS = 3, 4, 4, 8, 8

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
chip_map = torch_tpu.tpu.read_rank_table()
options = torch_tpu.ProcessGroupSCCLOptions()
torch_tpu.tpu.set_chip_map(options, chip_map=chip_map)
local_rank = int(os.environ["LOCAL_RANK"])
torch_tpu.tpu.set_device(local_rank)
device, cpu = torch.device(f"tpu:{local_rank}"), torch.device("cpu")
assert device.index == chip_map[rank]
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
    parallel = DistributedDataParallel(model, device_ids=[local_rank])
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


class _ToAll(torch.autograd.Function):
    """The input for every rank; gradients are added up."""

    @staticmethod
    def forward(_ctx: object, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(_ctx: object, grad: torch.Tensor) -> torch.Tensor:
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class _FromAll(torch.autograd.Function):
    """The sum of what all ranks have; each gets the whole gradient."""

    @staticmethod
    def forward(_ctx: object, tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return grad


_to_all: Callable[[torch.Tensor], torch.Tensor] = _ToAll.apply
_from_all: Callable[[torch.Tensor], torch.Tensor] = _FromAll.apply


def check_tensor_parallel_by_hand() -> None:
    alone = new_network(cpu)
    rows = slice(rank * WIDTH // world_size, (rank + 1) * WIDTH // world_size)
    parts = (
        alone.first.weight[rows],
        alone.first.bias[rows],
        alone.last.weight[:, rows],
    )
    first, bias, last = (
        part.detach().to(device).contiguous().requires_grad_() for part in parts
    )
    batch = inputs[0, 0, 0]
    source = batch.to(device).requires_grad_()
    hidden = torch.relu(functional.linear(_to_all(source), first, bias))
    output = _from_all(functional.linear(hidden, last))
    output = output + alone.last.bias.detach().to(device)
    torch.autograd.backward(loss_of(output))
    expected = batch.clone().requires_grad_()
    torch.autograd.backward(loss_of(alone(expected)))
    assert alone.first.weight.grad is not None
    assert alone.last.weight.grad is not None
    pairs = (
        (source.grad, expected.grad),
        (first.grad, alone.first.weight.grad[rows]),
        (last.grad, alone.last.weight.grad[:, rows]),
    )
    for ours, theirs in pairs:
        assert ours is not None
        torch.testing.assert_close(ours.cpu(), theirs)


def deep_network() -> list[torch.nn.Module]:
    torch.manual_seed(3)
    return [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())
        for _ in range(LAYERS)
    ]


def check_pipeline(kind: Callable[..., Any], stages_of_rank: int) -> None:
    """Compare the output and all gradients of a schedule of torch."""
    count = world_size * stages_of_rank
    layers, alone = deep_network(), torch.nn.Sequential(*deep_network())
    of_stage = LAYERS // count
    numbers = range(rank, count, world_size)
    modules = {
        number: torch.nn.Sequential(
            *layers[number * of_stage : (number + 1) * of_stage]
        ).to(device)
        for number in numbers
    }
    stages = [PipelineStage(modules[n], n, count, device) for n in numbers]
    given = stages if stages_of_rank > 1 else stages[0]
    schedule = kind(given, MICRO_BATCHES, loss_fn=loss_of)
    batch = inputs[0, 0].flatten(0, -2)
    target = torch.zeros(len(batch), device=device)
    arguments = [batch.to(device)] if rank == 0 else []
    if rank == world_size - 1:
        output = schedule.step(*arguments, target=target, losses=[])
        torch.testing.assert_close(output.cpu(), alone(batch))
    else:
        schedule.step(*arguments)
    torch.autograd.backward(loss_of(alone(batch)))
    for number in numbers:
        theirs = alone[number * of_stage : (number + 1) * of_stage].parameters()
        pairs = zip(modules[number].parameters(), theirs, strict=True)
        for ours, expected in pairs:
            assert ours.grad is not None
            torch.testing.assert_close(ours.grad.cpu(), expected.grad)


def check_distributed_checkpoint() -> None:
    mesh = init_device_mesh("tpu", (world_size,))
    whole = torch.arange(16.0).view(8, 2)

    def state_of(model: Network, tensor: torch.Tensor) -> dict[str, object]:
        parts = distribute_tensor(tensor.to(device), mesh, [Shard(0)])
        return {"model": model.state_dict(), "parts": parts}

    saved = new_network(device)
    save(state_of(saved, whole), checkpoint_id=sys.argv[1])
    loaded = Network().to(device)
    state = state_of(loaded, torch.zeros(8, 2))
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
    "tensor parallel by hand": check_tensor_parallel_by_hand,
    "GPipe": lambda: check_pipeline(ScheduleGPipe, 1),
    "1F1B": lambda: check_pipeline(Schedule1F1B, 1),
    "interleaved 1F1B": lambda: check_pipeline(ScheduleInterleaved1F1B, 2),
    "DCP": check_distributed_checkpoint,
}
passed = []
for name, check in checks.items():
    check()
    passed.append(name)
sys.stdout.write(json.dumps([rank, passed]) + "\n")
