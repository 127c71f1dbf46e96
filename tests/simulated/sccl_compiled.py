"""Training with ``set_chip_map`` on chips 3 and 1: no chip is its own local rank."""

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch_tpu
from torch._dynamo.convert_frame import output_codes
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ["LOCAL_RANK"])
options = torch_tpu.ProcessGroupSCCLOptions()
torch_tpu.tpu.set_chip_map(options, chip_map=[3, 1])
torch_tpu.tpu.set_device(local_rank)
device = torch.device(f"tpu:{local_rank}")
dist.init_process_group("sccl", pg_options=options)
dist.barrier(device_ids=[device.index])  # the vendor's takes chips


def plus_ones(tensor: torch.Tensor) -> torch.Tensor:
    """Name the chip in each form, inside of the graph and outside."""
    ones = torch.ones(2, device=torch.device("tpu", local_rank))
    named = torch.ones(2, device=torch.device(f"tpu:{local_rank}"))
    dist.get_world_size(None)
    return tensor + ones + named + torch.zeros(2, device=tensor.device)


class Branches(torch.nn.Module):
    """A network, of which a part is not compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.first(batch)
        torch._dynamo.graph_break()
        output: torch.Tensor = self.last(torch.relu(hidden))
        return output


compiled = torch.compile(plus_ones, backend="eager")(torch.zeros(2, device=device))
torch.manual_seed(1)
batches = torch.randn(2, 4, 2)
whole = Branches()
model = Branches().to(device)
model.load_state_dict(whole.state_dict())
parallel: Any = torch.compile(
    DistributedDataParallel(model, device_ids=[local_rank]), backend="aot_eager"
)
parallel(batches[local_rank].to(device)).sum().backward()
whole(batches.flatten(0, 1)).sum().div(2).backward()
for ours, theirs in zip(model.parameters(), whole.parameters(), strict=True):
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad)

# In evaluation with a mask torch makes nested tensors, if the device prefers it.
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
encoder = torch.nn.TransformerEncoder(layer, 1).eval()
words = torch.randn(2, 3, 8)
is_padding = torch.tensor([[False] * 3, [False, True, True]])
with torch.inference_mode():
    expected = encoder(words, src_key_padding_mask=is_padding)
    encoder.to(device)
    found = encoder(words.to(device), src_key_padding_mask=is_padding.to(device))
torch.testing.assert_close(found.cpu()[~is_padding], expected[~is_padding])

codes = (seen() for seen in output_codes.seen)
files = {code.co_filename for code in codes if code is not None}
said = {
    "compiled": [str(compiled.device), compiled.tolist()],
    "our files": [file for file in files if "ranktable/simulate" in file],
}
sys.stdout.write(json.dumps([local_rank, said]) + "\n")
