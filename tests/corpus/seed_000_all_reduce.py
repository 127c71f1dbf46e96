import torch
import torch.distributed as dist
import os
import torch_tpu
TPU = "tpu"

# get rank and world_size from env
rank = int(os.environ.get("RANK"))
world_size = int(os.environ.get("WORLD_SIZE"))

# get chip_map
if torch_tpu.tpu.is_rank_table_valid():
    chip_map = torch_tpu.tpu.read_rank_table()

# init device
torch_tpu.tpu.set_device(chip_map[rank])
device = torch.device(f"{TPU}:{chip_map[rank]}")

# init backend
options = torch_tpu.ProcessGroupSCCLOptions()
options.chip_map = chip_map
dist.init_process_group(
    backend="sccl", 
    rank=rank, 
    world_size=world_size, 
    pg_options=options)

# init tensor
tensor_len = 4
tensor = torch.ones(tensor_len).float()
print("rank: {}, {}".format(rank, tensor))

# converting a CPU Tensor with pinned memory to a TPU Tensor
if torch_tpu.tpu.current_device() == device.index:
    tensor = tensor.to(device)

# all_reduce
dist.all_reduce(tensor, op=dist.ReduceOp.SUM)

# print results
results = tensor.cpu()
print("rank: {}, results: {}".format(rank, results))
