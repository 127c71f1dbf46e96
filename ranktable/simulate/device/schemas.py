"""What the schema of an operator says about running it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import _C

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._ops import OpOverload

_NUMBERS = (bool, int, float, complex)
CPU_KEYS = _C.DispatchKeySet(_C.DispatchKey.CPU)

# Operators some of whose tensors may be on the CPU beside others on a device, with the
# positions of these: indices, and lengths that the host needs. Of all others torch
# takes scalars only.
_HOST_ARGUMENTS = {
    "_ctc_loss.Tensor": {1, 2, 3},
    "_index_put_impl_": {1},
    "_pack_padded_sequence": {1},
    "_pack_padded_sequence_backward": {2},
    "_unsafe_index.Tensor": {1},
    "_unsafe_index_put": {1},
    "index.Tensor": {1},
    "index.Tensor_out": {1},
    "index_put": {1},
    "index_put_": {1},
}


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """How to run an operator.

    Attributes:
        is_view: It only changes how its tensor is seen; no bytes are touched.
        outputs: Names of the tensors that it fills, and may resize.
        tensors: Positions of its tensors; torch gives a number where the caller did.
        changes_first: Its first argument is a tensor that it changes in place.
        host_arguments: Positions of arguments that may stay on the CPU.
    """

    is_view: bool
    outputs: tuple[str, ...]
    tensors: tuple[int, ...]
    changes_first: bool
    host_arguments: frozenset[int]


@cache
def plan_of(op: OpOverload) -> OperatorPlan:
    """Return how to run an operator."""
    schema = op._schema  # noqa: SLF001 - an operator has no public schema
    written = [
        argument
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    first = schema.arguments[0] if schema.arguments else None
    return OperatorPlan(
        is_view=_is_view(op),
        outputs=tuple(argument.name for argument in written if argument.kwarg_only),
        tensors=tuple(
            position
            for position, argument in enumerate(schema.arguments)
            if str(argument.type) == "Tensor" and not argument.kwarg_only
        ),
        changes_first=first in written and str(first.type) == "Tensor",
        host_arguments=frozenset(_HOST_ARGUMENTS.get(_short_name(op), ())),
    )


def _short_name(op: OpOverload) -> str:
    schema = op._schema  # noqa: SLF001 - as above
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    return schema.name.removeprefix("aten::") + overload


def _is_view(op: OpOverload) -> bool:
    return torch.Tag.inplace_view in op.tags or any(
        result.alias_info is not None and not result.alias_info.is_write
        for result in op._schema.returns  # noqa: SLF001 - as above
    )


def run_on_cpu(
    op: OpOverload, plan: OperatorPlan, positional: Sequence[Any], named: dict[str, Any]
) -> Any:  # noqa: ANN401 - whatever the operator returns
    """Run the CPU kernel of an operator, past autograd and autocast."""
    for position in plan.tensors:
        # A number stands for a tensor that promotes no others; the overload that
        # takes numbers knows.
        if position < len(positional) and type(positional[position]) in _NUMBERS:
            return op.overloadpacket(*positional, **named)
    return op.redispatch(CPU_KEYS, *positional, **named)
