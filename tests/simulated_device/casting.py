"""Checks of ``torch.autocast("tpu")`` and of the scaler of gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional


def check_products_of_matrices_are_cast_and_nothing_else() -> None:
    layer = nn.Linear(4, 4, device="tpu")
    batch = torch.randn(2, 4, device="tpu")
    with torch.autocast("tpu", dtype=torch.bfloat16):
        out = layer(batch)
        found = {
            "linear": out.dtype,
            "matmul": (batch @ batch.t()).dtype,
            "addmm": torch.addmm(batch[0], batch, layer.weight, alpha=0.5).dtype,
            "softmax": out.softmax(-1).dtype,
            "layer_norm": nn.LayerNorm(4, device="tpu")(batch).dtype,
            "exp": batch.exp().dtype,
            "mse_loss": functional.mse_loss(out, batch).dtype,
            "convolution": nn.Conv1d(1, 1, 2, device="tpu")(batch[:, None]).dtype,
            "double": (batch.double() @ batch.double().t()).dtype,
        }

    assert found == {
        "linear": torch.bfloat16,
        "matmul": torch.bfloat16,
        "addmm": torch.bfloat16,
        "softmax": torch.bfloat16,
        "layer_norm": torch.float32,
        "exp": torch.float32,
        "mse_loss": torch.float32,
        "convolution": torch.float32,
        "double": torch.float64,
    }
    assert layer(batch).dtype == torch.float32


def check_a_convolution_after_a_linear_layer_is_refused_as_by_the_vendor() -> None:
    layer, after = nn.Linear(4, 4, device="tpu"), nn.Conv1d(1, 1, 2, device="tpu")
    batch = torch.randn(2, 1, 4, device="tpu")
    sentence = r"\(c10::BFloat16\) and bias type \(float\) should be the same"
    with torch.autocast("tpu", dtype=torch.bfloat16):
        with pytest.raises(RuntimeError, match=sentence):
            after(layer(batch))
        assert after(layer(batch).float()).dtype == torch.float32


def check_gradients_have_the_parameters_type() -> None:
    layer = nn.Linear(4, 4, device="tpu")
    with torch.autocast("tpu", dtype=torch.bfloat16):
        total = layer(torch.randn(2, 4, device="tpu")).float().square().sum()
    total.backward()

    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


def check_other_devices_are_not_cast() -> None:
    host, there = nn.Linear(2, 2), nn.Linear(2, 2, device="tpu")
    batch = torch.ones(1, 2)
    with torch.autocast("tpu", dtype=torch.bfloat16):
        assert host(batch).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert there(batch.to("tpu")).dtype == torch.float32


def check_a_scaler_skips_a_step_that_overflows() -> None:
    layer = nn.Linear(2, 1, device="tpu")
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("tpu", init_scale=4.0)
    before = layer.weight.detach().clone()

    for factor, is_taken in ((float("inf"), False), (1.0, True)):
        optimiser.zero_grad()
        scaler.scale(layer(torch.ones(1, 2, device="tpu")).sum() * factor).backward()
        scaler.step(optimiser)
        scaler.update()
        assert torch.equal(layer.weight, before) is not is_taken
    assert scaler.get_scale() == 2
    assert torch.allclose(before - 1, layer.weight)
