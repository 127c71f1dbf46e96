"""Tensors that the device does not hold: sparse, quantised, of oneDNN."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ranktable.simulate.device import inventory

if TYPE_CHECKING:
    from collections.abc import Callable

_DEVICE, _SPARSE = "PrivateUse1", "SparsePrivateUse1"
_SPARSE_ROWS = "SparseCsrPrivateUse1"

_SYNCHRONISED = "SyncBatchNorm"

# By dispatch key, the operators that would make such a tensor, and its kind.
REFUSED = {
    _DEVICE: {
        "_to_sparse": "sparse",
        "_to_sparse.sparse_dim": "sparse",
        "_to_sparse_bsc": "sparse",
        "_to_sparse_bsr": "sparse",
        "_to_sparse_csc": "sparse",
        "_to_sparse_csr": "sparse",
        "quantize_per_channel": "quantised",
        "quantize_per_tensor": "quantised",
        "quantize_per_tensor_dynamic": "quantised",
        "to_mkldnn": "oneDNN",
        "batch_norm_elemt": _SYNCHRONISED,
        "batch_norm_stats": _SYNCHRONISED,
    },
    _SPARSE: {
        "_sparse_coo_tensor_with_dims": "sparse",
        "_sparse_coo_tensor_with_dims_and_tensors": "sparse",
        "empty.memory_format": "sparse",
    },
    _SPARSE_ROWS: {
        "_nnz": "sparse",
        "_sparse_compressed_tensor_unsafe": "sparse",
        "_sparse_compressed_tensor_with_dims": "sparse",
        "sparse_compressed_tensor.comp_plain_value_size": "sparse",
        "empty.memory_format": "sparse",
    },
    "QuantizedPrivateUse1": {"empty_quantized": "quantised"},
}


def refuse(kind: str) -> Callable[..., NoReturn]:
    """Return a kernel that raises one sentence."""

    def kernel(*_: object, **__: object) -> NoReturn:
        if kind == _SYNCHRONISED:
            raise RuntimeError(
                "SyncBatchNorm needs batch_norm_stats, which neither a simulated "
                f"{inventory.device_name()} nor the vendor has; use BatchNorm"
            )
        raise RuntimeError(
            f"a simulated {inventory.device_name()} holds dense tensors only, no "
            f"{kind} ones; convert to dense, or keep the tensor on the CPU"
        )

    return kernel
