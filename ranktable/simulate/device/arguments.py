"""The arguments of one call: to the CPU, and the results back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ranktable.simulate.device import inventory
from ranktable.simulate.device.overlap import aliases_of_shared
from ranktable.simulate.device.retag import on_cpu, on_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.simulate.device.plan import Plan

_CPU = torch.device("cpu")
_Device = type(_CPU)  # a vendor's module may put another class in torch.device
_Tensor = torch.Tensor


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

    def __init__(self, plan: Plan) -> None:
        """Start without a chip; the first device tensor gives it."""
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

    def lower(self, value: Any) -> Any:  # noqa: ANN401 - whatever operators take
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
        """Look at the arguments of an operator that writes.

        A CPU tensor that it changes is refused beside device tensors, even if it is a
        scalar. Tensors that share memory get aliases that do.
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

    def lift(self, value: Any) -> Any:  # noqa: ANN401 - whatever operators return
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
            self._refuse_two_devices(f"{inventory.device_name()}:{chip}")
            self._chip = chip
            if self._has_host_tensor:
                self._refuse_two_devices("cpu")
        # One alias for a tensor given twice: torch sees by identity that it writes
        # to what it reads.
        alias = self._aliases.get(id(tensor))
        if alias is None:
            alias = self._aliases[id(tensor)] = on_cpu(tensor)
            self.originals[id(alias)] = tensor
        return alias

    def _refuse_two_devices(self, other: str) -> None:
        if self._chip is not None:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least "
                f"two devices, {inventory.device_name()}:{self._chip} and {other}!"
            )

    def _lower_device(self, device: torch.device) -> torch.device:
        if device.type != inventory.device_name():
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
        return on_device(tensor, self.chip if self._target is None else self._target)
