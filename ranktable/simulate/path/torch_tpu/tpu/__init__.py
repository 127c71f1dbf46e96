"""``torch_tpu.tpu``, which is ``torch.tpu`` too."""

# ruff: noqa: F401 - what is imported is what the module has

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import torch

# The functions of every torch device: streams, memory, seeds. Later ones replace them.
from ranktable.simulate.device.module import *  # noqa: F403
from ranktable.simulate.device.module import _is_in_bad_fork
from torch_tpu import local_ranks, refused
from torch_tpu.local_ranks import (
    get_topology,
    is_rank_table_valid,
    map_local_rank_to_device_idx,
    read_rank_table,
    set_chip_map,
)
from torch_tpu.tpu import amp
from torch_tpu.tpu.properties import (
    can_device_access_peer,
    flush,
    get_device_name,
    get_device_properties,
)

if TYPE_CHECKING:
    from collections.abc import Callable

globals().update(refused.ABSENT)

BACKEND = "SG2260"
default_generators: tuple[torch.Generator, ...] = ()

memory_stats_as_nested_dict = memory_stats  # noqa: F405 - of every device

# Not that of every device.
set_device = local_ranks.set_device


def is_autocast_enabled() -> bool:
    """Whether ``torch.autocast("tpu")`` is on."""
    return torch.is_autocast_enabled("tpu")


def set_autocast_enabled(enabled: bool) -> None:
    """Turn ``torch.autocast("tpu")`` on or off."""
    torch.set_autocast_enabled("tpu", enabled)


def get_autocast_dtype() -> torch.dtype:
    """Return the type that ``torch.autocast("tpu")`` casts to."""
    return torch.get_autocast_dtype("tpu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Set the type that ``torch.autocast("tpu")`` casts to."""
    torch.set_autocast_dtype("tpu", dtype)


def is_OpTimer_enabled() -> bool:  # noqa: N802 - the vendor's name
    """Return False: the time of operators is not measured."""
    return False


def _lazy_call(function: Callable[[], object]) -> None:
    """Call a function at once, because nothing is initialised later."""
    function()


_lazy_init = init  # noqa: F405 - of every device

# The vendor has these names in several files, from which scripts import them too.
for _part in (
    "autocast_utils",
    "memory",
    "optimer_utils",
    "random",
    "streams",
    "utils",
    "backend",
):
    sys.modules[f"{__name__}.{_part}"] = sys.modules[__name__]

# A file of that name would hide the class when a script imports it.
_device_names = sys.modules[f"{__name__}.device"] = ModuleType(f"{__name__}.device")
_device_names.__dict__.update(__device__="privateuseone", __tpu_device__="sophgo")
