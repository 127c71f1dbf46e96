"""Tensors that share memory, given to an operator that writes.

Torch refuses to write to memory that it reads elsewhere in the same call. It compares
storages for that, and two aliases of one device storage have two. Where storages are
shared, aliases are made that share theirs too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ranktable.simulate.device.memory import bytes_of
from ranktable.simulate.device.retag import on_cpu, with_bits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def aliases_of_shared(
    values: Iterable[Any],
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return CPU aliases of the device tensors that share a storage.

    Args:
        values: The arguments of a call; tensors in lists count.

    Returns:
        Each such tensor with its alias; mostly none.
    """
    tensors = {id(tensor): tensor for tensor in _device_tensors(values)}
    if len(tensors) == 1:
        return []
    by_storage: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors.values():
        by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    if len(by_storage) == len(tensors):
        return []
    return [
        pair
        for address, sharing in by_storage.items()
        if address and len(sharing) > 1
        for pair in _aliases_with_one_storage(sharing)
    ]


def _device_tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            if not value.is_cpu:
                yield value
        elif isinstance(value, (list, tuple)):
            yield from _device_tensors(value)


def _aliases_with_one_storage(
    tensors: list[torch.Tensor],
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    storage = on_cpu(bytes_of(tensors[0])).untyped_storage()
    for tensor in tensors:
        alias = torch.ops.aten.empty.memory_format(
            [0], dtype=tensor.dtype, device=torch.device("cpu")
        ).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        yield tensor, with_bits_of(tensor, alias)
