"""Two ranks wait for a third, one to receive from it, one to send; and it ends."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch_tpu

UNSENT = 1 << 22  # elements: more than a connection holds that nobody reads from

rank = int(os.environ["RANK"])
if rank == 2 and (child := os.fork()):
    os.waitpid(child, 0)  # it is the rank; torchrun would end the others at once
    time.sleep(3)
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
    raise SystemExit(1) from None
