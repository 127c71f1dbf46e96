"""Checks of where tensors are, and of what is refused."""

# mypy: disable-error-code="no-untyped-call"
# Torch has types for few of the functions that are tried here.

from __future__ import annotations

import pytest
import torch
from torch import nn

from ranktable.simulate import device

MIXED = "Expected all tensors to be on the same device, but found at least two devices"
ABSENT = "tpu:4 does not exist; there are tpu:2, 3, 5, 7"


def where(tensor: torch.Tensor) -> str:
    return str(tensor.device)


def check_a_tensor_without_index_is_on_the_current_chip() -> None:
    host = torch.ones(2)
    made = [
        host.to("tpu"),
        host.to(torch.device("tpu")),
        host.tpu(),  # type: ignore[attr-defined]
        torch.ones(2, device="tpu"),
        torch.tensor([1.0, 1.0], device="tpu"),
        torch.as_tensor([1.0, 1.0], device="tpu"),
        torch.full((2,), 1.0, device="tpu"),
        nn.Linear(2, 2).to("tpu").weight,
        nn.Linear(2, 2).tpu().weight,  # type: ignore[operator]
        nn.Linear(2, 2, device="tpu").weight,
    ]

    assert {where(tensor) for tensor in made} == {"tpu:5"}


def check_a_tensor_with_index_is_on_that_chip() -> None:
    there = torch.arange(3.0).to("tpu:7")
    made = [
        there,
        there + 1,
        there.new_zeros(2),
        there.new_tensor([1.0]),
        torch.empty_like(there),
        torch.randn(2, device="tpu:7"),
        torch.ones(2).tpu(7),  # type: ignore[attr-defined]
        torch.ones(2, device="tpu:2").to("tpu:7"),
        torch.cat([there, there]),
    ]

    assert {where(tensor) for tensor in made} == {"tpu:7"}


def check_a_default_device_is_honoured() -> None:
    with torch.device("tpu:3"):
        made = [torch.ones(1), torch.arange(2), torch.tensor([1]), nn.Linear(1, 1).bias]

    assert {where(tensor) for tensor in made} == {"tpu:3"}


def check_a_copy_to_the_cpu_is_a_copy() -> None:
    tensor = torch.arange(3.0, device="tpu")
    copies = [tensor.cpu(), tensor.to("cpu"), tensor.to("cpu", non_blocking=True)]
    tensor.zero_()

    assert [copy.tolist() for copy in copies] == [[0.0, 1.0, 2.0]] * 3


def check_aliases_share_memory_both_ways() -> None:
    host = torch.zeros(2)
    there = device.on_device(host, 3)
    there.add_(1)
    device.on_cpu(there).mul_(5)

    assert host.tolist() == [5, 5]
    assert where(there) == "tpu:3"


def check_a_tensor_prints_its_values_and_its_chip() -> None:
    assert repr(torch.ones(2, device="tpu:7")) == "tensor([1., 1.], device='tpu:7')"


def check_an_element_becomes_a_number() -> None:
    tensor = torch.arange(4.0, device="tpu")

    assert tensor[3].item() == 3
    assert tensor.tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="can't convert tpu:5 device type tensor"):
        tensor.numpy()


def check_an_absent_chip_is_refused_however_it_is_named() -> None:
    host = torch.ones(2)
    for make in (
        lambda: torch.ones(2, device="tpu:4"),
        lambda: torch.tensor([1.0], device="tpu:4"),
        lambda: host.to("tpu:4"),
        lambda: host.tpu(4),  # type: ignore[attr-defined]
        lambda: host.tpu().to("tpu:4"),  # type: ignore[attr-defined]
        lambda: nn.Linear(2, 2).to("tpu:4"),
        lambda: torch.UntypedStorage(2, device="tpu:4"),
        lambda: device.on_device(host, 4),
        lambda: device.set_device(4),
    ):
        with pytest.raises(RuntimeError, match=ABSENT):
            make()


def check_two_chips_do_not_mix() -> None:
    one, other = torch.ones(2, device="tpu:3"), torch.ones(2, device="tpu:7")

    for mix in (
        torch.add,
        torch.dot,
        lambda a, b: torch.cat([a, b]),
        torch.Tensor.mul_,
    ):
        with pytest.raises(RuntimeError, match=f"{MIXED}, tpu:3 and tpu:7!"):
            mix(one, other)


def check_host_and_device_do_not_mix() -> None:
    there, host = torch.ones(2, 2, device="tpu"), torch.ones(2, 2)

    for mix in (
        lambda: there + host,
        lambda: host + there,
        lambda: torch.mm(there, host),
        lambda: there.add_(host),
        lambda: nn.functional.linear(there, host),
        lambda: torch.add(there, 1, out=host),
        lambda: torch.tensor(1.0).add_(torch.tensor(1.0, device="tpu")),
        lambda: nn.LSTM(2, 2)(there),
    ):
        with pytest.raises(RuntimeError, match=f"{MIXED}, tpu:5 and cpu!"):
            mix()


def check_scalars_and_indices_may_stay_on_the_host() -> None:
    there = torch.arange(4.0, device="tpu")

    assert (there + torch.tensor(1.0)).tolist() == [1, 2, 3, 4]
    assert (torch.tensor(2.0) * there).tolist() == [0, 2, 4, 6]
    assert there[torch.tensor([3, 0])].tolist() == [3, 0]
    there[torch.tensor([1])] = 9
    assert there.tolist() == [0, 9, 2, 3]


def check_promotion_of_types_is_the_cpus() -> None:
    whole = torch.arange(3, device="tpu")

    assert (whole + 1).dtype == torch.int64
    assert (whole + 0.5).dtype == torch.float32
    assert torch.copysign(whole.float(), -1.0).tolist() == [0, -1, -2]


def check_lazy_conjugation_survives() -> None:
    host = torch.tensor([1 + 2j, 3 - 1j])
    there = host.tpu()  # type: ignore[attr-defined]
    target = torch.zeros_like(there).conj()
    target.copy_(there)

    assert there.conj().cpu().tolist() == host.conj().tolist()
    assert (there.conj() * there).cpu().tolist() == (host.conj() * host).tolist()
    assert there.conj().imag.cpu().tolist() == host.conj().imag.tolist()
    assert target.cpu().tolist() == host.tolist()


def check_tensors_that_are_not_dense_are_refused() -> None:
    there = torch.eye(2, device="tpu")
    index = torch.tensor([[0]], device="tpu")

    for make, kind in (
        (there.to_sparse, "sparse_coo"),
        (there.to_sparse_csr, "sparse_csr"),
        (there.to_mkldnn, "_mkldnn"),
        (
            lambda: torch.sparse_coo_tensor(index, torch.ones(1, device="tpu"), (2,)),
            "sparse_coo",
        ),
        (lambda: torch.sparse_coo_tensor((2,), device="tpu"), "sparse_coo"),  # type: ignore[arg-type, call-arg]
        (lambda: torch.empty(2, layout=torch.sparse_coo, device="tpu"), "sparse_coo"),
        (lambda: torch.eye(2).to_sparse().to("tpu").sum(), "sparse_coo"),
        (lambda: torch.eye(2).to_sparse_csr().to("tpu").sum(), "sparse_csr"),
        (lambda: torch.quantize_per_tensor(there, 1.0, 0, torch.qint8), "quantised"),
        (lambda: torch._nested_tensor_from_mask(there[None], there[:1] > 0), "nested"),
    ):
        with pytest.raises(RuntimeError, match=f"dense tensors only, .* is {kind};"):
            make()
