"""Convert tensors of any type and layout to what a backend accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from ranktable.dist.collective_errors import UnsupportedError
from ranktable.dist.steps import is_plain, mark_written

if TYPE_CHECKING:
    from collections.abc import Sequence

DTYPES: Final = sorted(
    {each for each in vars(torch).values() if isinstance(each, torch.dtype)}, key=str
)
"""All types of torch, in the same order on every rank."""

_NAMES: Final = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES}


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's name of a type: ``float32``."""
    return _NAMES[dtype]


MOST_DIMENSIONS: Final = 16
"""Most dimensions of a tensor whose shape ranks can exchange."""


def problem_of(
    data: object, *, is_written: bool = False, sends_shape: bool = False
) -> Exception | None:
    """Return why something cannot be sent, None if it can.

    Args:
        data: The argument of the caller.
        is_written: Whether values are written to it.
        sends_shape: Whether ranks exchange its shape.
    """
    if not sends_shape and is_plain(data):
        return None
    if not isinstance(data, torch.Tensor):
        return TypeError(f"data is {type(data).__name__}, not a tensor")
    kind = _kind_without_memory(data)
    if kind is not None:
        return UnsupportedError(f"a {kind} tensor has no plain memory to communicate")
    if sends_shape and data.dim() > MOST_DIMENSIONS:
        return UnsupportedError(
            f"the tensor has {data.dim()} dimensions; ranks exchange shapes of at most "
            f"{MOST_DIMENSIONS}"
        )
    if hasattr(type(data), "to_local"):
        return UnsupportedError(
            f"a {type(data).__name__} is already spread over ranks; pass its to_local()"
        )
    return _problem_of_writing(data) if is_written else None


def _problem_of_writing(data: torch.Tensor) -> Exception | None:
    """Return why a tensor cannot be written, None if it can."""
    if data.is_inference() and not torch.is_inference_mode_enabled():
        return UnsupportedError(
            "the tensor was made in inference mode, so outside of it nothing can be "
            "written to the tensor; pass data.clone()"
        )
    if _overlaps(data):
        return UnsupportedError(
            f"several elements of the tensor of shape {tuple(data.shape)} and strides "
            f"{data.stride()} may share memory, as expand makes them, so nothing is "
            "written to it; pass data.clone()"
        )
    return None


def _kind_without_memory(data: torch.Tensor) -> str | None:
    if data.is_nested:
        return "nested"
    if data.is_meta:
        return "meta"
    if data.is_quantized:
        return "quantized"
    return None if data.layout is torch.strided else "sparse"


def _overlaps(data: torch.Tensor) -> bool:
    """Whether elements share memory, as far as strides show it."""
    if data.is_contiguous() or data.numel() <= 1:
        return False
    pairs = zip(data.stride(), data.shape, strict=True)
    reach = 0
    for stride, size in sorted(pair for pair in pairs if pair[1] > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def packed(data: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a contiguous tensor on a device: the tensor itself if it is one."""
    if data.device.type == device.type and is_plain(data):
        return data
    if data.requires_grad:
        data = data.detach()
    if data.device.type != device.type:
        data = data.to(device)
    return data.contiguous().resolve_conj().resolve_neg()


def write(data: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Write values to a tensor unless they are the same memory, and return it."""
    if values.data_ptr() != data.data_ptr() or values.device != data.device:
        # Other than that of detach, a change of data is not counted; see mark_written.
        data.data.copy_(values.view(data.shape))
    mark_written(data)
    return data


def as_bytes(data: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor without gaps, in one dimension."""
    flat = data.reshape(-1)
    if flat.numel() <= 1:  # such a tensor may have a stride that view refuses
        flat = flat.as_strided(flat.shape, (1,))
    return flat.view(torch.uint8)


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the elements of tensors without gaps, in one dimension."""
    flat = [part.reshape(-1) for part in parts]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def padded(data: torch.Tensor, count: int) -> torch.Tensor:
    """Return elements in one dimension, followed by zeros up to a count."""
    flat = data.reshape(-1)
    if flat.numel() == count:
        return flat
    longer = flat.new_zeros(count)
    longer[: flat.numel()] = flat
    return longer


def name_of(data: object) -> str | None:
    """Return the name of a tensor's type, None if it is not a tensor."""
    return dtype_name(data.dtype) if isinstance(data, torch.Tensor) else None


def problem_of_all(
    tensors: object, count: int, *, sends_shape: bool = False
) -> Exception | None:
    """Return why several tensors cannot be sent, None if they can.

    Args:
        tensors: What the caller gave.
        count: The number of ranks, which is the number of tensors needed.
        sends_shape: Whether ranks exchange their shapes.
    """
    if not isinstance(tensors, (list, tuple)):
        return TypeError(f"tensors is {type(tensors).__name__}, not a list of tensors")
    for each in tensors:
        problem = problem_of(each, sends_shape=sends_shape)
        if problem is not None:
            return problem
    if len(tensors) != count:
        return ValueError(f"there are {len(tensors)} tensors for {count} ranks")
    kinds = sorted({(dtype_name(each.dtype), each.device.type) for each in tensors})
    if len(kinds) > 1:
        listed = ", ".join(" on ".join(kind) for kind in kinds)
        return ValueError(f"the tensors are of several kinds: {listed}")
    return None


def copy(data: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy of a tensor."""
    return data.detach().clone(memory_format=torch.contiguous_format)


def cut(
    tensors: Sequence[torch.Tensor] | torch.Tensor, size: int
) -> tuple[list[torch.Tensor], Exception | None]:
    """Return a tensor for each rank, and the error if this is not possible.

    Args:
        tensors: The argument of the caller: one for each rank, or one to divide.
        size: Number of ranks.
    """
    if not isinstance(tensors, torch.Tensor):
        problem = problem_of_all(tensors, size)
        return ([] if problem is not None else list(tensors)), problem
    problem = problem_of(tensors)
    if problem is not None:
        return [], problem
    if tensors.dim() == 0 or tensors.shape[0] % size:
        return [], ValueError(
            f"dimension 0 of shape {tuple(tensors.shape)} cannot be cut into {size} "
            "equal parts; pass a list with a tensor for each rank"
        )
    return list(tensors.chunk(size)) if tensors.shape[0] else [tensors] * size, None
