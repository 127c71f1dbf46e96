"""The vendor's defects, and the limits of its manual."""

import json
import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch_tpu

rank = int(os.environ["RANK"])
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
device = torch.device(f"tpu:{chip_map[rank]}")
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = chip_map
told: dict[str, str] = {}


def tell(name: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any of the vendor's
        told[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"


tell("no options", lambda: dist.init_process_group("sccl"))
dist.init_process_group("sccl", pg_options=options)
tell("no options, sub-group", dist.new_group)
tell("send", lambda: dist.send(torch.ones(1, device=device), 1 - rank))
tell("recv", lambda: dist.recv(torch.ones(1, device=device), 1 - rank))
# The whole world's map: ranks 1 and 2 communicate on the chips of ranks 0 and 1.
group = dist.new_group([1, 2], pg_options=options)
if rank:
    tensor = torch.ones(2, device=device)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [2.0] * 2
gathered = torch.zeros(3, device=device)
dist.all_gather_into_tensor(gathered, torch.ones(1, device=device))
group = dist.group.WORLD
assert group is not None
tell(
    "functional",
    lambda: torch.ops._c10d_functional.all_gather_into_tensor(
        torch.ones(1, device=device), 3, group.group_name
    ),
)
sys.stdout.write(json.dumps([rank, told]) + "\n")
