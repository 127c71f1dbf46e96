"""What differs between versions of torch, from 2.1 to the newest.

Vendors pin old ones: SOPHGO's torch_tpu 2.1 and 2.8. Nothing else asks for a version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def reduce_scatter_single() -> Any:  # noqa: ANN401 - a function of torch
    """Return what reduces one tensor to its parts.

    It has this name since 2.13, which warns of the one before.
    """
    import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

    found = getattr(dist, "reduce_scatter_single", None)
    return dist.reduce_scatter_tensor if found is None else found


def abort_group(group: ProcessGroup) -> None:
    """End what is under way in a group, where torch can: since 2.7."""
    abort = getattr(group, "abort", None)
    if abort is not None:
        abort()


def has_list_store(store: Any) -> bool:  # noqa: ANN401 - any store of torch
    """Whether a store can append to what is in it; a FileStore cannot."""
    has_it = getattr(store, "has_extended_api", None)
    return has_it is not None and bool(has_it())
