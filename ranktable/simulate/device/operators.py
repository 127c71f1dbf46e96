"""Every operator of the device, run on the CPU.

Torch calls ``run`` for an operator without a kernel of its own. Device tensors in the
arguments are replaced by their aliases on the CPU, and the CPU kernel of the operator
is called directly.

For some operators torch has a recipe made of other operators, and prefers it to the
fallback. This would pass through Python several times instead of once. If the CPU has a
kernel for such an operator, it is forwarded to this kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _dispatch_get_registrations_for_dispatch_key

from ranktable.simulate.device import inventory
from ranktable.simulate.device.aliases import (
    CPU_KEYS,
    adopt,
    aliases_of_shared,
    on_cpu,
    on_device,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload


_CPU = torch.device("cpu")
_Device = type(_CPU)  # a vendor's module may replace torch.device by another class
_Tensor = torch.Tensor


_NUMBERS = (bool, int, float, complex)

# Operators that may have tensors on the CPU beside tensors on the device, with the
# positions of these: indices, and lengths that the host needs. For all other operators
# torch accepts only scalars on the CPU.
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
    """How an operator is run.

    Attributes:
        is_view: Whether it only changes how its tensor is seen, and touches no bytes.
        outputs: Names of the tensors that it fills, and may resize.
        tensors: Positions of its tensors; torch may have a number there instead.
        changes_first: Whether it changes its first argument in place.
        host_arguments: Positions of arguments that may stay on the CPU.
    """

    is_view: bool
    outputs: tuple[str, ...]
    tensors: tuple[int, ...]
    changes_first: bool
    host_arguments: frozenset[int]


@cache
def plan_of(op: OpOverload) -> OperatorPlan:
    """Return the plan for an operator."""
    schema = op._schema
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
    schema = op._schema
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    return schema.name.removeprefix("aten::") + overload


def _is_view(op: OpOverload) -> bool:
    return torch.Tag.inplace_view in op.tags or any(
        result.alias_info is not None and not result.alias_info.is_write
        for result in op._schema.returns
    )


def run_on_cpu(
    op: OpOverload, plan: OperatorPlan, positional: Sequence[Any], named: dict[str, Any]
) -> Any:
    """Run the CPU kernel of an operator, without autograd and autocast."""
    for position in plan.tensors:
        # A number stands for a tensor that does not change the type of others; the
        # overload for numbers handles this.
        if position < len(positional) and type(positional[position]) in _NUMBERS:
            return op.overloadpacket(*positional, **named)
    return op.redispatch(CPU_KEYS, *positional, **named)


class Arguments:
    """The arguments of one call.

    Attributes:
        originals: The device tensor of each alias, by the alias's id.
    """

    __slots__ = (
        "_aliases",
        "_chip",
        "_has_host_tensor",
        "_host_arguments",
        "_is_lifted",
        "_may_be_host",
        "_target",
        "originals",
    )

    def __init__(self, plan: OperatorPlan) -> None:
        """Start without a chip; the first device tensor sets it."""
        self.originals: dict[int, torch.Tensor] = {}
        self._aliases: dict[int, torch.Tensor] = {}
        self._chip: int | None = None
        self._target: int | None = None
        self._is_lifted = True
        self._has_host_tensor = False
        self._host_arguments = plan.host_arguments
        self._may_be_host = False

    def lower_all(self, values: Sequence[Any]) -> list[Any]:
        """Return positional arguments with CPU aliases in place of device tensors."""
        if not self._host_arguments:
            return [self.lower(value) for value in values]
        lowered = []
        for position, value in enumerate(values):
            self._may_be_host = position in self._host_arguments
            lowered.append(self.lower(value))
        self._may_be_host = False
        return lowered

    def lower(self, value: Any) -> Any:
        """Return a value with CPU aliases in place of device tensors.

        Raises:
            RuntimeError: The tensors are on more than one device.
        """
        kind = type(value)
        if kind is _Tensor or isinstance(value, _Tensor):
            return self._lower_tensor(value)
        if kind is list or kind is tuple:
            return [self.lower(item) for item in value]
        if kind is _Device:
            return self._lower_device(value)
        return value

    def prepare_writing(self, written: Sequence[Any], values: Sequence[Any]) -> None:
        """Prepare the arguments of an operator that writes.

        If it changes a CPU tensor and has device tensors too, it is refused, even for a
        scalar. Tensors that share memory get aliases that share it too.
        """
        for value in written:
            if isinstance(value, _Tensor) and value.is_cpu:
                self._has_host_tensor = True
        for tensor, alias in aliases_of_shared(values):
            self._aliases[id(tensor)] = alias
            self.originals[id(alias)] = tensor

    def lower_named(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return keyword arguments with CPU aliases in place of device tensors."""
        # Memory of the device is never pinned; the flag would pin the CPU's.
        return {
            name: self.lower(value)
            for name, value in named.items()
            if name != "pin_memory"
        }

    def lift(self, value: Any) -> Any:
        """Return a result with device tensors in place of CPU tensors.

        Raises:
            RuntimeError: They would be on a chip that does not exist.
        """
        if isinstance(value, _Tensor):
            return self._lift_tensor(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.lift, value))
        return value

    @property
    def chip(self) -> int:
        """The chip of the tensors, or the current one if there was none."""
        return inventory.current_device() if self._chip is None else self._chip

    def _lower_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        chip = tensor.get_device()
        if chip < 0:
            if tensor.dim() and not self._may_be_host:
                self._has_host_tensor = True
                self._refuse_two_devices(tensor.device.type)
            return tensor
        if chip != self._chip:
            self._refuse_two_devices(f"tpu:{chip}")
            self._chip = chip
            if self._has_host_tensor:
                self._refuse_two_devices("cpu")
        # If a tensor is given twice, it has one alias: torch compares identities to
        # find out whether an operator writes to what it reads.
        alias = self._aliases.get(id(tensor))
        if alias is None:
            alias = self._aliases[id(tensor)] = on_cpu(tensor)
            self.originals[id(alias)] = tensor
        return alias

    def _refuse_two_devices(self, other: str) -> None:
        if self._chip is not None:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least "
                f"two devices, tpu:{self._chip} and {other}!"
            )

    def _lower_device(self, device: torch.device) -> torch.device:
        if device.type != inventory.DEVICE_TYPE:
            self._is_lifted = False
            return device
        index: int | None = device.index
        self._target = inventory.current_device() if index is None else index
        return _CPU

    def _lift_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        original = self.originals.get(id(tensor))
        if original is not None:
            return original
        if not self._is_lifted:
            return tensor
        if tensor.is_quantized or tensor.is_nested:
            raise not_dense("nested" if tensor.is_nested else "quantised")
        if tensor.layout is not torch.strided:
            raise not_dense(str(tensor.layout).removeprefix("torch."))
        return on_device(tensor, self.chip if self._target is None else self._target)


