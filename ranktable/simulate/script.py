"""Whether the script of a run can be started, and imports what is simulated."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from ranktable.cluster.argument import ArgumentError
from ranktable.simulate.real_package import find_in

_FIRST_TORCH = (2, 10)
"""The first that lets Python provide a device."""


def refuse_missing_torch() -> None:
    """Raise unless a torch is installed that can hold the chips.

    Raises:
        ArgumentError: There is none, or an older one.
    """
    if importlib.util.find_spec("torch") is None:
        raise ArgumentError("torch is not installed; pip install torch")
    version = importlib.metadata.version("torch")
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < _FIRST_TORCH:
        raise ArgumentError(
            f"simulated chips need torch 2.10 or newer, and torch {version} is "
            "installed here",
            hint="python -m venv simulate && simulate/bin/pip install "
            "ranktable 'torch>=2.10' makes an environment beside this one, "
            "and simulate/bin/ranktable simulate runs there",
        )


def refuse_missing_script(script: str, vendor: str, *, is_module: bool) -> None:
    """Raise unless a script, or a module, can be started.

    Raises:
        ArgumentError: It is not there, or would hide the simulated package.
    """
    folder = str(Path.cwd() if is_module else Path(script).resolve().parent)
    if is_module:
        _refuse_missing_module(script, folder)
    else:
        _refuse_missing_file(script)
    hiding = find_in(folder, vendor)
    if hiding is not None:
        raise ArgumentError(
            f"the script would import {hiding}, which is beside it, and not the "
            "simulated package; move one of them"
        )


def _refuse_missing_file(script: str) -> None:
    path = Path(script)
    if not script or not path.exists():
        raise ArgumentError(f"there is no script {script!r}")
    if path.is_dir():
        raise ArgumentError(f"{script!r} is a directory, and no script")
    if not path.is_file():  # of a pipe the first rank would leave nothing
        raise ArgumentError(f"{script!r} is no file that every rank can read")


def _refuse_missing_module(name: str, folder: str) -> None:
    top = name.partition(".")[0]
    try:
        is_there = PathFinder.find_spec(top, [folder, *sys.path]) is not None
        is_there = is_there or importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        raise ArgumentError(f"there is no module {name!r}")
