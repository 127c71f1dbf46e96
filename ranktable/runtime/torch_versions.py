"""What differs between versions of torch, from 2.1 to the newest.

Vendors pin old ones: SOPHGO's torch_tpu 2.1 and 2.8. Nothing else asks for a version.
Nothing of torch is imported before it is needed, and what is left out is looked for by
itself where that is possible, since vendors backport.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

OLDEST: Final = (2, 1)
"""The first with all that joining a job and collectives need."""

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


def usable_store(store: Any) -> Any:  # noqa: ANN401 - any store of torch
    """Return a store whose ``check`` and ``compare_set`` can be used.

    In torch 2.1 the first is missing, and the second ends the process at times, since
    it makes an object of Python without the interpreter's lock.
    """
    return store if hasattr(store, "check") else _CountedStore(store)


class _CountedStore:
    """A store that counts who has written a key, and so knows whether it is there."""

    def __init__(self, store: Any) -> None:  # noqa: ANN401 - any store of torch
        self._store = store

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a function of torch
        return getattr(self._store, name)

    def check(self, keys: list[str]) -> bool:
        return all(self._store.add(f"{key}/writes", 0) > 0 for key in keys)

    def set(self, key: str, value: str) -> None:
        self._store.set(key, value)
        self._store.add(f"{key}/writes", 1)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Write what is not there, and return what is; nothing is replaced."""
        if expected and not self.check([key]):
            return expected.encode()
        if not expected and self._store.add(f"{key}/writes", 1) == 1:
            self._store.set(key, desired)
            return desired.encode()
        found: bytes = self._store.get(key)
        return found

    def delete_key(self, key: str) -> bool:
        self._store.delete_key(f"{key}/writes")
        return bool(self._store.delete_key(key))


def why_too_old(version: str) -> str | None:
    """Return why a version of torch cannot be used, None if it can.

    Args:
        version: ``torch.__version__``; one that cannot be read is taken for new.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST:
        return None
    oldest = ".".join(map(str, OLDEST))
    return (
        f"torch {version} is too old: install torch {oldest} or newer "
        f"(pip install 'torch>={oldest}')"
    )


def group_name(group: ProcessGroup) -> str:
    """Return the name of a group, alike on all members; an attribute since 2.2."""
    from torch.distributed import distributed_c10d  # noqa: PLC0415 - torch is an extra

    name = getattr(group, "group_name", None)
    return str(distributed_c10d._world.pg_names[group] if name is None else name)  # noqa: SLF001 - torch's own way


def counts_writes_of_lists() -> bool:
    """Whether several tensors at once are said to be written; one by one before 2.6."""
    import torch  # noqa: PLC0415 - torch is an extra

    try:
        torch._C._increment_version([torch.empty(0)])  # noqa: SLF001 - see tensors.py
    except (RuntimeError, TypeError):
        return False
    return True


def why_no_mesh() -> str | None:
    """Return why groups cannot be made a mesh, None if they can: since 2.5."""
    import inspect  # noqa: PLC0415 - for meshes only

    import torch  # noqa: PLC0415 - torch is an extra

    try:
        from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415

        named = list(inspect.signature(DeviceMesh.from_group).parameters)
    except (AttributeError, ImportError):
        named = []
    if "mesh" in named:
        return None
    return (
        f"torch {torch.__version__} cannot make a mesh of groups: install torch 2.5 or "
        "newer (pip install 'torch>=2.5'), or take the groups of make_groups"
    )
