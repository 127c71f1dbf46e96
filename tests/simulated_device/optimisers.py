"""Checks that every optimiser of torch gives what it does on the CPU."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn, optim
from torch.optim.swa_utils import AveragedModel

from tests.simulated_device.training import perceptron, same_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.optim import Optimizer

KINDS = [
    kind
    for kind in vars(optim).values()
    if isinstance(kind, type)
    and issubclass(kind, optim.Optimizer)
    # One is their base, the other needs sparse tensors, which the device refuses.
    and kind not in (optim.Optimizer, optim.SparseAdam)
]


def ways(kind: type[Optimizer]) -> Iterator[dict[str, Any]]:
    """Yield the ways to take an optimiser's steps, the default first."""
    yield {}
    known = inspect.signature(kind).parameters
    for way in ("foreach", "fused"):
        if way in known:
            yield from ({way: True}, {way: False})
    for option in ("amsgrad", "maximize", "centered", "decoupled_weight_decay"):
        if option in known:
            yield {option: True}
    if "nesterov" in known:
        yield {"nesterov": True, "momentum": 0.9, "weight_decay": 0.01}


def matrices() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16, bias=False), nn.Linear(16, 1, bias=False))


def check_every_optimiser_in_every_way() -> None:
    different = []
    for kind in KINDS:
        for options in ways(kind):
            # Muon is for matrices only.
            model = matrices() if kind.__name__ == "Muon" else perceptron()
            try:
                same_steps(model, torch.randn(5, 6), kind, **options)
            except AssertionError:
                different.append((kind.__name__, options))

    assert different == []
    assert len(KINDS) > 10


def check_averaged_models() -> None:
    def averaged(device: str) -> list[torch.Tensor]:
        model = perceptron().to(device)
        mean = AveragedModel(model)
        for step in range(4):
            torch.manual_seed(step)
            for parameter in model.parameters():
                noise = torch.randn(parameter.shape, device="cpu")
                parameter.data.add_(noise.to(device))
            mean.update_parameters(model)
        return [parameter.detach().cpu() for parameter in mean.parameters()]

    pairs = zip(averaged("tpu"), averaged("cpu"), strict=True)
    assert all(torch.allclose(one, other) for one, other in pairs)
