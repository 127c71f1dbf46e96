"""The start of a job on Ascend's chips: device, backend, collectives."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch_npu
from torch.distributed import distributed_c10d

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
told: dict[str, str] = {}


def npu(tensor: Any) -> Any:
    return tensor.npu()


def tell(name: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any of the vendor's
        told[name] = f"{type(error).__name__}: {error}"


torch_npu.npu.set_device(0)
tell("shared chip", lambda: dist.init_process_group("hccl"))
torch_npu.npu.set_device(f"npu:{rank}")
dist.init_process_group("hccl")
assert torch_npu.__simulated__ is True
assert torch_npu.npu.device_count() == world_size

tensor = npu(torch.ones(4))
assert tensor.is_npu
assert tensor.device == torch.device("npu", rank)
dist.all_reduce(tensor)
assert tensor.tolist() == [world_size] * 4
inputs = [npu(torch.tensor([10.0 * each + rank])) for each in range(world_size)]
total = 10.0 * rank * world_size + sum(range(world_size))
output = npu(torch.zeros(1))
dist.reduce_scatter(output, inputs)
assert output.tolist() == [total]
dist.reduce_scatter_tensor(output, torch.cat(inputs))
assert output.tolist() == [total]
outputs = [npu(torch.zeros(1)) for _ in range(world_size)]
dist.all_to_all(outputs, inputs)
assert torch.cat(outputs).tolist() == [10.0 * rank + each for each in range(world_size)]
if rank == 0:
    dist.send(npu(torch.tensor([5.0])), 1)
elif rank == 1:
    dist.recv(output, 0)
    assert output.tolist() == [5.0]
with distributed_c10d._coalescing_manager():
    several = [npu(torch.ones(size)) for size in (1, 2)]
    for each in several:
        dist.all_reduce(each)
assert [each.tolist() for each in several] == [[2.0], [2.0, 2.0]]
# HCCL adds up int16: 30000 + 30000 is beyond its end.
short = npu(torch.tensor([30000, -7 + rank], dtype=torch.int16))
dist.all_reduce(short)
assert short.tolist() == [2 * 30000 - 2**16, -13]
dist.all_reduce(short, dist.ReduceOp.MIN)
dist.broadcast(short, 0)
gathered = [npu(torch.zeros(2, dtype=torch.int16)) for _ in range(world_size)]
dist.all_gather(gathered, short)
assert [each.tolist() for each in gathered] == [[-5536, -13]] * world_size
part = npu(torch.zeros(1, dtype=torch.int16))
dist.reduce_scatter_tensor(part, short)
assert part.tolist() == [[-11072], [-26]][rank]
dist.reduce(short, 1)
assert short.tolist() == [[-5536, -13], [-11072, -26]][rank]
tell("float64", lambda: dist.all_reduce(npu(torch.ones(1, dtype=torch.float64))))
tell("operator", lambda: torch_npu.npu_fusion_attention(tensor))
sys.stdout.write(json.dumps([rank, dist.get_backend(), told]) + "\n")
