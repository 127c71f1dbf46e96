"""The functions of ``torch.tpu``, for vendors' modules to build on."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from ranktable.simulate.device import inventory
from ranktable.simulate.device.device_index import index_of
from ranktable.simulate.device.inventory import current_device, device_count
from ranktable.simulate.device.memory_statistics import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
)
from ranktable.simulate.device.randomness import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ranktable.simulate.device.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "_is_in_bad_fork",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


class device:  # noqa: N801 - the name that torch gives it: torch.cuda.device
    """Make a chip current for a block."""

    def __init__(self, device: Any = None) -> None:  # noqa: ANN401 - None, int, str, torch.device
        """Take whatever names a chip; None for no change."""
        self.idx = index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        """Make it current."""
        self.prev_idx = inventory.current_device()
        inventory.set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        """Make the previous one current."""
        inventory.set_device(self.prev_idx)


class device_of(device):  # noqa: N801 - as above
    """Make the chip of a tensor current for a block; no change for a CPU tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Take any tensor."""
        is_here = tensor.device.type == inventory.device_name()
        super().__init__(tensor.get_device() if is_here else None)


def set_device(device: Any) -> None:  # noqa: ANN401 - int, str, torch.device
    """Make a chip current.

    Raises:
        RuntimeError: It does not exist.
    """
    inventory.set_device(index_of(device))


def synchronize(device: object = None) -> None:
    """Return at once: every operator is done when it returns."""


def is_available() -> bool:
    """Tell whether there is a chip."""
    return inventory.device_count() > 0


def is_initialized() -> bool:
    """Return True: there is nothing to initialise."""
    return True


def init() -> None:
    """Do nothing: there is nothing to initialise."""


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the types that ``torch.autocast`` can compute in."""
    return [torch.float16, torch.bfloat16]


def _is_in_bad_fork() -> bool:  # torch.random asks for it by this name
    return False  # memory of the CPU survives a fork


def plain_module(name: str) -> ModuleType:
    """Return a device module with these functions and no others."""
    module = ModuleType(f"torch.{name}")
    for exported in __all__:
        setattr(module, exported, globals()[exported])
    return module
