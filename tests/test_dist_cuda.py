"""NCCL on a real GPU, which the ranks share: streams, groups, threads and training."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as plain

from ranktable import dist
from ranktable.layout import ParallelLayout
from ranktable.runtime import make_groups, make_mesh
from ranktable.runtime.job import current_job
from tests.rank_worker import device, tensor

if TYPE_CHECKING:
    from tests.ranks import Pool

pytestmark = pytest.mark.torch

STEPS = 50
SIZE = 1 << 20


def use_two_streams() -> list[float]:
    """Begin on one stream, wait on another, and let the allocator reuse what is gone.

    The reduced copy of a column is a temporary of ours on the first stream.
    """
    rank = dist.get_rank()
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    found = []
    for step in range(STEPS):
        with torch.cuda.stream(side):
            data = torch.full((SIZE, 2), float(rank + step), device=device())
            work = dist.all_reduce(data[:, 0], async_op=True)
        work.wait()
        found.append(data[:, 0].mean())
        # Torch's rule for what another stream has allocated and is now released.
        data.record_stream(torch.cuda.current_stream())
        del data, work
        torch.full((SIZE, 2), -1e9, device=device())
    return [each.item() for each in found]


def test_what_another_stream_waits_for_is_there(on_cuda: Pool) -> None:
    expected = [float(2 * step + 1) for step in range(STEPS)]
    assert on_cuda.returned(use_two_streams) == [expected] * 2


def overtake(whose: str) -> float:
    """Reduce what a long computation on the current stream has still to write."""
    of = {"torch": plain, "ours": dist}[whose]
    factor = torch.eye(4096, device=device())
    data = torch.ones(4096, 4096, device=device())
    for _ in range(50):
        data = data @ factor
    work = of.all_reduce(data, async_op=True)
    work.wait()
    return data.mean().item()


@pytest.mark.parametrize("whose", ["torch", "ours"])
def test_a_collective_comes_after_what_writes_its_tensor(
    on_cuda: Pool, whose: str
) -> None:
    assert on_cuda.returned(overtake, whose) == [2.0] * 2


def use_mixed_devices() -> list[float]:
    job = current_job()
    assert job is not None
    on_chip, on_cpu = torch.ones(2, device=device()), torch.ones(2)
    plain.all_reduce(on_chip)
    both = plain.new_group(backend="cpu:gloo,cuda:nccl")
    dist.all_reduce(on_chip, group=both)
    dist.all_reduce(on_cpu, group=both)
    return [on_chip.sum().item(), on_cpu.sum().item()]


def test_a_group_of_two_backends_takes_tensors_of_both(on_cuda: Pool) -> None:
    assert on_cuda.returned(use_mixed_devices) == [[8.0, 4.0]] * 2


def capture() -> list[float]:
    """Capture a collective in a graph of CUDA, and replay it."""
    data = torch.zeros(4, device=device())
    for _ in range(3):
        dist.all_reduce(data)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(data)
    data.fill_(1.0)
    found = []
    for _ in range(3):
        graph.replay()
        found.append(data.mean().item())
    return found


def test_a_known_collective_is_captured_in_a_graph(on_cuda: Pool) -> None:
    assert on_cuda.returned(capture) == [[2.0, 4.0, 8.0]] * 2


def use_two_threads() -> list[float]:
    """Reduce in the world group, and in a group of a thread that saves checkpoints."""
    saving = plain.new_group([0, 1])
    first, second = tensor([1.0]), tensor([2.0])
    rank = dist.get_rank()

    def save() -> None:
        torch.cuda.set_device(device())
        time.sleep(1.6 if rank == 0 else 0)
        dist.all_reduce(second, group=saving)

    thread = threading.Thread(target=save)
    thread.start()
    time.sleep(1.6 if rank == 1 else 0)
    dist.all_reduce(first)
    thread.join()
    return [first.item(), second.item()]


def test_two_threads_in_two_groups_finish(on_cuda: Pool) -> None:
    assert on_cuda.returned(use_two_threads) == [[2.0, 4.0]] * 2


def reduce_bfloat16() -> list[float]:
    rank = dist.get_rank()
    data = tensor([256.0 if rank == 0 else 1.0, 3.0], torch.bfloat16)
    dist.all_reduce(data)
    mean = tensor([1.0 + rank, 3.0], torch.bfloat16)
    dist.all_reduce(mean, "mean")
    return [*data.tolist(), *mean.tolist()]


def test_bfloat16_is_reduced(on_cuda: Pool) -> None:
    found = on_cuda.returned(reduce_bfloat16)
    assert found == [[256.0, 6.0, 1.5, 3.0]] * 2


def make_axes() -> dict[str, Any]:
    """Make groups of two axes, and count how often torch is asked for one."""
    job = current_job()
    assert job is not None
    made: list[list[int]] = []
    whole = plain.new_group

    def counted(ranks: Any = None, *args: Any, **options: Any) -> Any:
        made.append(list(ranks))
        return whole(ranks, *args, **options)

    plain.new_group = counted
    try:
        groups = make_groups(job, ParallelLayout(tp=2, dp=2, world_size=4))
    finally:
        plain.new_group = whole
    sums = {}
    for name, group in groups.items():
        data = tensor([dist.get_rank()])
        dist.all_reduce(data, group=group)
        sums[name] = data.item()
    return {"made": made, "sums": sums}


def test_a_rank_makes_one_group_an_axis(four_on_cuda: Pool) -> None:
    found = four_on_cuda.returned(make_axes)

    for rank, each in enumerate(found):
        tp, dp = [rank // 2 * 2, rank // 2 * 2 + 1], [rank % 2, rank % 2 + 2]
        made = each["made"]  # before torch 2.12 every rank makes the groups of all
        assert tp in made
        assert dp in made
        assert len(made) == len(set(map(tuple, made)))
        assert each["sums"] == {"tp": sum(tp), "dp": sum(dp)}


def train(how: str, whose: str) -> list[float]:
    """Return the weights after some steps, in the world of this rank."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    model = model.to(device())
    rank, size = dist.get_rank(), dist.get_world_size()
    job = current_job()
    assert job is not None
    wrapped: Any = model
    if how == "ddp":
        wrapped = DistributedDataParallel(model, device_ids=[device().index])
    elif how == "fsdp" and whose == "ours":
        wrapped = fully_shard(model, mesh=make_mesh(job, ParallelLayout(dp=size))["dp"])
    elif how == "fsdp":
        wrapped = fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.arange(64.0, device=device()).view(8, 8) / 64
    for _ in range(5):
        optimizer.zero_grad()
        mine = data[rank::size] if how != "alone" else data
        wrapped(mine).pow(2).mean().backward()
        if how == "by hand":
            grads = [each.grad for each in model.parameters() if each.grad is not None]
            dist.all_reduce_params(grads, op="mean")
        optimizer.step()
    whole = [
        each.full_tensor() if hasattr(each, "full_tensor") else each
        for each in model.parameters()
    ]
    return [round(each.double().sum().item(), 4) for each in whole]


@pytest.mark.parametrize("how", ["ddp", "fsdp", "by hand"])
def test_training_is_that_of_one_process(on_cuda: Pool, how: str) -> None:
    alone = on_cuda.returned(train, "alone", "torch")[0]
    for found in on_cuda.returned(train, how, "ours"):
        assert found == pytest.approx(alone, abs=2e-3)
