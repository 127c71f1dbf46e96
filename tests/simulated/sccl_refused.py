"""What cannot run on simulated chips, and what its error says; one rank."""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
import torch_tpu

tpu: Any = torch_tpu.tpu  # what needs a chip has no type
told: dict[str, str] = {}


def tell(name: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any of them
        told[name] = f"{type(error).__name__}: {error}"


def ring_of_three() -> None:
    tpu.set_chip_map(torch_tpu.ProcessGroupSCCLOptions(), use_rank_table=False)


def unserved() -> None:
    address = f"tcp://127.0.0.1:{sys.argv[1]}"
    dist.init_process_group("sccl", init_method=address, rank=1, world_size=2)


layer = torch.nn.Linear(2, 2).to("tpu")
os.environ["LOCAL_WORLD_SIZE"] = "3"
tell("ring", ring_of_three)
os.environ["LOCAL_WORLD_SIZE"] = "1"
tell("operator", lambda: torch.ops.my_ops.llama_mlp_forward(1))
tell("timer", tpu.OpTimer_dump)
llama_mlp = import_module("torch_tpu.tpu.custom_op.llama_mlp")
tell("custom", llama_mlp.LLamaMlp)
tell("custom function", lambda: llama_mlp.LLamaMlpFunc.apply(layer))
tell("utils", import_module("torch_tpu.utils.compare").cos_sim)
tell("table", import_module("torch_tpu.tpu.gen_sccl_rank_table").gen_sccl_json)
tell("format", torch_tpu.tpu_format_cast)
tell("parallel", lambda: torch.nn.DataParallel(layer)(torch.ones(1, 2, device="tpu")))
told["names"] = import_module("torch_tpu.tpu.device").__tpu_device__
told["version"] = str(import_module("torch_tpu.tpu._versions").TPU_TRAIN_VERSION)
tell("jit", import_module("torch_tpu.jit").compile)
tell("host", lambda: dist.init_process_group("scclHost"))
tell("unserved", unserved)
dist.init_process_group("sccl")
with tpu.amp.autocast(False):
    told["autocast"] = str(tpu.is_autocast_enabled())
amp = import_module("torch_tpu.tpu.amp.grad_scaler")
scaler = type("OwnScaler", (amp.GradScaler,), {})(256.0)
weight = torch.ones(1, device="tpu", requires_grad=True)
optimiser = torch.optim.SGD([weight], 0.5)
scaler.scale(weight.sum()).backward()
scaler.step(optimiser)
told["scaler"] = f"{scaler.get_scale()} {weight.item()}"
told["options"] = import_module("torch_tpu._C").ProcessGroupSCCLOptions.__name__
tell("compiled", import_module("torch_tpu._C").CallCppDynLib)
tell("versions", import_module("torch_tpu.tpu.versions").driver_version)
told["module"] = str(import_module("torch_tpu.tpu.memory").memory_allocated())
names = """StreamContext can_device_access_peer current_blas_handle current_device
current_stream default_stream device device_count device_of get_arch_list
get_device_capability get_device_name get_device_properties get_gencode_flags
get_sync_debug_mode init ipc_collect is_available is_initialized memory_usage set_device
set_stream set_sync_debug_mode stream synchronize flush utilization temperature
power_draw clock_rate is_rank_table_valid read_rank_table set_chip_map get_topology amp
get_amp_supported_dtype is_autocast_enabled set_autocast_enabled get_autocast_dtype
set_autocast_dtype manual_seed manual_seed_all seed seed_all initial_seed get_rng_state
get_rng_state_all set_rng_state set_rng_state_all caching_allocator_alloc
caching_allocator_delete set_per_process_memory_fraction empty_cache memory_stats
memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats
reset_max_memory_allocated reset_max_memory_cached memory_allocated max_memory_allocated
memory_reserved max_memory_reserved memory_cached max_memory_cached memory_snapshot
memory_summary Stream ExternalStream Event OpTimer_reset is_OpTimer_enabled OpTimer_dump
GlobalOpTimer_reset GlobalOpTimer_dump format_cast TPUGraph graph graph_pool_handle
start_cache stop_cache BmodelRunner dtype_map default_generators""".split()  # noqa: SIM905 - as the vendor lists them
told["missing"] = " ".join(name for name in names if not hasattr(tpu, name))
sys.stdout.write(json.dumps(told) + "\n")
