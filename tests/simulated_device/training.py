"""Checks that training on the device gives what it does on the CPU.

Every model takes four steps on the CPU and on the device, with the same seed before
each; losses and parameters are compared with a tolerance.
"""

# mypy: disable-error-code="no-untyped-call"
# Torch has types for few of the functions that are tried here.

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import SGD, AdamW

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.optim import Optimizer

STEPS = 4


class Recurrent(nn.Module):
    """A recurrent network and a layer over its outputs."""

    def __init__(self, network: nn.Module, width: int) -> None:
        super().__init__()
        self.network, self.head = network, nn.Linear(width, 1)

    def forward(self, batch: Any) -> Any:
        output = self.network(batch)
        output = output[0] if isinstance(output, tuple) else output
        return self.head(output)


def train(
    model: nn.Module, batch: torch.Tensor, optimiser: Optimizer
) -> tuple[list[float], list[torch.Tensor]]:
    """Return the losses, and the parameters in the end, on the CPU."""

    def closure() -> Any:
        optimiser.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    losses = []
    for step in range(STEPS):
        torch.manual_seed(step)
        loss: Any = optimiser.step(closure)
        losses.append(loss.item())
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


def same_steps(
    model: nn.Module,
    batch: torch.Tensor,
    # Not Adam: it makes steps of rounding errors where a gradient is 0.
    kind: Callable[..., Optimizer] = SGD,
    **options: Any,
) -> None:
    there = copy.deepcopy(model).to("tpu")
    assert {p.device.type for p in there.parameters()} == {"tpu"}
    there_losses, there_found = train(
        there, batch.to("tpu"), kind(there.parameters(), lr=0.01, **options)
    )
    losses, found = train(model, batch, kind(model.parameters(), lr=0.01, **options))

    assert torch.allclose(torch.tensor(there_losses), torch.tensor(losses), rtol=1e-4)
    for one, other in zip(there_found, found, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-4)


def perceptron() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 1)
    )


def check_a_convolutional_network() -> None:
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, groups=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, bias=False, padding="same", padding_mode="reflect"),
        nn.GroupNorm(2, 8),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32, 2),
    )
    same_steps(model, torch.randn(3, 4, 8, 8))


def check_a_convolutional_network_with_channels_last() -> None:
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 3, stride=2),
        nn.AvgPool2d(2),
    )
    same_steps(
        model.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        torch.randn(3, 4, 8, 8).to(memory_format=torch.channels_last),
    )


def check_convolutions_of_all_dimensions_and_their_transposes() -> None:
    for dimensions, forward, transposed in (
        (1, nn.Conv1d, nn.ConvTranspose1d),
        (2, nn.Conv2d, nn.ConvTranspose2d),
        (3, nn.Conv3d, nn.ConvTranspose3d),
    ):
        model = nn.Sequential(
            forward(3, 4, 3, padding=1, stride=2),
            nn.SiLU(),
            transposed(4, 2, 3, stride=2, output_padding=1),
            forward(2, 2, 3, dilation=2, bias=False),
        )
        same_steps(model, torch.randn(2, 3, *[8] * dimensions))


def check_the_convolution_of_traced_scripts() -> None:
    class Traced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(2, 3, 3)

        def forward(self, batch: torch.Tensor) -> Any:
            layer, flags = self.layer, (False, False, True, True)
            sizes = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
            return torch._convolution(batch, layer.weight, layer.bias, *sizes, *flags)

    same_steps(Traced(), torch.randn(2, 2, 6, 6))


def check_recurrent_networks() -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        batch = torch.randn(4, 5, 6)
        same_steps(Recurrent(kind(6, 8, 2, batch_first=True), 8), batch)
        same_steps(Recurrent(kind(6, 4, bidirectional=True), 8), batch)
    for cell in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
        same_steps(Recurrent(cell(6, 8), 8), torch.randn(4, 6))


def check_a_recurrent_network_over_packed_sequences() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.LSTM(3, 4, batch_first=True)

        def forward(self, batch: torch.Tensor) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(
                batch, torch.tensor([5, 2, 3]), batch_first=True, enforce_sorted=False
            )
            output, _ = self.network(packed)
            padded, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
            return padded

    same_steps(Packed(), torch.randn(3, 5, 3))


def check_transformer_layers() -> None:
    batch = torch.randn(2, 5, 16)
    for is_norm_first in (True, False):
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, dropout=0.1, batch_first=True, norm_first=is_norm_first
        )
        same_steps(layer, batch)


def check_causal_attention_and_embeddings() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(11, 8, padding_idx=0)
            self.bags = nn.EmbeddingBag(11, 8, mode="mean")
            self.project = nn.Linear(8, 24)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            query, key, value = self.project(self.words(words)).chunk(3, dim=-1)
            seen: torch.Tensor = nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=True
            )
            bags: torch.Tensor = self.bags(words).unsqueeze(1)
            return seen + bags

    same_steps(Model(), torch.randint(0, 11, (3, 6)))


def check_evaluation_without_gradients() -> None:
    models = (
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
        Recurrent(nn.LSTM(16, 8), 8),
        nn.Sequential(nn.Linear(16, 4), nn.Dropout(), nn.Softmax(-1)),
    )
    batch = torch.randn(2, 5, 16)
    for model in models:
        model.eval()
        there = copy.deepcopy(model).to("tpu")
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                found = there(batch.to("tpu")).cpu()
                assert torch.allclose(found, model(batch), rtol=1e-4, atol=1e-5)


def check_memory_does_not_grow() -> None:
    model = perceptron().to("tpu")
    optimiser = AdamW(model.parameters())
    batch = torch.randn(64, 6, device="tpu")
    network = Recurrent(nn.LSTM(6, 64), 64).to("tpu")

    def step() -> None:
        for module in (model, network):
            module.zero_grad()
            loss = module(batch.view(1, 64, 6)).square().mean()
            loss.backward()
        optimiser.step()
        large = torch.ones(1 << 20, device="tpu")  # 4 MiB, and another with the sum
        (large + 1).sum().item()

    for _ in range(30):
        step()
    before = resident_mib()
    for _ in range(300):
        step()

    assert resident_mib() - before < 20


def resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 2**20
