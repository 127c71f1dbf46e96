"""The requirements of a run: torch, a script, and no real package.

A real torch_tpu is found without importing it. Importing one loads the libraries of its
chips; without a Google TPU, importing Google's even ends the interpreter. So only files
and metadata are read.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.runtime.backends.sccl import PACKAGE, package_owner
from ranktable.runtime.launchers.declared import LAUNCHERS, SOPHGO
from ranktable.runtime.table import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


SIMULATED = Path(__file__).resolve().parent / "path"
"""The folder that makes the simulated package importable; nothing else is in it."""

_OWNERS = {"sophgo": "SOPHGO's", "google": "Google's"}


def refuse_real_package(*, is_forced: bool) -> None:
    """Raise if a real torch_tpu is installed.

    Raises:
        ArgumentError: It is installed.
    """
    # In a simulated run the real package, if any, comes later on the path.
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != SIMULATED]
    folder = _folder_of_package(path)
    if folder is not None and not is_forced:
        owner = _OWNERS.get(package_owner() or "", "another")
        raise ArgumentError(
            f"{owner} {PACKAGE} is installed here, in {folder}; with --force the ranks "
            "use simulated chips and not this package"
        )


def _folder_of_package(path: Sequence[str]) -> str | None:
    """Return where torch_tpu is; a folder without ``__init__`` is not a package."""
    spec = PathFinder.find_spec(PACKAGE, path)
    if spec is None or spec.origin is None:
        return None
    return next(iter(spec.submodule_search_locations or ()), spec.origin)


_FIRST_TORCH = (2, 10)
"""The first version in which Python can provide a device."""


def refuse_missing_torch() -> None:
    """Raise unless a torch is installed that supports simulated chips.

    Raises:
        ArgumentError: Torch is missing or too old.
    """
    if importlib.util.find_spec("torch") is None:
        raise ArgumentError("torch is not installed; pip install torch")
    version = importlib.metadata.version("torch")
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < _FIRST_TORCH:
        raise ArgumentError(
            f"simulated chips need torch 2.10 or newer, and torch {version} is "
            "installed here",
            hint="pip install 'torch>=2.10', here or, if torch_tpu needs this one, in "
            "a virtual environment beside this one, with ranktable",
        )


def refuse_missing_script(script: str, *, is_module: bool) -> None:
    """Raise unless a script, or a module, can be started.

    Raises:
        ArgumentError: It does not exist, or would hide the simulated package.
    """
    folder = str(Path.cwd() if is_module else Path(script).resolve().parent)
    if is_module:
        _refuse_missing_module(script, folder)
    else:
        _refuse_missing_file(script)
    hiding = _folder_of_package([folder])  # where Python looks first
    if hiding is not None:
        raise ArgumentError(
            f"the script would import {hiding}, which is beside it, instead of "
            "the simulated package; move one of them"
        )


def _refuse_missing_file(script: str) -> None:
    path = Path(script)
    if not script or not path.exists():
        raise ArgumentError(f"there is no script {script!r}")
    if path.is_dir():
        raise ArgumentError(f"{script!r} is a directory, not a script")
    if not path.is_file():  # the first rank would read all of a pipe
        raise ArgumentError(f"{script!r} is not a file that every rank can read")


def _refuse_missing_module(name: str, folder: str) -> None:
    top = name.partition(".")[0]
    try:
        is_there = PathFinder.find_spec(top, [folder, *sys.path]) is not None
        is_there = is_there or importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        raise ArgumentError(f"there is no module {name!r}")


_PREFIXES = ("PET_", "TORCHELASTIC_")
"""torchrun reads arguments from the first, and sets the second for its ranks."""

_GROUP_VARIABLES = (
    *("GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE"),
)


def rank_environment(
    env: Mapping[str, str], *, table: str, of_run: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment to start ranks with.

    Variables of an outer job about its ranks are left out, so that a simulated job can
    start within an allocation.

    Args:
        env: The environment of the launcher.
        table: Absolute path of the rank table.
        of_run: The variables of the run.
    """
    outer = set(_outer_variables())
    kept = {
        name: value
        for name, value in env.items()
        if name not in outer and not name.startswith(_PREFIXES)
    }
    # Any value except 1 turns it off: torch must not import a real package.
    kept["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    path = [str(SIMULATED), *filter(None, [env.get("PYTHONPATH")])]
    kept["PYTHONPATH"] = ":".join(path)
    kept[VARIABLE] = table
    # All ranks share the cores of this machine, and its loopback interface.
    kept.setdefault("OMP_NUM_THREADS", "1")
    kept["GLOO_SOCKET_IFNAME"] = "lo"
    return {**kept, **of_run}


def _outer_variables() -> Iterable[str]:
    yield from _GROUP_VARIABLES
    for launcher in LAUNCHERS:
        if launcher is SOPHGO:
            continue  # CHIP_MAP is for the ranks, with any launcher
        yield from launcher.markers
        yield from launcher.fields.values()
