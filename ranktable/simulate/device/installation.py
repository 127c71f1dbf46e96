"""Put the device into torch, for the rest of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import _register_device_module
from torch._C import _get_privateuse1_backend_name
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

from ranktable.simulate.device import inventory
from ranktable.simulate.device.errors import UnsupportedTorchError
from ranktable.simulate.device.self_test import look_for_interfaces, self_test, step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_UNNAMED = "privateuseone"


def install(
    name: str, *, chips: Sequence[int], module: ModuleType | None = None
) -> None:
    """Give torch a device whose memory is the CPU's.

    A second call with the same name only says anew which chips exist.

    Args:
        name: The device's name: ``tpu`` in ``torch.device("tpu:3")``.
        chips: The indices that exist.
        module: What ``torch.tpu`` becomes; by default a module of the functions that
            torch itself asks for.

    Raises:
        UnsupportedTorchError: This torch cannot hold it; says which step failed.
        RuntimeError: The process has another such device already.
        ValueError: There are no chips.
    """
    if inventory.device_name() == name:
        inventory.declare(name, chips)
        return
    _refuse_second_device(name)
    look_for_interfaces()
    inventory.declare(name, chips)
    try:
        with step("naming the device"):
            _name_device(name, module)
        _register()
        self_test()
    except UnsupportedTorchError:
        inventory.withdraw()  # so that a second call does not take it for installed
        raise


def _refuse_second_device(name: str) -> None:
    # Torch has one device that can be named, PrivateUse1.
    current = _get_privateuse1_backend_name()
    if current != _UNNAMED:
        raise RuntimeError(
            f"this process has the device {current!r} already; torch holds one of its "
            f"kind, so a simulated {name!r} needs a process of its own"
        )


def _name_device(name: str, module: ModuleType | None) -> None:
    from ranktable.simulate.device.module import plain_module  # noqa: PLC0415

    rename_privateuse1_backend(name)
    _register_device_module(name, module or plain_module(name))  # type: ignore[no-untyped-call]
    generate_methods_for_privateuse1_backend(for_storage=True)


def _register() -> None:
    # Imported late: on a torch that lacks an interface some cannot be.
    from ranktable.simulate.device import (  # noqa: PLC0415
        accelerator,
        autograd,
        generator,
        guard,
        hooks,
        kernels,
        optimisers,
        serialization,
        storage,
    )

    for part in (
        guard,
        hooks,
        kernels,
        autograd,
        storage,
        serialization,
        generator,
        accelerator,
        optimisers,
    ):
        with step(f"registering {part.__name__.rpartition('.')[2]}"):
            part.register()
