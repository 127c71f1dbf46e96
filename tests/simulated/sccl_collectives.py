"""What SCCL does, and what it refuses, on every rank of a simulated run."""

import json
import math
import os
import sys
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
import torch_tpu

TYPES = (
    *(torch.float32, torch.float16, torch.bfloat16),
    *(torch.int8, torch.uint8, torch.int32, torch.int64),
)
REDUCTIONS = (
    (dist.ReduceOp.SUM, sum),
    (dist.ReduceOp.PRODUCT, math.prod),
    (dist.ReduceOp.MIN, min),
    (dist.ReduceOp.MAX, max),
)

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
device = torch.device(f"tpu:{chip_map[rank]}")
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = chip_map
dist.init_process_group("sccl", pg_options=options)
ranks = range(world_size)
following, previous = (rank + 1) % world_size, (rank - 1) % world_size


def mine(size: int = 2, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor of this rank's number, and 1."""
    return torch.full((size,), rank + 1, dtype=dtype, device=device)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


def expect(tensor: torch.Tensor, values: Sequence[object]) -> None:
    assert tensor.device == device, tensor.device
    assert tensor.tolist() == values, (tensor, values)


def pairs(first: int = 1) -> list[float]:
    """Return what each rank has, one after the other."""
    return [float(first + each) for each in ranks for _ in range(2)]


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it was not refused")


total = sum(ranks) + world_size

# Every type and every reduction.
for dtype in TYPES:
    for reduction, reduced in REDUCTIONS:
        tensor = mine(3, dtype)
        dist.all_reduce(tensor, reduction)
        expect(tensor, [reduced([each + 1 for each in ranks])] * 3)
for size in (100_003, 0):  # not divisible, and more than ranks reduce at once
    tensor = mine(size, torch.int64) * torch.arange(size, device=device)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.arange(size, device=device) * total)
for reduction, expected in zip(
    (reduction for reduction, _ in REDUCTIONS),
    ([True, False], [False, False], [False, False], [True, False]),
    strict=True,
):
    tensor = torch.tensor([rank == 0, False], device=device)
    dist.all_reduce(tensor, reduction)
    expect(tensor, expected)

# One rank to all, all to one, all to all.
tensor = mine()
dist.broadcast(tensor, 1)
expect(tensor, [2.0, 2.0])
tensor = mine()
dist.reduce(tensor, world_size - 1)
expect(tensor, [float(total) if rank == world_size - 1 else rank + 1.0] * 2)
gathered = [zeros(2) for _ in ranks]
dist.all_gather(gathered, mine())
expect(torch.cat(gathered), pairs())
for shape in ((world_size * 2,), (world_size, 2)):
    together = zeros(*shape, dtype=torch.float16)
    dist.all_gather_into_tensor(together, mine(dtype=torch.float16))
    expect(together.view(-1), pairs())
gathered = [zeros(2) for _ in ranks]
dist.gather(mine(), gathered if rank == 1 else None, dst=1)
expect(torch.cat(gathered), pairs() if rank == 1 else [0.0] * 2 * world_size)
tensor = zeros(2)
dist.scatter(tensor, [mine() * (each + 2) for each in ranks] if rank == 0 else None)
expect(tensor, [rank + 2.0] * 2)
received = zeros(world_size * 2)
dist.all_to_all_single(received, mine(world_size * 2))
expect(received, pairs())
dist.broadcast(zeros(0), 0)
dist.barrier()
dist.barrier(device_ids=[chip_map[rank]])

# Transfers: with and without waiting, in either order, in a batch.
if rank == 0:
    dist.send(torch.tensor([5.0, 6.0], device=device), 1)
    dist.recv(tensor, 1)
    expect(tensor, [7.0, 7.0])
    sent = mine()
    dist.isend(sent, 1)
    sent.zero_()  # SCCL had queued it with the values of then
elif rank == 1:
    dist.recv(tensor, 0)
    expect(tensor, [5.0, 6.0])
    dist.send(torch.tensor([7.0, 7.0], device=device), 0)
    dist.irecv(tensor, 0)  # as in the vendor's own script, nobody waits
    expect(tensor, [1.0, 1.0])
for order in (1, -1):
    tensor = zeros(2)
    works = [dist.irecv(tensor, previous), dist.isend(mine(), following)]
    for work in works[::order]:
        assert work is not None
        work.wait()
    expect(tensor, [previous + 1.0] * 2)
tensor = zeros(2)
batch = [
    dist.P2POp(dist.isend, mine(), following),
    dist.P2POp(dist.irecv, tensor, previous),
]
for work in dist.batch_isend_irecv(batch):
    work.wait()
expect(tensor, [previous + 1.0] * 2)

# Work that nobody waits for is done.
tensor = mine()
work = dist.all_reduce(tensor, async_op=True)
assert work is not None
assert work.is_completed()
expect(tensor, [total] * 2)
doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
expect(doubled, [total * 2] * 2)

# Sub-groups get the chips of their members.
for members in (ranks[:2], ranks[-2:]):
    group = dist.new_group(list(members))
    if rank in members:
        tensor = mine()
        dist.all_reduce(tensor, group=group)
        expect(tensor, [float(sum(members) + 2)] * 2)

refusals = {
    "avg": refusal(lambda: dist.all_reduce(mine(), dist.ReduceOp.AVG)),
    "band": refusal(lambda: dist.all_reduce(mine(), dist.ReduceOp.BAND)),
    "reduce bxor": refusal(lambda: dist.reduce(mine(), 0, dist.ReduceOp.BXOR)),
    "float64": refusal(lambda: dist.all_reduce(mine(dtype=torch.float64))),
    "int16": refusal(lambda: dist.broadcast(mine(dtype=torch.int16), 0)),
    "cpu": refusal(lambda: dist.all_reduce(torch.ones(1))),
    "cpu broadcast": refusal(lambda: dist.broadcast(torch.ones(1), 0)),
    "reduce_scatter": refusal(
        lambda: dist.reduce_scatter(zeros(2), [mine() for _ in ranks])
    ),
    "reduce_scatter_tensor": refusal(
        lambda: dist.reduce_scatter_tensor(zeros(2), mine(2 * world_size))
    ),
    "all_to_all": refusal(
        lambda: dist.all_to_all([zeros(2) for _ in ranks], [mine() for _ in ranks])
    ),
    "recv from any": refusal(lambda: dist.recv(zeros(2))),
    "list length": refusal(lambda: dist.all_gather([zeros(2)], mine())),
    "not contiguous": refusal(lambda: dist.all_reduce(zeros(2, 2).t()[:1])),
    "short output": refusal(lambda: dist.all_gather_into_tensor(zeros(1), mine())),
    "output type": refusal(
        lambda: dist.all_gather_into_tensor(
            zeros(2 * world_size, dtype=torch.float16), mine()
        )
    ),
    "undivided": refusal(
        lambda: dist.all_to_all_single(zeros(world_size + 1), mine(world_size + 1))
    ),
    "uneven parts": refusal(
        lambda: dist.all_to_all_single(
            zeros(world_size),
            mine(world_size),
            [2, 0, *[1] * (world_size - 2)],
            [2, 0, *[1] * (world_size - 2)],
        )
    ),
}
dist.barrier()
sys.stdout.write(json.dumps([rank, dist.get_backend(), refusals]) + "\n")
