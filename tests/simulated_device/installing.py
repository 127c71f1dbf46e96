"""Checks of what installing does, refuses and reports."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch.utils import backend_registration

from ranktable.simulate import device
from ranktable.simulate.device import (
    UnsupportedTorchError,
    aliases,
    cpp_objects,
    module,
)


def install(*chips: int) -> None:
    device.install(chips=chips, module=module)


def check_the_first_chip_is_current_until_another_is_set() -> None:
    install(4, 6)

    assert device.current_device() == 4
    assert device.chips() == (4, 6)
    assert device.device_count() == 2


def check_a_device_of_others_is_not_replaced() -> None:
    torch.utils.rename_privateuse1_backend("npu")  # type: ignore[attr-defined]

    with pytest.raises(UnsupportedTorchError, match="Current backend: npu"):
        install(0)


def check_a_process_has_one_device() -> None:
    install(0)

    with pytest.raises(UnsupportedTorchError, match="already been registered"):
        install(0)


def check_the_given_module_becomes_torch_tpu() -> None:
    vendors = ModuleType("vendor")
    vars(vendors).update(
        current_device=device.current_device, device_count=device.device_count
    )
    device.install(chips=(0,), module=vendors)

    assert torch.tpu is vendors  # type: ignore[attr-defined]


def check_a_missing_interface_is_named_with_the_version() -> None:
    name = "_setup_privateuseone_for_python_backend"
    delattr(backend_registration, name)

    with pytest.raises(UnsupportedTorchError) as raised:
        install(0)
    assert str(raised.value) == (
        f"simulated chips do not work with torch {torch.__version__}: naming the "
        "device failed: module "
        f"'torch.utils.backend_registration' has no attribute '{name}'"
    )
    assert isinstance(raised.value, ImportError)


def check_a_failed_step_is_named_with_the_version() -> None:
    aliases._EXTENSION = 99

    with pytest.raises(UnsupportedTorchError) as raised:
        install(0)
    assert f"torch {torch.__version__}" in str(raised.value)
    assert "sharing memory with the CPU failed" in str(raised.value)


def check_a_guard_that_is_not_found_is_not_written_to() -> None:
    cpp_objects._GUARDS = "_ZTVN3c1010TensorImplE"

    with pytest.raises(UnsupportedTorchError, match="registering guard failed"):
        install(0)
