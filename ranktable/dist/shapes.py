"""What ranks tell each other about their tensors before these travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from ranktable.dist.errors import MismatchError
from ranktable.dist.tensors import DTYPES, MOST_DIMENSIONS, dtype_name
from ranktable.dist.verdicts import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.dist.native import Native

_WIDTH: Final = MOST_DIMENSIONS + 2  # the type and the number of dimensions come first

Shape = tuple[int, ...]


def tell_all(native: Native, data: torch.Tensor) -> list[Shape]:
    """Return the shapes of the tensors of all ranks, in the order of the ranks.

    Raises:
        MismatchError: The tensors are of different types.
    """
    rows = gather_numbers(native.aside, _row(data))
    _refuse_types(native, [row[0] for row in rows])
    return [_shape(row) for row in rows]


def tell_each(native: Native, parts: Sequence[torch.Tensor]) -> list[Shape]:
    """Return the shapes of what comes from all ranks, when each gets a part.

    Raises:
        MismatchError: The tensors are of different types.
    """
    rows = [_row(part) for part in parts]
    device = native.communicator.device
    told = torch.tensor(rows, device=device).reshape(-1)
    heard = torch.empty_like(told)
    native.aside.all_to_all(heard, told).wait()
    rows = heard.view(-1, _WIDTH).tolist()
    _refuse_types(native, [row[0] for row in rows])
    return [_shape(row) for row in rows]


def tell_from(
    native: Native, parts: Sequence[torch.Tensor] | None, member: int
) -> tuple[list[Shape], torch.Tensor]:
    """Return the shapes of tensors that one rank has, one for each rank.

    Args:
        native: The backend's operations.
        parts: The tensors, on the rank that has them.
        member: Which that is.

    Returns:
        The shapes, and an empty tensor of their type where they are to arrive.
    """
    communicator = native.communicator
    kinds = list(communicator.tables)
    count = 1 + communicator.size * _WIDTH
    numbers = [0] * count
    if parts is not None:
        kind = kinds.index(communicator.device_for(parts[0]).type)
        numbers = [kind, *(number for part in parts for number in _row(part))]
    told = torch.tensor(numbers, device=communicator.device)
    native.aside.broadcast(told, member).wait()
    kind, *numbers = told.tolist()
    rows = [numbers[begin : begin + _WIDTH] for begin in range(0, count - 1, _WIDTH)]
    device = communicator.device_of(kinds[kind])
    empty = torch.empty(0, dtype=DTYPES[rows[0][0]], device=device)
    return [_shape(row) for row in rows], empty


def tell_most(native: Native, count: int) -> int:
    """Return the largest number that any rank has."""
    return max(row[0] for row in gather_numbers(native.aside, [count]))


def gather_numbers(native: Native, numbers: Sequence[int]) -> list[list[int]]:
    """Return some integers of each rank, in the order of the ranks."""
    own = torch.tensor(numbers, dtype=torch.int64, device=native.communicator.device)
    rows = [torch.empty_like(own) for _ in range(native.communicator.size)]
    native.all_gather(rows, own).wait()
    return [row.tolist() for row in rows]


def _row(data: torch.Tensor) -> list[int]:
    filler = [0] * (MOST_DIMENSIONS - data.dim())
    return [DTYPES.index(data.dtype), data.dim(), *data.shape, *filler]


def _shape(row: list[int]) -> Shape:
    return tuple(row[2 : 2 + row[1]])


def _refuse_types(native: Native, codes: Sequence[int]) -> None:
    if len(set(codes)) == 1:
        return
    number = native.turn.number if native.turn is not None else 0
    said = [dtype_name(DTYPES[code]) for code in codes]
    raise MismatchError(table_of(native.communicator, number, said))
