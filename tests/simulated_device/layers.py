"""Checks that layers give what they do on the CPU: outputs, gradients, buffers.

Each layer takes one input forward and backward on the CPU and on the device.
"""

# mypy: disable-error-code="no-untyped-call"
# Torch has types for few of the functions that are tried here.

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
BATCH, CHANNELS, SIZE = 2, 4, 7
OF_EVERY_DIMENSION: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("Conv", (4, 6, 3), {"padding": 1, "stride": 2}),
    ("Conv", (4, 8, 3), {"groups": 4, "bias": False}),
    ("ConvTranspose", (4, 6, 3), {"stride": 2}),
    ("BatchNorm", (4,), {}),
    ("InstanceNorm", (4,), {"affine": True}),
    ("MaxPool", (3, 2), {}),
    ("AvgPool", (3, 2), {}),
    ("LPPool", (2, 2), {}),
    ("AdaptiveAvgPool", (2,), {}),
    ("AdaptiveMaxPool", (2,), {}),
    ("ReflectionPad", (1,), {}),
    ("ReplicationPad", (1,), {}),
    ("CircularPad", (1,), {}),
    ("ConstantPad", (1, 0.5), {}),
    ("Dropout", (0.3,), {}),
)
OF_IMAGES = (
    *(nn.Upsample(scale_factor=2, mode=m) for m in ("nearest", "bilinear", "bicubic")),
    nn.FractionalMaxPool2d(3, output_size=2),
    nn.PixelUnshuffle(7),
    nn.PixelShuffle(2),
    nn.ChannelShuffle(2),
    nn.Unfold(3),
    nn.LocalResponseNorm(2),
    nn.Softmax2d(),
    nn.FeatureAlphaDropout(0.3),
    nn.PReLU(CHANNELS),
    nn.LayerNorm([CHANNELS, SIZE, SIZE]),
    nn.Flatten(),
)
ACTIVATIONS = (
    *("CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish"),
    *("Hardtanh", "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "RReLU", "ReLU"),
    *("ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus", "Softshrink", "Softsign"),
    *("Tanh", "Tanhshrink"),
)
OF_ROWS = (
    *(getattr(nn, name)() for name in ACTIVATIONS),
    *(kind(-1) for kind in (nn.Softmin, nn.Softmax, nn.LogSoftmax)),
    nn.GELU("tanh"),
    nn.Threshold(0.1, 0.2),
    nn.Linear(8, 3),
    nn.BatchNorm1d(8),
    nn.LayerNorm(8),
    nn.RMSNorm(8),
    nn.GroupNorm(2, 8),
    nn.AlphaDropout(0.3),
    *(kind(8, 6) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)),
    nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)),
    nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)),
    nn.utils.parametrizations.orthogonal(nn.Linear(8, 3)),
)
LOSSES_OF_TWO = (
    *("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "SoftMarginLoss"),
    *("PoissonNLLLoss", "KLDivLoss", "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss"),
    *("CosineSimilarity", "PairwiseDistance"),
)


class Applied(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def image(dimensions: int = 2) -> torch.Tensor:
    return torch.randn(BATCH, CHANNELS, *[SIZE] * dimensions)


def rows() -> torch.Tensor:
    return torch.randn(5, 8)


def result(module: nn.Module, inputs: Sequence[torch.Tensor]) -> list[Any]:
    """Return what a module makes of inputs, forward and backward, on the CPU."""
    torch.manual_seed(3)
    source = inputs[0].detach()
    if source.is_floating_point():
        source.requires_grad_()
    out = module(source, *inputs[1:])
    while isinstance(out, tuple):
        out = out[0]
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape).to(out.device)
    (out * weights).sum().backward()
    grads = [each.grad for each in (source, *module.parameters())]
    return [
        None if each is None else each.detach().cpu()
        for each in (out, *grads, *module.buffers())
    ]


def same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def different(
    cases: Iterable[tuple[nn.Module, tuple[torch.Tensor, ...]]],
) -> list[str]:
    """Return the modules that differ, with the positions in what they result in."""
    found = []
    count = 0
    for module, inputs in cases:
        count += 1
        there = copy.deepcopy(module).to("tpu")
        pairs = zip(
            result(module, inputs),
            result(there, [each.to("tpu") for each in inputs]),
            strict=True,
        )
        wrong = [place for place, pair in enumerate(pairs) if not same(*pair)]
        if wrong:
            found.append(f"{module}: {wrong}")
    assert count
    return found


def check_layers_of_every_dimension() -> None:
    cases = [
        (getattr(nn, f"{name}{dimensions}d")(*arguments, **options), image(dimensions))
        for dimensions in (1, 2, 3)
        for name, arguments, options in OF_EVERY_DIMENSION
    ]
    cases += [(nn.GroupNorm(2, CHANNELS), image(dimensions)) for dimensions in (1, 3)]

    assert different((module, (source,)) for module, source in cases) == []


def check_layers_of_images_in_both_orders() -> None:
    for order in (torch.contiguous_format, torch.channels_last):
        layers: tuple[nn.Module, ...] = (
            nn.Conv2d(CHANNELS, 6, 3),
            nn.ConvTranspose2d(CHANNELS, 6, 3),
            nn.GroupNorm(2, CHANNELS),
            nn.BatchNorm2d(CHANNELS),
            nn.InstanceNorm2d(CHANNELS, affine=True),
            nn.MaxPool2d(2),
            nn.AvgPool2d(2),
            nn.AdaptiveAvgPool2d(2),
            *copy.deepcopy(OF_IMAGES),
        )
        source = image().to(memory_format=order)

        assert different((layer, (source,)) for layer in layers) == []
    volume = image(3).to(memory_format=torch.channels_last_3d)
    layers = (nn.GroupNorm(2, CHANNELS), nn.BatchNorm3d(CHANNELS), nn.Conv3d(4, 4, 3))

    assert different((layer, (volume,)) for layer in layers) == []


def check_layers_of_rows() -> None:
    assert different((layer, (rows(),)) for layer in OF_ROWS) == []


def check_layers_of_sequences() -> None:
    batch = torch.randn(2, 5, 16)
    kinds = (nn.LSTM, nn.GRU, nn.RNN)
    one: list[nn.Module] = [
        *(kind(16, 6, 2, bidirectional=True) for kind in kinds),
        nn.LSTM(16, 6, proj_size=3),
        nn.RNN(16, 6, nonlinearity="relu"),
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, bias=False),
    ]
    two: list[nn.Module] = [
        nn.TransformerDecoderLayer(16, 4, 32, batch_first=True),
        nn.Transformer(16, 4, 1, 1, 32, batch_first=True),
    ]
    attention = nn.MultiheadAttention(16, 4, dropout=0.1, add_bias_kv=True)

    assert different((layer, (batch,)) for layer in one) == []
    assert different((layer, (batch, batch.clone())) for layer in two) == []
    assert different([(attention, (batch, batch.clone(), batch.clone()))]) == []


