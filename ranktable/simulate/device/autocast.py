"""``torch.autocast("tpu")``.

Operators are cast as ``torch.autocast("cuda")`` casts them, without its cache of cast
weights. All others run in the types they are given.

Source of the lists: ATen/autocast_mode.h of torch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKeySet, _dispatch_key_parse, _ExcludeDispatchKeyGuard

from ranktable.simulate.device import inventory
from ranktable.simulate.device.operators import operator_named

if TYPE_CHECKING:
    from collections.abc import Callable


LOW_PRECISION = (
    "_convolution.deprecated",
    "_convolution",
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "conv1d",
    "conv1d.padding",
    "conv2d",
    "conv2d.padding",
    "conv3d",
    "conv3d.padding",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "einsum",
    "gru_cell",
    "linalg_multi_dot",
    "linalg_vecdot",
    "linear",
    "lstm_cell",
    "matmul",
    "mm",
    "mv",
    "prelu",
    "rnn_relu_cell",
    "rnn_tanh_cell",
    "scaled_dot_product_attention",
)
FLOAT32 = (
    "acos",
    "asin",
    "binary_cross_entropy_with_logits",
    "cdist",
    "cosh",
    "cosine_embedding_loss",
    "cosine_similarity",
    "erfinv",
    "exp",
    "expm1",
    "frobenius_norm.dim",
    "group_norm",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "logsumexp",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "native_layer_norm",
    "nll_loss",
    "nll_loss2d",
    "nuclear_norm",
    "nuclear_norm.dim",
    "pdist",
    "poisson_nll_loss",
    "pow.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "reciprocal",
    "renorm",
    "rsqrt",
    "sinh",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softplus",
    "tan",
    "triplet_margin_loss",
)
FLOAT32_RESULT = (
    "cumprod",
    "cumsum",
    "linalg_matrix_norm",
    "linalg_vector_norm",
    "log_softmax.int",
    "prod",
    "prod.dim_int",
    "softmax.int",
    "sum",
    "sum.dim_IntList",
)
WIDEST = (
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "grid_sampler",
    "index_put",
    "scatter_add",
    "tensordot",
    "vdot",
)


KEY = "AutocastPrivateUse1"
_KEYS = DispatchKeySet(_dispatch_key_parse(KEY))
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_SIXTEEN_BITS = (torch.float16, torch.bfloat16)


def low_precision(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to the type of the ``autocast`` block."""
    return _casting(name, lambda _: torch.get_autocast_dtype(inventory.device_name()))


def float32(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to float32."""
    return _casting(name, lambda _: torch.float32)


def widest(name: str) -> Callable[..., Any]:
    """Return a kernel that casts to float32 if any of its tensors is float32."""
    return _casting(name, _widest_type)


def float32_result(name: str) -> Callable[..., Any]:
    """Return a kernel that computes in float32 what has 16 bits, if not told else."""

    def kernel(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        with _ExcludeDispatchKeyGuard(_KEYS):
            given = [*args, *kwargs.values()]
            is_told = any(isinstance(value, torch.dtype) for value in given)
            if first.dtype in _SIXTEEN_BITS and not is_told:
                kwargs["dtype"] = torch.float32
            return operator_named(name)(first, *args, **kwargs)

    return kernel


def _casting(
    name: str, wanted_type: Callable[[list[Any]], torch.dtype]
) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        with _ExcludeDispatchKeyGuard(_KEYS):
            values = [*args, *kwargs.values()]
            dtype = wanted_type(values)
            named = {key: _cast(value, dtype) for key, value in kwargs.items()}
            return operator_named(name)(*(_cast(v, dtype) for v in args), **named)

    return kernel


def _widest_type(values: list[Any]) -> torch.dtype:
    types = {v.dtype for value in values for v in _flat(value) if _is_cast(v)}
    return types.pop() if len(types) == 1 else torch.float32


def _flat(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _cast(value: Any, dtype: torch.dtype) -> Any:  # noqa: ANN401 - any argument
    if _is_cast(value):
        return value.to(dtype)
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]
    return value


def _is_cast(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == inventory.device_name()
        and value.dtype in _FLOATS
    )


TABLES = {
    low_precision: LOW_PRECISION,
    float32: FLOAT32,
    float32_result: FLOAT32_RESULT,
    widest: WIDEST,
}
