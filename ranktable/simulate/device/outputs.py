"""Operators that fill tensors given as ``out=``, and resize them if need be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ranktable.simulate.device.memory import adopt, set_storage
from ranktable.simulate.device.plan import run_on_cpu
from ranktable.simulate.device.retag import on_cpu

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from ranktable.simulate.device.arguments import Arguments
    from ranktable.simulate.device.plan import Plan

_NOT_RESIZABLE = "not resizable"  # at::native::resize_bytes_cpu


def run_with_outputs(
    op: OpOverload,
    plan: Plan,
    arguments: Arguments,
    positional: list[Any],
    named: dict[str, Any],
) -> Any:  # noqa: ANN401 - whatever the operator returns
    """Run an operator on the aliases of its outputs, or on fresh ones if these grow."""
    try:
        result = run_on_cpu(op, plan, positional, named)
    except RuntimeError as error:
        # An alias cannot grow. Sizes are settled before anything is computed, so
        # that the operator can run again.
        if _NOT_RESIZABLE not in str(error):
            raise
        _replace(arguments, named, plan.outputs)
        result = run_on_cpu(op, plan, positional, named)
    for name in plan.outputs:
        _adopt(arguments, named.get(name))
    return result


def _replace(
    arguments: Arguments, named: dict[str, Any], outputs: tuple[str, ...]
) -> None:
    for name in outputs:
        alias = named[name]
        fresh = torch.ops.aten.empty.memory_format([0], dtype=alias.dtype, device="cpu")
        arguments.originals[id(fresh)] = arguments.originals[id(alias)]
        named[name] = fresh


def _adopt(arguments: Arguments, filled: object) -> None:
    """Give the caller's tensor the bytes and sizes of what was filled for it."""
    if not isinstance(filled, torch.Tensor):
        return  # a list: the operators that fill lists do not resize them
    original = arguments.originals[id(filled)]
    if original.data_ptr() != filled.data_ptr():
        _take_over(original, filled)
    elif original.size() != filled.size():  # it became smaller, in its own memory
        set_storage(
            original,
            original.untyped_storage(),
            int(original.storage_offset()),
            filled.size(),
            filled.stride(),
        )


def _take_over(original: torch.Tensor, filled: torch.Tensor) -> None:
    if original.size() == filled.size():
        on_cpu(original).copy_(filled)
    else:
        adopt(original, filled)
