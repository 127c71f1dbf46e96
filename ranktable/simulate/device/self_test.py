"""Whether this torch has what the device is made of.

The device leans on interfaces that torch does not promise to keep. Each is tried once
at start, so that a version without one is named instead of failing later in a script.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ranktable.simulate.device import inventory
from ranktable.simulate.device.errors import UnsupportedTorchError
from ranktable.simulate.device.retag import on_cpu, on_device

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST = "2.10"  # torch._C._acc came with it
_INTERFACES = (
    "torch._C._acc.register_python_privateuseone_device_guard",
    "torch._C._acc.register_python_privateuseone_hook",
    "torch._C._from_dlpack",
    "torch._C._to_dlpack",
    "torch._ops.OpOverload.redispatch",
    "torch.autograd.Variable._execution_engine",
    "torch.library.Library.fallback",
    "torch.utils.generate_methods_for_privateuse1_backend",
)


def look_for_interfaces() -> None:
    """Raise if an interface is missing; nothing is changed.

    Raises:
        UnsupportedTorchError: One is missing.
    """
    for name in _INTERFACES:
        found: object = torch
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)
        if found is None:
            raise UnsupportedTorchError(
                f"simulated chips need torch {_FIRST} or later; "
                f"torch {torch.__version__} has no {name}"
            )


def self_test() -> None:
    """Try the installed device, in about a millisecond.

    Raises:
        UnsupportedTorchError: A step failed; it names it and torch's version.
    """
    for attempt in _STEPS:
        with step(attempt.__name__.strip("_").replace("_", " ")):
            attempt()


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


def _sharing_memory_with_the_cpu() -> None:
    host = torch.arange(6.0, device="cpu")
    tensor = on_device(host, inventory.current_device())
    _require(str(tensor.device) == _here())
    _require(on_cpu(tensor).data_ptr() == tensor.data_ptr() == host.data_ptr())


def _finding_the_current_chip() -> None:
    host = torch.zeros(1, device="cpu")
    _require(str(host.to(inventory.device_name()).device) == _here())


def _running_an_operator() -> None:
    total = (torch.ones(3, device=_here()) + 1).sum()
    _require(str(total.device) == _here() and total.item() == 6)  # noqa: PLR2004 - three twos


def _keeping_the_storage_of_a_view() -> None:
    whole = torch.zeros(4, device=_here())
    whole.view(2, 2)[1].fill_(1)
    _require(on_cpu(whole).tolist() == [0, 0, 1, 1])


def _going_backward() -> None:
    weight = torch.ones(2, device=_here(), requires_grad=True)
    torch.autograd.backward((weight * weight).sum())
    _require(weight.grad is not None and on_cpu(weight.grad).tolist() == [2, 2])


def _here() -> str:
    return f"{inventory.device_name()}:{inventory.current_device()}"


def _require(is_so: bool) -> None:  # noqa: FBT001 - read as a sentence
    if not is_so:
        raise RuntimeError("the result is wrong")


_STEPS = (
    _sharing_memory_with_the_cpu,
    _finding_the_current_chip,
    _running_an_operator,
    _keeping_the_storage_of_a_view,
    _going_backward,
)
