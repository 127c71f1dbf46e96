"""A rank that gives a tensor on the first chip, since it has selected none."""

import torch
import torch.distributed as dist
import torch_tpu

options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = torch_tpu.tpu.read_rank_table()
dist.init_process_group("sccl", pg_options=options)
dist.all_reduce(torch.ones(2, device="tpu"))