def check_a_tensor_that_is_given_twice_has_one_gradient() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.LSTM(SIZE, SIZE)

        def forward(self, state: torch.Tensor) -> Any:
            return self.network(torch.ones_like(state), (state, state))

    attention = functional.scaled_dot_product_attention
    threefold = Applied(lambda source: attention(source, source, source))

    assert different([(threefold, (image(),))]) == []
    assert different([(Twice(), (torch.randn(1, 2, SIZE),))]) == []


def check_embeddings() -> None:
    words = torch.randint(0, 8, (3, 6))
    layers = (
        nn.Embedding(8, 4, padding_idx=1, max_norm=1.0),
        nn.Embedding(8, 4, scale_grad_by_freq=True),
        *(nn.EmbeddingBag(8, 4, mode=mode) for mode in ("sum", "mean", "max")),
    )

    assert different((layer, (words,)) for layer in layers) == []


def check_losses() -> None:
    share, sign = torch.rand(5, 8), torch.randn(5, 8).sign()
    words, flags = torch.randint(0, 8, (5,)), torch.randint(0, 2, (5, 8))
    cases: list[tuple[nn.Module, tuple[torch.Tensor, ...]]] = [
        *((getattr(nn, name)(), (rows(), share)) for name in LOSSES_OF_TWO),
        (nn.L1Loss(reduction="none"), (rows(), share)),
        (nn.BCELoss(), (torch.rand(5, 8), share)),
        (nn.HingeEmbeddingLoss(), (rows(), sign)),
        (nn.CrossEntropyLoss(label_smoothing=0.1), (rows(), words)),
        (nn.CrossEntropyLoss(), (image(), torch.randint(0, 4, (2, 7, 7)))),
        (nn.NLLLoss(), (rows(), words)),
        (nn.MultiMarginLoss(), (rows(), words)),
        (nn.MultiLabelMarginLoss(), (rows(), flags)),
        (nn.GaussianNLLLoss(), (rows(), share, share + 0.1)),
        (nn.TripletMarginLoss(), (rows(), rows(), rows())),
        (nn.CosineEmbeddingLoss(), (rows(), rows(), torch.ones(5))),
        (nn.Bilinear(8, 8, 3), (rows(), rows())),
        (
            nn.CTCLoss(),
            (
                torch.randn(9, 2, 5).log_softmax(-1),
                torch.tensor([[1, 2], [2, 3]]),
                torch.tensor([9, 9]),
                torch.tensor([2, 2]),
            ),
        ),
    ]

    assert different(cases) == []


