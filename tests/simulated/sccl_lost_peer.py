"""Two ranks wait to receive from a third, which sends to one of them and ends.

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
    if rank < 2:
        dist.send(torch.ones(4, device="tpu"), 2)
        for _ in range(rank + 1):  # the first one was sent to rank 1
            dist.recv(torch.ones(4, device="tpu"), 2)
    else:
        dist.send(torch.ones(4, device="tpu"), 1)
        time.sleep(0.5)
        os._exit(3)
except RuntimeError as error:
    said = json.dumps([rank, str(error), time.monotonic() - begin])
    sys.stdout.write(said + "\n")
    sys.stdout.flush()
    (noted / str(rank)).touch()
    time.sleep(600)
