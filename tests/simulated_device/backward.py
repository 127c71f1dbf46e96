"""Checks of backward passes: threads, graphs of graphs, checkpoints, hooks."""

# mypy: disable-error-code="no-untyped-call"
# Torch has types for few of the functions that are tried here.

from __future__ import annotations

import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def leaf(device: str = "tpu") -> torch.Tensor:
    return torch.tensor([1.0, 2.0], device=device, requires_grad=True)


def gradient(tensor: torch.Tensor) -> list[float]:
    assert tensor.grad is not None
    found: list[float] = tensor.grad.tolist()
    return found


def check_a_backward_pass_in_another_thread() -> None:
    found: list[list[float]] = []

    def work() -> None:
        weight = leaf("tpu:7")
        weight.square().sum().backward()
        found.append(gradient(weight))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [[2, 4]] * 3


def check_backward_passes_on_every_chip() -> None:
    weights = [leaf(f"tpu:{chip}") for chip in (2, 3, 5, 7)]
    total = sum(weight.square().sum().cpu() for weight in weights)
    total.backward()  # type: ignore[union-attr]

    assert [gradient(weight) for weight in weights] == [[2, 4]] * 4


def check_the_users_choice_of_threads_is_kept() -> None:
    leaf().sum().backward()

    assert torch.autograd.is_multithreading_enabled()


def check_second_derivatives() -> None:
    weight = leaf()
    (first,) = torch.autograd.grad((weight**3).sum(), weight, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), weight)

    assert second.tolist() == [6, 12]


def check_a_graph_can_be_kept() -> None:
    weight = torch.randn(1, 3, 2, device="tpu", requires_grad=True)
    total = nn.LSTM(2, 2, device="tpu")(weight)[0].sum()
    total.backward(retain_graph=True)
    assert weight.grad is not None
    once = weight.grad.clone()
    total.backward()

    assert torch.equal(weight.grad, once * 2)


def check_checkpoints_repeat_random_numbers() -> None:
    for is_reentrant in (True, False):
        weight = leaf()
        torch.manual_seed(3)
        out: torch.Tensor = checkpoint(
            lambda w: nn.functional.dropout(w * 2), weight, use_reentrant=is_reentrant
        )
        out.sum().backward()

        assert gradient(weight) == [
            2 * o / (2 * w) for o, w in zip(out, weight, strict=True)
        ]


def check_hooks_see_device_tensors() -> None:
    seen = []
    weight = leaf()
    weight.register_hook(lambda grad: seen.append(str(grad.device)))
    layer = nn.Linear(2, 1, device="tpu")
    layer.register_full_backward_hook(
        lambda *given: seen.append(str(given[1][0].device))
    )
    layer(weight).sum().backward()

    assert seen == ["tpu:5", "tpu:5"]


def check_functions_of_ones_own() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, value: torch.Tensor) -> torch.Tensor:
            return value * 2

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    weight = leaf()
    Double.apply(weight).sum().backward()

    assert gradient(weight) == [2, 2]


def check_functional_transforms() -> None:
    weight = leaf().detach()

    assert torch.func.grad(lambda w: w.square().sum())(weight).tolist() == [2, 4]
    assert torch.vmap(torch.sum)(torch.ones(2, 3, device="tpu")).tolist() == [3, 3]
    _, tangent, *_ = torch.func.jvp(torch.square, (weight,), (torch.ones_like(weight),))
    assert tangent.tolist() == [2, 4]
