"""Two ranks wait for a third, one to receive from it, one to send; and it ends.

The argument is a folder where the two note that they have said what they saw.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch_tpu

UNSENT = 1 << 22  # elements: more than a connection holds that nobody reads from

rank, noted = int(os.environ["RANK"]), Path(sys.argv[1])
if rank == 2 and (child := os.fork()):
    # The child is the rank. A launcher ends all ranks soon after it has seen one end.
    os.waitpid(child, 0)
    while len(list(noted.iterdir())) < 2:
        time.sleep(0.05)
    raise SystemExit(3)
chip_map = torch_tpu.tpu.read_rank_table()
torch_tpu.tpu.set_device(chip_map[rank])
dist.init_process_group("sccl")
dist.barrier()
begin = time.monotonic()
try:
    if rank == 0:
        dist.recv(torch.ones(4, device="tpu"), 2)
    elif rank == 1:
        work = dist.isend(torch.ones(UNSENT, device="tpu"), 2)
        assert work is not None
        work.wait()
    else:
        time.sleep(0.5)
        os._exit(3)
except RuntimeError as error:
    said = json.dumps([rank, str(error), time.monotonic() - begin])
    sys.stdout.write(said + "\n")
    sys.stdout.flush()
    (noted / str(rank)).touch()
    time.sleep(600)
