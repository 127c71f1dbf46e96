"""The device hooks: that it is there, and an allocator of pinned memory.

Torch lets Python answer the first (from 2.10), not the second. DistributedDataParallel
with ``find_unused_parameters``, data loaders and ``torch.empty(..., pin_memory=True)``
ask for it.
"""

from __future__ import annotations

import ctypes
import re

from torch._C import _acc

from ranktable.simulate.device import inventory, pinned, virtual_functions
from ranktable.simulate.device.libraries import library

_TABLE = "_ZTVN2at25PrivateUse1HooksInterfaceE"
_COUNT = 24
# ATen/detail/AcceleratorHooksInterface.h. Python's class overrides (o) five functions
# from isPinnedPtr on, of which the second returns the allocator, and none of those from
# init to maybeExchangeDevice, which are before it, nor the one after.
_OVERRIDDEN = re.compile(r"-{5,}(o{5})-")
_ALLOCATOR = 1  # among the five
_allocator_function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_kept: list[object] = []  # what C++ holds the address of


class _Hooks(_acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, device_index: int) -> bool:
        return device_index in inventory.chips()

    def is_built(self) -> bool:
        return True


def register() -> None:
    """Register the hooks, once in a process.

    Where the functions are not in the order that is known, torch refuses to pin memory.
    """
    hooks = _Hooks()
    _kept.append(hooks)
    _acc.register_python_privateuseone_hook(hooks)
    address = virtual_functions.address_in(hooks)
    position = _position_of_allocator(address)
    if position is not None:
        virtual_functions.replace(
            address, {position: _allocator_function(_get_allocator)}
        )


def _get_allocator(_: int) -> int:
    return pinned.allocator()


def _position_of_allocator(hooks: int) -> int | None:
    base = virtual_functions.exported_table(library("torch_python"), _TABLE)
    pairs = zip(
        virtual_functions.functions_of(hooks, _COUNT),
        virtual_functions.functions_at(base, _COUNT),
        strict=True,
    )
    found = _OVERRIDDEN.search("".join("-" if a == b else "o" for a, b in pairs))
    return None if found is None else found.start(1) + _ALLOCATOR