def not_dense(kind: str) -> RuntimeError:
    """Return the error for a tensor of another kind: ``sparse_coo``, ``quantised``."""
    return RuntimeError(
        "a simulated tpu holds dense tensors only, and this one "
        f"is {kind}; convert it to dense, or keep it on the CPU"
    )


def run_with_outputs(
    op: OpOverload,
    plan: OperatorPlan,
    arguments: Arguments,
    positional: list[Any],
    named: dict[str, Any],
) -> Any:
    """Run an operator on new outputs, and give their contents to the caller's.

    An alias cannot grow, and the operator may resize its output. It does not resize one
    that it also reads, and none in a list.
    """
    fresh = {
        name: torch.ops.aten.empty.memory_format([0], dtype=alias.dtype, device=_CPU)
        for name in plan.outputs
        if isinstance(alias := named.get(name), torch.Tensor)
        and all(alias is not value for value in positional)
    }
    originals = {name: arguments.originals[id(named[name])] for name in fresh}
    result = run_on_cpu(op, plan, positional, {**named, **fresh})
    for name, original in originals.items():
        filled = fresh[name]
        arguments.originals[id(filled)] = original
        if original.size() == filled.size():
            on_cpu(original).copy_(filled)
        else:
            adopt(original, filled)
    return result


def run(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Run an operator on the CPU and return its results on the device.

    Raises:
        RuntimeError: Its tensors are on more than one device, or on a missing chip.
    """
    plan = plan_of(op)
    if plan.is_view:
        # The CPU's view kernels touch only sizes and strides. Given the device's own
        # tensor they keep its storage. In-place operators on views, DDP's buckets and
        # torch.save need this.
        return op.redispatch(CPU_KEYS, *args, **kwargs)
    arguments = Arguments(plan)
    if plan.changes_first:
        arguments.prepare_writing(args[:1], args)
    elif plan.outputs:
        arguments.prepare_writing([kwargs[name] for name in plan.outputs], ())
    lowered = arguments.lower_all(args)
    named = arguments.lower_named(kwargs) if kwargs else kwargs
    if plan.outputs:
        result = run_with_outputs(op, plan, arguments, lowered, named)
    else:
        result = run_on_cpu(op, plan, lowered, named)
    return arguments.lift(result)


_RECIPES = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
_STRUCTURED_RECIPE = "CompositeExplicitAutogradNonFunctional"
_NAMESPACE = "aten::"
# Operators with recipes on the CPU too: frequent ones, and convolution and lstsq, which
# ask for the device.
_WHOLE = frozenset(
    {
        "_convolution",
        "clone",
        "convolution",
        "convolution_backward",
        "empty_like",
        "full",
        "linalg_lstsq",
        "new_empty",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
    }
)


def forwarded_names() -> set[str]:
    """Return the operators, as ``name.overload``."""
    on_cpu = _registered("CPU")
    recipes = set().union(*map(_registered, _RECIPES))
    return set(_WHOLE) | _registered(_STRUCTURED_RECIPE) | (on_cpu & recipes)


def _registered(key: str) -> set[str]:
    names = _dispatch_get_registrations_for_dispatch_key(key)
    return {
        name.removeprefix(_NAMESPACE) for name in names if name.startswith(_NAMESPACE)
    }


def forward(name: str) -> Callable[..., Any]:
    """Return a kernel that runs one operator on the CPU.

    The operator is looked up when it is first used, because looking up all 600 would
    take longer than the rest of the start.
    """
    op: OpOverload | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal op
        if op is None:
            op = operator_named(name)
        return run(op, *args, **kwargs)

    return kernel


def operator_named(name: str) -> OpOverload:
    """Return the operator with the name ``name.overload`` in ``aten``."""
    packet, _, overload = name.partition(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return found
