"""Storages on the device.

Torch has no allocator for the device: asked for one in C++, the interpreter ends with a
segmentation fault. So a storage on the device is made as that of a device tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import UntypedStorage

from ranktable.simulate.device import inventory

_device = torch.device  # a vendor's module may put another class in its place
_original_new: Any = UntypedStorage.__new__
_original_resize: Any = UntypedStorage.resize_


def register() -> None:
    """Let ``torch.UntypedStorage(n, device="tpu")`` make one."""
    for name, method in (("__new__", _new), ("resize_", _resize)):
        setattr(UntypedStorage, name, method)


def _resize(self: UntypedStorage, size: int) -> Any:  # noqa: ANN401 - as above
    if self.device.type == inventory.device_name():
        raise RuntimeError(
            f"the storage of a simulated {self.device.type} cannot be resized, "
            "as FSDP does; tensor.resize_ gives the tensor another one"
        )
    return _original_resize(self, size)


def _new(
    cls: type[UntypedStorage],
    *args: Any,  # noqa: ANN401 - a size, or a sequence of bytes, or nothing
    device: Any = None,  # noqa: ANN401 - whatever torch.device takes
    **kwargs: Any,  # noqa: ANN401 - passed on
) -> Any:  # noqa: ANN401 - a storage; torch's own method has no type
    if device is None:
        return _original_new(cls, *args, **kwargs)
    where = _device(device)
    if where.type != inventory.device_name():
        return _original_new(cls, *args, device=where, **kwargs)
    return _bytes(*args).to(where).untyped_storage()


def _bytes(content: Any = 0) -> torch.Tensor:  # noqa: ANN401 - as above
    if isinstance(content, int):
        return torch.empty(content, dtype=torch.uint8, device="cpu")
    return torch.tensor(list(content), dtype=torch.uint8, device="cpu")
