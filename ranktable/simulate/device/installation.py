"""Install the device in torch, for the rest of the process.

The device uses interfaces that torch may change. Each is tried once at the start, so
that a missing one is named, instead of a failure later in a script.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import backend_registration

from ranktable._error import Error
from ranktable.simulate.device import cpp_objects, inventory, kernels, torch_parts
from ranktable.simulate.device.aliases import on_cpu, on_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType


class UnsupportedTorchError(Error, ImportError):
    """This version of torch does not support the simulated device."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Name a step if it fails.

    Raises:
        UnsupportedTorchError: It failed.
    """
    try:
        yield
    except Exception as error:
        raise UnsupportedTorchError(
            f"simulated chips do not work with torch {torch.__version__}: "
            f"{name} failed: {str(error) or type(error).__name__}"
        ) from error


def self_test() -> None:
    """Test the installed device; this takes about a millisecond.

    Raises:
        UnsupportedTorchError: A step failed; the text has the step and torch's version.
    """
    chip, host = inventory.current_device(), torch.arange(3.0, device="cpu")
    here = f"tpu:{chip}"
    with step("sharing memory with the CPU"):
        tensor = on_device(host, chip)
        _require(str(tensor.device) == here)
        _require(on_cpu(tensor).data_ptr() == tensor.data_ptr() == host.data_ptr())
    with step("finding the current chip"):
        _require(str(host.to("tpu").device) == here)
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


def install(*, chips: Sequence[int], module: ModuleType) -> None:
    """Install a device with the CPU's memory in torch, once in a process.

    Args:
        chips: The indices that exist.
        module: The module for ``torch.tpu``.

    Raises:
        UnsupportedTorchError: This torch does not support it, or has another such
            device already; the text has the step.
    """
    inventory.declare(chips)
    torchs: Any = backend_registration
    guard, hooks = torchs._DummyDeviceGuard(), torchs._DummyPrivateUse1Hook()
    with step("naming the device"):
        torchs._setup_privateuseone_for_python_backend(
            inventory.DEVICE_TYPE, module, hooks, guard
        )
        torchs._generate_storage_methods_for_privateuse1_backend(inventory.DEVICE_TYPE)
    with step("registering guard"):
        cpp_objects.change_guard(guard)
    with step("registering hooks"):
        cpp_objects.change_hooks(hooks)
    with step("registering kernels"):
        kernels.register()
    with step("replacing parts of torch"):
        torch_parts.replace()
    self_test()
