"""Encoding of values as their wire dtype, and decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.dist.wire import Encoding, WireType

    Coder = Callable[[torch.Tensor, torch.dtype], torch.Tensor]

_PARTS = 4
_PART_BITS = 16
MOST_RANKS_OF_SPLIT: Final = 1 << 15
"""The sum of so many parts of 16 bits fits in 31 bits."""


def encode(data: torch.Tensor, wire: WireType) -> torch.Tensor:
    """Return values as their wire dtype, in the same memory if their bits are the same.

    Args:
        data: A contiguous tensor.
        wire: The wire dtype.

    Returns:
        A contiguous tensor of ``wire.dtype`` with the same shape; parts and pairs have
        one dimension more.
    """
    if wire.encoding == "itself":
        return data
    dtype: torch.dtype = getattr(torch, wire.dtype)
    if wire.encoding == "ordered bits":
        return _ordered(data, dtype, is_max=wire.reduction == "max")
    return _ENCODERS[wire.encoding](data, dtype)


def decode(
    encoded: torch.Tensor, wire: WireType, dtype: torch.dtype, mean_of: int = 1
) -> torch.Tensor:
    """Return reduced values in their own type.

    Args:
        encoded: The result, as their wire dtype; it may be overwritten.
        wire: The wire dtype.
        dtype: Their own type.
        mean_of: Number to divide a sum by, before it is rounded to their type.
    """
    if mean_of > 1:
        # Torch rounds once more when it divides a complex number than for each part.
        parts = torch.view_as_real(encoded) if encoded.is_complex() else encoded
        parts.div_(mean_of)
    return _DECODERS[wire.encoding](encoded, dtype)


def _as_is(data: torch.Tensor, _dtype: torch.dtype) -> torch.Tensor:
    return data


def _paired(data: torch.Tensor, _dtype: torch.dtype) -> torch.Tensor:
    return torch.view_as_real(data)


def _unpaired(data: torch.Tensor, _dtype: torch.dtype) -> torch.Tensor:
    return torch.view_as_complex(data)


def _flipped(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return data.view(dtype) ^ torch.iinfo(dtype).min


def _unflipped(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (data ^ torch.iinfo(data.dtype).min).view(dtype)


def _odd(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (data & 1).to(dtype)


def _cut_up(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    bits, mask = data.view(torch.int64), (1 << _PART_BITS) - 1
    parts = [bits >> _PART_BITS * each & mask for each in range(_PARTS)]
    return torch.stack(parts).to(dtype)


def _put_together(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    parts = data.to(torch.int64)
    for each in range(1, _PARTS):
        parts[0] += parts[each] << _PART_BITS * each
    return parts[0].view(dtype)


def _ordered(data: torch.Tensor, dtype: torch.dtype, *, is_max: bool) -> torch.Tensor:
    """Return integers in the order of floats; a NaN becomes the extreme.

    For a negative float, all bits except the sign are flipped, because larger bits mean
    a smaller number.

    Args:
        data: Floats.
        dtype: The integers.
        is_max: Whether the largest value is wanted; a NaN then becomes the largest.
    """
    limits = torch.iinfo(dtype)
    floats = data.to(torch.float64 if dtype is torch.int64 else torch.float32)
    bits = floats.view(dtype)
    keys = bits ^ (bits >> limits.bits - 1 & limits.max)
    return keys.masked_fill_(floats.isnan(), limits.max if is_max else limits.min)


def _unordered(keys: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    limits = torch.iinfo(keys.dtype)
    floats = torch.float64 if keys.dtype is torch.int64 else torch.float32
    # By the same rule, the extremes become bits of a NaN.
    return (keys ^ (keys >> limits.bits - 1 & limits.max)).view(floats).to(dtype)


_ENCODERS: Final[dict[Encoding, Coder]] = {
    "itself": _as_is,
    "wider": torch.Tensor.to,
    "wider integer": torch.Tensor.to,
    "flag": torch.Tensor.to,
    "counted flag": torch.Tensor.to,
    "same bits": torch.Tensor.view,
    "flipped bits": _flipped,
    "real pairs": _paired,
    "split integers": _cut_up,
}

_DECODERS: Final[dict[Encoding, Coder]] = {
    **_ENCODERS,
    "counted flag": _odd,
    "flipped bits": _unflipped,
    "ordered bits": _unordered,
    "real pairs": _unpaired,
    "split integers": _put_together,
}
