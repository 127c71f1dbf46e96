"""One simulated rank in this process: rank 0 of 1, on chip 0 of a box.

A process has only one such device, which cannot be removed: torch keeps the name
``tpu`` and its kernels. The rest is undone: the process group, the environment, the
import path and the imported package.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from ranktable.cluster.generate import make_table
from ranktable.schema.writing import dump
from ranktable.simulate.processes import free_port
from ranktable.simulate.requirements import PACKAGES, private_path, rank_environment
from ranktable.simulate.simulated_run import Run, start_run
from ranktable.simulate.simulation import CHIPS_OF_BOX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

_VENDOR = "sophgo"
_PACKAGE = PACKAGES[_VENDOR]
_NODE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
}

_modules: dict[str, ModuleType] = {}
"""The simulated package between two uses; it is registered with torch only once."""


def prepare(folder: Path) -> dict[str, str]:
    """Write a run of one rank into a folder and return its variables."""
    dump(make_table([[0]]), folder / "rank_table.json")
    return start_run(folder, Run(chips=(tuple(range(CHIPS_OF_BOX)),)))


@contextlib.contextmanager
def simulated_rank(folder: Path) -> Iterator[None]:
    """Make this process a simulated rank, in the run of a folder."""
    before = dict(os.environ)
    path = private_path(_VENDOR)
    environment = rank_environment(
        before,
        vendor=_VENDOR,
        table=str(folder / "rank_table.json"),
        of_run=prepare(folder),
    )
    _set_environment({**environment, **_NODE, "MASTER_PORT": str(free_port())})
    sys.path.insert(0, path)
    _remember_package()
    try:
        yield
    finally:
        _leave_group()
        _forget_package()
        sys.path.remove(path)
        _set_environment(before)


def _set_environment(wanted: dict[str, str]) -> None:
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def _leave_group() -> None:
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def _remember_package() -> None:
    """Bring back the package of an earlier use, if there was one."""
    if _modules:
        sys.modules.update(_modules)
        _modules[_PACKAGE].local_ranks.put_in_place()


def _forget_package() -> None:
    """Put the simulated package aside, and undo what can be undone."""
    package = sys.modules.get(_PACKAGE)
    if package is None:
        return
    os.environ.pop("CHIP_MAP", None)  # otherwise the next use finds another chip
    package.tpu.set_device(0)
    sys.modules["torch"].device = package.local_ranks.REAL  # type: ignore[attr-defined]
    for name in list(sys.modules):
        if name == _PACKAGE or name.startswith(f"{_PACKAGE}."):
            _modules[name] = sys.modules.pop(name)
