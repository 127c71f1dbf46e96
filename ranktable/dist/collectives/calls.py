"""What all collectives begin and end with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import torch

from ranktable.dist.agreement import agree
from ranktable.dist.native import Native
from ranktable.dist.planning import make_plan
from ranktable.dist.tensors import dtype_name, problem_of
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.dist.action import Action
    from ranktable.dist.communicator import Communicator

Result = TypeVar("Result")


def name_of(data: object) -> str | None:
    """Return the type of a tensor's elements, None for what is no tensor."""
    return dtype_name(data.dtype) if isinstance(data, torch.Tensor) else None


def shape_of(data: object) -> tuple[int, ...] | None:
    """Return the shape of a tensor, None for what has none."""
    if not isinstance(data, torch.Tensor) or data.is_nested:
        return None
    return tuple(data.shape)


def problem_of_all(
    tensors: object, count: int, *, is_told: bool = False
) -> Exception | None:
    """Return why tensors cannot be communicated together, None if they can.

    Args:
        tensors: What the caller gave.
        count: How many there have to be, one for each rank.
        is_told: Whether ranks tell each other their shapes.
    """
    if not isinstance(tensors, (list, tuple)):
        return TypeError(f"tensors is {type(tensors).__name__}, not a list of tensors")
    for each in tensors:
        problem = problem_of(each, is_told=is_told)
        if problem is not None:
            return problem
    if len(tensors) != count:
        return ValueError(f"there are {len(tensors)} tensors for {count} ranks")
    kinds = sorted({(dtype_name(each.dtype), each.device.type) for each in tensors})
    if len(kinds) > 1:
        listed = ", ".join(" on ".join(kind) for kind in kinds)
        return ValueError(f"the tensors are of several kinds: {listed}")
    return None


def begin(
    communicator: Communicator,
    describe: Callable[[], Action],
    problem: Exception | None,
    data: object = None,
    request: tuple[str, str, str | None] | None = None,
) -> Native:
    """Agree on a collective and return the operations that it is made of.

    Args:
        communicator: The group.
        describe: Returns what this rank is about to do.
        problem: Why it cannot.
        data: One of its tensors, None for what is not known here.
        request: What is to be planned, operation, type and reduction; None for what
            is sure to have a plan.

    Raises:
        Exception: The problem, or that there is no way.
        MismatchError: The ranks differ.
    """
    device = data.device if isinstance(data, torch.Tensor) else communicator.device
    backend = communicator.table_for(device)
    if problem is None and request is not None:
        try:
            make_plan(backend, *request)
        except (ValueError, RuntimeError) as error:
            problem = error
    turn = agree(
        communicator, lambda: on_backend(describe(), backend), problem, request or ()
    )
    return Native(communicator, turn, backend)


def on_backend(action: Action, backend: str) -> Action:
    """Return an action that says where it is done: ranks have to do it alike."""
    return replace(action, details=[*action.details, f"on {backend}"])


def all_placed(
    device: torch.device, tensors: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Return tensors on a device."""
    return [each.to(device) for each in tensors]


def done(result: Result) -> Work[Result]:
    """Return work that was done before."""
    return Work(lambda: result)


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors of their own, with the same values."""
    return [copy(each) for each in tensors]


def copy(data: torch.Tensor) -> torch.Tensor:
    """Return a tensor without gaps of its own, with the same values."""
    return data.detach().clone(memory_format=torch.contiguous_format)
