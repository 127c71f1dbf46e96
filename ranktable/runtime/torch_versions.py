"""What differs between versions of torch, from 2.1 to the newest.

Vendors require old versions: SOPHGO's torch_tpu needs 2.1 or 2.8. No other file tests
for a version. If possible, this file tests for a feature, not for a version, because
vendors add features to old versions.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any, Final

OLDEST: Final = (2, 1)
"""The first version with everything that a job and collectives need."""


_RELEASING_S: Final = 0.05
"""Time for gloo's threads to release tensors; see ``destroy_process_groups``."""


def reduce_scatter_single() -> Any:
    """Return torch's function that reduces one tensor to its parts.

    It has this name since 2.13, where the old name gives a warning.
    """
    import torch.distributed as dist

    found = getattr(dist, "reduce_scatter_single", None)
    return dist.reduce_scatter_tensor if found is None else found


def out_of_memory_error() -> type[RuntimeError]:
    """Return torch's error for a device without memory, of CUDA's name before 2.5."""
    import torch

    found: type[RuntimeError] = getattr(
        torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError
    )
    return found


def why_too_old(version: str) -> str | None:
    """Return why a version of torch cannot be used, None if it can.

    Args:
        version: ``torch.__version__``; one that cannot be parsed counts as new.
    """
    if not _is_before(version, OLDEST):
        return None
    oldest = ".".join(map(str, OLDEST))
    return (
        f"torch {version} is too old: install torch {oldest} or newer "
        f"(pip install 'torch>={oldest}')"
    )


def _is_before(version: str, wanted: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < wanted


def why_no_mesh() -> str | None:
    """Return why groups cannot form a mesh, None if they can, which needs torch 2.5."""
    import inspect

    import torch

    try:
        from torch.distributed.device_mesh import DeviceMesh

        named = list(inspect.signature(DeviceMesh.from_group).parameters)
    except (AttributeError, ImportError):
        named = []
    if "mesh" in named:
        return None
    return (
        f"torch {torch.__version__} cannot make a mesh of groups: install torch 2.5 or "
        "newer (pip install 'torch>=2.5'), or take the groups of make_groups"
    )


def destroy_process_groups(*, at_exit: bool = False) -> None:
    """Destroy all groups of torch.

    In torch 2.1 and 2.4 the thread that destroys a group holds the interpreter until
    gloo's threads have ended. A thread that still has to release a tensor waits for the
    interpreter, so both would wait forever. A pause lets it release the tensor. What
    was begun and not waited for may take longer, so at the exit groups are left to the
    end of the process. Torch 2.8 needs neither.

    Args:
        at_exit: Whether the script has ended.
    """
    import torch
    import torch.distributed as dist

    if _is_before(torch.__version__, (2, 8)):
        if at_exit:
            keep_groups_forever()
            return
        time.sleep(_RELEASING_S)
    dist.destroy_process_group()


def abandon_groups() -> None:
    """Let groups be destroyed without waiting for peers.

    Gloo waits for what was begun when a group is freed, so they are never freed.
    """
    from torch.distributed import distributed_c10d

    for group in list(distributed_c10d._world.pg_map):
        if hasattr(group, "abort"):  # since torch 2.7: peers see it
            with contextlib.suppress(RuntimeError):  # it is ended anyway
                group.abort()
    keep_groups_forever()


def keep_groups_forever() -> None:
    """Let no group be freed, not even when the interpreter ends."""
    import ctypes

    from torch.distributed import distributed_c10d

    for group in distributed_c10d._world.pg_map:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
