"""Convert tensors of any strides, type and device to what a backend takes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ranktable.dist.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.dist.members import Members

Tensors = list[torch.Tensor]


def problem_of(data: object, *, is_written: bool = False) -> Exception | None:
    """Return why something cannot be sent, or written to; None if it can."""
    if not isinstance(data, torch.Tensor):
        return TypeError(f"data is {type(data).__name__}, not a tensor")
    if (
        data.is_nested
        or data.layout is not torch.strided
        or data.is_meta
        or data.is_quantized
    ):
        return UnsupportedError(
            "a nested, sparse, meta or quantized tensor has no plain memory to send"
        )
    if hasattr(type(data), "to_local"):
        return UnsupportedError("this tensor is spread over ranks; pass its to_local()")
    if is_written and not data.is_contiguous() and _overlaps(data):
        return UnsupportedError(
            f"elements of the tensor of shape {tuple(data.shape)} and strides "
            f"{data.stride()} share memory, as expand makes them; pass data.clone()"
        )
    return None


def _overlaps(data: torch.Tensor) -> bool:
    """Whether elements share memory."""
    pairs = zip(data.stride(), data.shape, strict=True)
    dimensions = sorted((stride, size) for stride, size in pairs if size != 1)
    reach = 0
    for stride, size in dimensions:
        if stride <= reach:
            break
        reach += (size - 1) * stride
    else:
        return False
    if dimensions[0][0] == 0 or not data.numel():
        return data.numel() > 0
    offsets = torch.zeros(1, dtype=torch.int64)  # strides 2 and 3 may still be apart
    for stride, size in dimensions:
        offsets = (offsets[:, None] + stride * torch.arange(size)).reshape(-1)
    return len(set(offsets.tolist())) < offsets.numel()


def problem_of_all(tensors: object, count: int) -> Exception | None:
    """Return why one tensor for each rank cannot be sent; None if they can."""
    if not isinstance(tensors, (list, tuple)):
        return TypeError(f"tensors is {type(tensors).__name__}, not a list of tensors")
    for problem in map(problem_of, tensors):
        if problem is not None:
            return problem
    if len(tensors) != count:
        return ValueError(f"there are {len(tensors)} tensors for {count} ranks")
    kinds = sorted({f"{each.dtype} on {each.device.type}" for each in tensors})
    if len(kinds) > 1:
        return ValueError(f"the tensors are of several kinds: {', '.join(kinds)}")
    return None


def shapes_of(tensors: object, size: int) -> tuple[list[torch.Size], Exception | None]:
    """Return the shape of the part for each rank, of a list or of one tensor.

    Returns:
        The shapes, and None; or none, and what is wrong.
    """
    if not isinstance(tensors, torch.Tensor):
        parts, problem = parts_of(tensors, size)
        return [part.shape for part in parts], problem
    problem = _problem_of_cut(tensors, size)
    if problem is not None:
        return [], problem
    shape = torch.Size((tensors.shape[0] // size, *tensors.shape[1:]))
    return [shape] * size, None


def parts_of(tensors: object, size: int) -> tuple[Tensors, Exception | None]:
    """Return a tensor for each rank, given as a list or cut from one tensor.

    Returns:
        The tensors, and None; or none, and what is wrong.
    """
    if not isinstance(tensors, torch.Tensor):
        problem = problem_of_all(tensors, size)
        return ([] if problem else list(tensors)), problem  # type: ignore[call-overload]
    problem = _problem_of_cut(tensors, size)
    return ([] if problem else list(tensors.tensor_split(size))), problem


def _problem_of_cut(data: torch.Tensor, size: int) -> Exception | None:
    problem = problem_of(data)
    if problem is None and (data.dim() == 0 or data.shape[0] % size):
        problem = ValueError(
            f"dimension 0 of shape {tuple(data.shape)} cannot be cut into {size} "
            "equal parts; pass a list with a tensor for each rank"
        )
    return problem


def packed(members: Members, data: torch.Tensor) -> torch.Tensor:
    """Return a tensor without gaps on a device of the group: itself if it is one."""
    has_device = data.device.type in members.tables
    if has_device and data.is_contiguous() and not (data.is_conj() or data.is_neg()):
        return data.detach() if data.requires_grad else data  # nearly all tensors
    moved = data.detach() if has_device else data.detach().to(members.device)
    return moved.contiguous().resolve_conj().resolve_neg()


def copy(data: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor, without gaps."""
    return data.detach().clone(memory_format=torch.contiguous_format)


def is_same_memory(data: torch.Tensor, values: torch.Tensor) -> bool:
    """Whether a tensor is another one, as ``packed`` returns it."""
    return values is data or (
        values.data_ptr() == data.data_ptr() and values.device == data.device
    )


def write(data: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Write values to a tensor, unless they are in its memory already; return it."""
    if not is_same_memory(data, values):
        if values.is_cuda:  # it may have been made on another stream
            values.record_stream(torch.cuda.current_stream())
        data.detach().copy_(values.view(data.shape))
    return data


def as_moved(members: Members, operation: str, data: torch.Tensor) -> torch.Tensor:
    """Return a tensor as the backend can move it: as it is, or its bytes."""
    if members.has(operation, data.device.type, data.dtype):
        return data
    members.refuse_missing(operation, data)
    return as_bytes(data)


def as_bytes(data: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor without gaps, in one dimension."""
    flat = data.reshape(-1)
    if flat.numel() <= 1:  # such a tensor may have a stride that view refuses
        flat = flat.as_strided(flat.shape, (1,))
    return flat.view(torch.uint8)


def padded(data: torch.Tensor, count: int) -> torch.Tensor:
    """Return elements in one dimension, followed by zeros up to a count."""
    flat = data.reshape(-1)
    if flat.numel() == count:
        return flat
    longer = torch.zeros(count, dtype=flat.dtype, device=flat.device)
    longer[: flat.numel()] = flat
    return longer


def trimmed(
    moved: torch.Tensor, dtype: torch.dtype, shape: Sequence[int]
) -> torch.Tensor:
    """Return what was moved in its own type and shape, without padding at the end."""
    if moved.dtype is dtype and moved.shape == shape:
        return moved
    flat = moved.reshape(-1)
    flat = flat if flat.dtype is dtype else flat.view(dtype)
    return flat[: torch.Size(shape).numel()].view(shape)
