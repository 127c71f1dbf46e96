"""Prints the files of ranktable whose functions run until the first all_reduce.

What runs while a module of ranktable is imported is left out; what the simulated
package does when it is imported is the start of the chips, and counts.
"""

import inspect
import json
import os
import sys
from types import FrameType

passed: set[str] = set()
importing = 0


def note(frame: FrameType, event: str, _: object) -> None:
    global importing  # noqa: PLW0603 - of this script
    code = frame.f_code
    _, found, name = code.co_filename.rpartition("/ranktable/")
    if not found or event not in ("call", "return"):
        return
    if code.co_name == "<module>" and not name.startswith("simulate/path/"):
        importing += 1 if event == "call" else -1
    # The bodies of classes run too, but are not functions.
    elif not importing and code.co_flags & inspect.CO_OPTIMIZED:
        passed.add(name)


sys.setprofile(note)
import torch  # noqa: E402 - what is imported here counts
import torch.distributed as dist  # noqa: E402
import torch_tpu  # noqa: E402

rank = int(os.environ["RANK"])
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = chip_map
dist.init_process_group("sccl", pg_options=options)
tensor = torch.ones(4).to(f"tpu:{chip_map[rank]}")
dist.all_reduce(tensor)
sys.setprofile(None)
sys.stdout.write(json.dumps([rank, tensor.tolist(), sorted(passed)]) + "\n")
