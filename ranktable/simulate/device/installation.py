"""Install the device in torch, for the rest of the process.

The device uses interfaces that torch may change. Each is tried once at the start, so
that a missing one is named, instead of a failure later in a script.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _get_privateuse1_backend_name
from torch.utils import backend_registration

from ranktable._error import Error
from ranktable.simulate.device import inventory
from ranktable.simulate.device.aliases import on_cpu, on_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType


class UnsupportedTorchError(Error, ImportError):
    """This version of torch does not support the simulated device."""


_FIRST = "2.10"  # the first version in which Python can set up a device


@contextmanager
def step(name: str) -> Iterator[None]:
    """Name a step if it fails.

    Raises:
        UnsupportedTorchError: It failed.
    """
    try:
        yield
    except Exception as error:
        is_lacking = isinstance(error, (AttributeError, ImportError))
        needed = f"need torch {_FIRST} or later, and " if is_lacking else ""
        raise UnsupportedTorchError(
            f"simulated chips {needed}do not work with torch {torch.__version__}: "
            f"{name} failed: {str(error) or type(error).__name__}"
        ) from error


def self_test() -> None:
    """Test the installed device; this takes about a millisecond.

    Raises:
        UnsupportedTorchError: A step failed; the text has the step and torch's version.
    """
    name, chip = inventory.device_name(), inventory.current_device()
    here, host = f"{name}:{chip}", torch.arange(3.0, device="cpu")
    with step("sharing memory with the CPU"):
        tensor = on_device(host, chip)
        _require(str(tensor.device) == here)
        _require(on_cpu(tensor).data_ptr() == tensor.data_ptr() == host.data_ptr())
    with step("finding the current chip"):
        _require(str(host.to(name).device) == here)
    with step("running an operator"):
        _require((tensor + 1).sum().item() == 6)
    with step("keeping the storage of a view"):
        tensor.view(3, 1)[1].fill_(7)
        _require(host.tolist() == [0, 7, 2])
    # No backward pass: it starts torch's threads, which read the environment at their
    # start. What joins a job sets CHIP_MAP at the same time, and getenv then crashes.


def _require(is_so: bool) -> None:
    if not is_so:
        raise RuntimeError("the result is wrong")


_UNNAMED = "privateuseone"


def install(
    name: str, *, chips: Sequence[int], module: ModuleType | None = None
) -> None:
    """Install a device with the CPU's memory in torch.

    A second call with the same name only sets the chips that exist.

    Args:
        name: The device's name: ``tpu`` in ``torch.device("tpu:3")``.
        chips: The indices that exist.
        module: The module for ``torch.tpu``; by default one with the functions that
            torch itself needs.

    Raises:
        UnsupportedTorchError: This torch does not support it; the text has the step.
        RuntimeError: The process has another such device already.
        ValueError: There are no chips.
    """
    if inventory.device_name() == name:
        inventory.declare(name, chips)
        return
    _refuse_second_device(name)
    inventory.declare(name, chips)
    try:
        with step("naming the device"):
            guard, hooks = _name_device(name, module)
        _register(guard, hooks)
        self_test()
    except UnsupportedTorchError:
        inventory.withdraw()  # so that a second call does not find it installed
        raise


def _refuse_second_device(name: str) -> None:
    # Torch has only one device that can be named, PrivateUse1.
    current = _get_privateuse1_backend_name()
    if current != _UNNAMED:
        raise RuntimeError(
            f"this process has the device {current!r} already; torch holds one of its "
            f"kind, so a simulated {name!r} needs a process of its own"
        )


def _name_device(name: str, module: ModuleType | None) -> tuple[object, object]:
    """Return the guard and the hooks that torch has registered with the name."""
    from ranktable.simulate.device import module as plain_module

    torchs: Any = backend_registration
    guard, hooks = torchs._DummyDeviceGuard(), torchs._DummyPrivateUse1Hook()
    torchs._setup_privateuseone_for_python_backend(
        name, module or plain_module, hooks, guard
    )
    torchs._generate_storage_methods_for_privateuse1_backend(name)
    return guard, hooks


def _register(guard: object, hooks: object) -> None:
    # Imported here, because an old torch lacks some of the interfaces.
    from ranktable.simulate.device import (
        cpp_objects,
        kernels,
        torch_parts,
    )

    with step("registering guard"):
        cpp_objects.change_guard(guard)
    with step("registering hooks"):
        cpp_objects.change_hooks(hooks)
    with step("registering kernels"):
        kernels.register()
    for register in (
        torch_parts.register_storage,
        torch_parts.register_serialization,
        torch_parts.register_generator,
        torch_parts.register_accelerator,
        torch_parts.register_data_parallel,
    ):
        with step(register.__name__.replace("register_", "registering ")):
            register()