def check_functions() -> None:
    def regular(x: torch.Tensor) -> torch.Tensor:
        return x @ x.mT + torch.eye(SIZE, device=x.device)

    functions: tuple[Callable[[torch.Tensor], Any], ...] = (
        functional.normalize,
        functional.gumbel_softmax,
        lambda x: functional.interpolate(x, scale_factor=0.5, mode="area"),
        lambda x: functional.scaled_dot_product_attention(x, x * 2, x, dropout_p=0.1),
        lambda x: x.std((2, 3)),
        lambda x: torch.logsumexp(x, 1),
        lambda x: torch.einsum("bchw,bdhw->bcd", x, x),
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: x.cumsum(-1),
        lambda x: x.sort(-1)[0],
        lambda x: x[:, [0, 2]],
        lambda x: x.norm(dim=1),
        lambda x: x.prod(-1),
        lambda x: torch.cdist(x[0], x[1]),
        lambda x: torch.linalg.inv(regular(x)),
        lambda x: torch.linalg.cholesky(regular(x)),
        torch.linalg.svdvals,
        torch.linalg.det,
        torch.linalg.qr,
    )

    assert different((Applied(each), (image(),)) for each in functions) == []


def check_norms_and_recurrent_networks_can_be_differentiated_twice() -> None:
    def second(module: nn.Module, host: torch.Tensor, device: str) -> torch.Tensor:
        source = host.to(device).requires_grad_()
        out = copy.deepcopy(module).to(device)(source)
        total = (out[0] if isinstance(out, tuple) else out).pow(3).sum()
        (first,) = torch.autograd.grad(total, source, create_graph=True)
        (found,) = torch.autograd.grad(first.square().sum(), source)
        return found.cpu()

    cases = (
        (nn.GroupNorm(2, CHANNELS), image()),
        (nn.LSTM(SIZE, 3), torch.randn(2, 3, SIZE)),
        (nn.GRUCell(SIZE, 3), torch.randn(2, SIZE)),
    )
    for module, host in cases:
        assert same(second(module, host, "tpu"), second(module, host, "cpu"))
    cubed = torch.func.grad(lambda x: functional.group_norm(x, 2).pow(3).sum())
    assert cubed(image().to("tpu")).device.type == "tpu"
