"""``torch_tpu.tpu``, which is ``torch.tpu`` too."""

from __future__ import annotations

# What every device of torch has: streams, memory, seeds. What follows wins over it.
from ranktable.simulate.device.module import *  # noqa: F403
from torch_tpu import selection
from torch_tpu.chip_map import (
    get_topology,
    map_local_rank_to_device_idx,
    set_chip_map,
)
from torch_tpu.rank_table import is_rank_table_valid, read_rank_table
from torch_tpu.tpu import amp
from torch_tpu.tpu.absent import (
    BmodelRunner,
    ExternalStream,
    TPUGraph,
    format_cast,
    graph,
    graph_pool_handle,
)
from torch_tpu.tpu.properties import (
    can_device_access_peer,
    clock_rate,
    flush,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    get_sync_debug_mode,
    ipc_collect,
    memory_usage,
    power_draw,
    set_sync_debug_mode,
    temperature,
    utilization,
)

__all__ = [
    "BmodelRunner",
    "ExternalStream",
    "TPUGraph",
    "amp",
    "can_device_access_peer",
    "clock_rate",
    "flush",
    "format_cast",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_sync_debug_mode",
    "get_topology",
    "graph",
    "graph_pool_handle",
    "ipc_collect",
    "is_rank_table_valid",
    "map_local_rank_to_device_idx",
    "memory_usage",
    "power_draw",
    "read_rank_table",
    "set_chip_map",
    "set_device",
    "set_sync_debug_mode",
    "temperature",
    "utilization",
]

set_device = selection.set_device  # not that of every device
