"""The short way of an all_reduce that gloo can do on the caller's own memory.

A rank that waits for gloo does nothing else, so what is done in Python comes on top,
and for small tensors it is most of the time. Devices go on while Python runs: for them
the long way costs nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from torch._C._distributed_c10d import AllreduceOptions, ReduceOp

from ranktable.dist.errors import UnsupportedError
from ranktable.dist.native import OPS, Native
from ranktable.dist.planning import make_plan
from ranktable.dist.tensors import dtype_name, is_plain, mark_written
from ranktable.dist.work import LOOK, Pending, end

if TYPE_CHECKING:
    import torch

    from ranktable.dist.action import Turn
    from ranktable.dist.communicator import Communicator


def is_direct(communicator: Communicator, data: torch.Tensor, reduction: str) -> bool:
    """Whether a tensor can be reduced by ``reduce_directly``, with the same result.

    Args:
        communicator: The group.
        data: What the caller gave.
        reduction: How to reduce it.
    """
    return (
        communicator.is_watched
        and is_plain(data)
        and type(reduction) is str
        and _options(data.dtype, reduction) is not None
    )


def reduce_directly(
    communicator: Communicator, turn: Turn, data: torch.Tensor, reduction: str
) -> None:
    """Reduce a tensor in place, over all ranks, and wait for it.

    Args:
        communicator: The group.
        turn: The collective.
        data: A tensor that ``is_direct``.
        reduction: How to reduce it.

    Raises:
        MismatchError: Another rank does something else.
        DistError: It failed.
    """
    group, options = communicator.group, _options(data.dtype, reduction)
    native = Native(communicator, turn, "gloo")
    work = native.begun(lambda: group.allreduce([data], options))
    assert work is not None  # noqa: S101 - gloo's always is
    try:
        if turn.is_compared:
            work.wait(LOOK)
            end(communicator, turn)
        else:
            work.wait()
    except RuntimeError:  # it failed, or others are late
        Pending(work, communicator, turn, "gloo").wait()
    if reduction == "mean":
        data.div_(communicator.size)
    else:
        mark_written(data)


@lru_cache(maxsize=256)  # anything may be given as a reduction
def _options(dtype: torch.dtype, reduction: str) -> AllreduceOptions | None:
    """Return what gloo is told, None if values do not travel as they are."""
    try:
        plan = make_plan("gloo", "all_reduce", dtype_name(dtype), reduction)
    except (ValueError, UnsupportedError):  # the long way says why
        return None
    carrier = plan.carrier
    if plan.recipe != "native" or carrier is None or carrier.encoding != "itself":
        return None
    if dtype.is_complex:  # gloo knows no complex numbers, torch hands it their parts
        return None
    options = AllreduceOptions()
    options.reduceOp = ReduceOp(OPS[carrier.reduction])
    return options
