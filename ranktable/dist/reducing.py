"""How tensors without gaps are reduced, by any backend."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import torch

from ranktable.dist.encoding import MOST_LIMBS, decode, encode
from ranktable.dist.errors import UnsupportedError
from ranktable.dist.moving import exchange, gather_even
from ranktable.dist.planning import make_plan
from ranktable.dist.tensors import dtype_name, joined
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.dist.carriers import Carrier
    from ranktable.dist.native import Native
    from ranktable.dist.plan import Plan

_FOLDS: Final[dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "sum": torch.add,
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}


def start_all_reduce(
    native: Native, data: torch.Tensor, reduction: str, root: int | None = None
) -> Work[torch.Tensor]:
    """Begin to reduce a tensor; its own memory may be overwritten.

    Args:
        native: The backend's operations.
        data: A tensor without gaps, on a device of the backend.
        reduction: How to reduce.
        root: The member that gets the result, None for all.

    Returns:
        Work whose result is the reduced tensor; for others than the root anything.
    """
    operation = "all_reduce" if root is None else "reduce"
    plan = make_plan(native.backend, operation, dtype_name(data.dtype), reduction)
    if plan.recipe == "native":
        return _carried(native, plan, data, root)
    gathered = gather_even(native, data)
    return gathered.then(lambda parts: fold(parts, plan))


def _carried(
    native: Native, plan: Plan, data: torch.Tensor, root: int | None
) -> Work[torch.Tensor]:
    """Begin to reduce a tensor as its carrier."""
    carrier, size = plan.carrier, native.communicator.size
    assert carrier is not None  # noqa: S101 - it is native
    if carrier.encoding == "limbs" and size > MOST_LIMBS:
        raise UnsupportedError(
            f"{data.dtype} cannot be added exactly on {native.backend} by more than "
            f"{MOST_LIMBS} ranks; reduce within smaller groups first"
        )
    carried = encode(data, carrier)
    if root is None:
        pending = native.all_reduce(carried, carrier.reduction)
    else:
        is_root = native.communicator.member == root
        if not is_root and carried.data_ptr() == data.data_ptr():
            carried = carried.clone()  # gloo leaves partial sums in it
        pending = native.reduce(carried, carrier.reduction, root)
    mean_of = size if plan.reduction == "mean" else 1
    return Work(lambda: decode(carried, carrier, data.dtype, mean_of), (pending,))


def start_reduce_scatter(
    native: Native, parts: list[torch.Tensor], reduction: str
) -> Work[torch.Tensor]:
    """Begin to reduce tensors to one rank each.

    Args:
        native: The backend's operations.
        parts: A tensor for each rank, without gaps; part i has one shape on all ranks.
        reduction: How to reduce.
    """
    communicator = native.communicator
    own = tuple(parts[communicator.member].shape)
    is_even = len({part.numel() for part in parts}) == 1
    dtype = dtype_name(parts[0].dtype)
    plan = make_plan(
        native.backend, "reduce_scatter", dtype, reduction, is_even=is_even
    )
    if plan.recipe == "native":
        assert plan.carrier is not None  # noqa: S101 - it reduces
        return _scattered(native, plan, plan.carrier, parts)
    longest = max(part.numel() for part in parts)
    shapes = [own] * communicator.size
    arrived = exchange(native, parts, shapes, is_even=is_even, longest=longest)
    return arrived.then(lambda found: fold(found, plan))


def _scattered(
    native: Native, plan: Plan, carrier: Carrier, parts: list[torch.Tensor]
) -> Work[torch.Tensor]:
    """Begin to reduce parts of one size by the backend's own operation."""
    data, own = joined(parts), parts[native.communicator.member]
    output = data.new_empty(own.numel())
    pending = native.reduce_scatter(output, data, carrier.reduction)
    mean_of = len(parts) if plan.reduction == "mean" else 1
    return Work(
        lambda: decode(output, carrier, data.dtype, mean_of).view(own.shape), (pending,)
    )


def fold(parts: Sequence[torch.Tensor], plan: Plan) -> torch.Tensor:
    """Return what tensors of all ranks become, reduced in the order of the ranks.

    Args:
        parts: One tensor of each rank, all of one shape.
        plan: How they are reduced.
    """
    carrier = plan.carrier
    assert carrier is not None  # noqa: S101 - it folds
    carried = reduce(
        _FOLDS[carrier.reduction], (encode(part, carrier) for part in parts)
    )
    mean_of = len(parts) if plan.reduction == "mean" else 1
    return decode(carried, carrier, parts[0].dtype, mean_of)
