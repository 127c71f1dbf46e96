"""Checks of what installing does, refuses and reports."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch.utils import backend_registration

from ranktable.simulate import device
from ranktable.simulate.device import UnsupportedTorchError, aliases, cpp_objects


def check_the_first_chip_is_current_until_another_is_set() -> None:
    device.install("tpu", chips=(4, 6))

    assert device.current_device() == 4
    assert device.chips() == (4, 6)
    assert device.device_count() == 2


def check_a_second_call_changes_only_the_chips() -> None:
    device.install("tpu", chips=(0, 1))
    device.set_device(1)
    tensor = torch.ones(2, device="tpu")
    device.install("tpu", chips=(0, 1, 2))

    assert device.current_device() == 1
    assert device.chips() == (0, 1, 2)
    assert (tensor + 1).tolist() == [2, 2]


def check_a_process_has_one_device() -> None:
    device.install("npu", chips=(0,))

    assert torch.ones(1).npu().is_npu  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="has the device 'npu' already"):
        device.install("tpu", chips=(0,))


def check_a_device_of_others_is_not_replaced() -> None:
    torch.utils.rename_privateuse1_backend("tpu")  # type: ignore[attr-defined]

    with pytest.raises(RuntimeError, match="has the device 'tpu' already"):
        device.install("tpu", chips=(0,))


def check_a_device_needs_chips() -> None:
    with pytest.raises(ValueError, match="needs at least one chip"):
        device.install("tpu", chips=())


def check_the_given_module_becomes_torch_tpu() -> None:
    module = ModuleType("vendor")
    vars(module).update(
        current_device=device.current_device, device_count=device.device_count
    )
    device.install("tpu", chips=(0,), module=module)

    assert torch.tpu is module  # type: ignore[attr-defined]


def check_a_missing_interface_is_named_with_the_version() -> None:
    # What older torch lacks.
    name = "_setup_privateuseone_for_python_backend"
    delattr(backend_registration, name)

    with pytest.raises(UnsupportedTorchError) as raised:
        device.install("tpu", chips=(0,))
    assert str(raised.value) == (
        "simulated chips need torch 2.10 or later, and do not work with torch "
        f"{torch.__version__}: naming the device failed: module "
        f"'torch.utils.backend_registration' has no attribute '{name}'"
    )
    assert isinstance(raised.value, ImportError)


def check_a_failed_step_is_named_with_the_version() -> None:
    aliases._EXTENSION = 99

    with pytest.raises(UnsupportedTorchError) as raised:
        device.install("tpu", chips=(0,))
    assert f"torch {torch.__version__}" in str(raised.value)
    assert "sharing memory with the CPU failed" in str(raised.value)
    with pytest.raises(RuntimeError, match="has the device 'tpu' already"):
        device.install("tpu", chips=(0,))


def check_a_guard_that_is_not_found_is_not_written_to() -> None:
    cpp_objects._GUARDS = "_ZTVN3c1010TensorImplE"

    with pytest.raises(UnsupportedTorchError, match="registering guard failed"):
        device.install("tpu", chips=(0,))
