"""The requirements of a run: torch, a script, and no real package.

A vendor's real package is found without importing it. Importing one loads the libraries
of its chips; without a Google TPU, importing Google's torch_tpu even ends the
interpreter. So only files and metadata are read.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import re
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.runtime.backends.sccl import package_owner
from ranktable.runtime.launchers import all_launchers
from ranktable.runtime.launchers.sophgo import SOPHGO
from ranktable.runtime.table import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


SIMULATED = Path(__file__).resolve().parent / "path"
"""The simulated packages, in a folder for each vendor; nothing else is in these."""

PACKAGES: Mapping[str, str] = {"sophgo": "torch_tpu", "ascend": "torch_npu"}
"""The vendor's package, which is also the name of the simulated one."""

_OWNERS = {"sophgo": "SOPHGO's", "google": "Google's"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RealPackage:
    """A package that is not simulated.

    Attributes:
        name: Name by which it is imported.
        owner: The vendor, for messages: ``SOPHGO's``.
        folder: Folder, or file, that it is imported from.
    """

    name: str
    owner: str
    folder: str


def private_path(vendor: str) -> str:
    """Return the folder that makes a vendor's simulated package importable."""
    return str(SIMULATED / vendor)


def find_real_package(vendor: str) -> RealPackage | None:
    """Return the vendor's real package if this interpreter could import it."""
    name = PACKAGES[vendor]
    place = _place(_spec(name))
    if place is None:
        return None
    owner = _OWNERS.get(package_owner() or "") if vendor == "sophgo" else "Huawei's"
    return RealPackage(name=name, owner=owner or "another", folder=place)


def refuse_real_package(vendor: str, *, is_forced: bool) -> None:
    """Raise if the vendor's real package is installed.

    Raises:
        ArgumentError: It is installed.
    """
    real = find_real_package(vendor)
    if real is not None and not is_forced:
        raise ArgumentError(
            f"{real.owner} {real.name} is installed here, in {real.folder}; with "
            "--force the ranks use simulated chips and not this package"
        )


def find_in(folder: str, vendor: str) -> str | None:
    """Return where the vendor's package is in a user's folder, None if it is not there.

    Python looks in the folder of a script first, so nothing can come before it.
    """
    name = PACKAGES[vendor]
    return _place(importlib.machinery.PathFinder.find_spec(name, [folder]))


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # ValueError: a module without a spec
        return None
    if not _is_simulated(spec):
        return spec
    # In a simulated run the real package, if any, comes later on the path.
    path = [entry for entry in sys.path if not _is_below(entry)]
    return importlib.machinery.PathFinder.find_spec(name, path)


def _is_simulated(spec: importlib.machinery.ModuleSpec | None) -> bool:
    places = _locations(spec) if spec is not None else ()
    return bool(places) and all(map(_is_below, places))


def _is_below(entry: str) -> bool:
    return Path(entry or ".").resolve().is_relative_to(SIMULATED)


def _place(spec: importlib.machinery.ModuleSpec | None) -> str | None:
    """Return where a package is; a folder without ``__init__`` is not one."""
    if spec is None or spec.origin is None:
        return None
    return _locations(spec)[0]


def _locations(spec: importlib.machinery.ModuleSpec) -> Sequence[str]:
    folders = list(spec.submodule_search_locations or ())
    return folders or ([spec.origin] if spec.origin else [])


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
            hint="python -m venv simulate && simulate/bin/pip install "
            "ranktable 'torch>=2.10' makes an environment beside this one, "
            "and simulate/bin/ranktable simulate runs there",
        )


def refuse_missing_script(script: str, vendor: str, *, is_module: bool) -> None:
    """Raise unless a script, or a module, can be started.

    Raises:
        ArgumentError: It does not exist, or would hide the simulated package.
    """
    folder = str(Path.cwd() if is_module else Path(script).resolve().parent)
    if is_module:
        _refuse_missing_module(script, folder)
    else:
        _refuse_missing_file(script)
    hiding = find_in(folder, vendor)
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
    env: Mapping[str, str], *, vendor: str, table: str, of_run: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment to start ranks with.

    Variables of an outer job about its ranks are left out, so that a simulated job can
    start within an allocation.

    Args:
        env: The environment of the launcher.
        vendor: Vendor of the package that ranks can import.
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
    kept["PYTHONPATH"] = _with_path(private_path(vendor), env.get("PYTHONPATH", ""))
    kept[VARIABLE] = table
    # All ranks share the cores of this machine, and its loopback interface.
    kept.setdefault("OMP_NUM_THREADS", "1")
    kept["GLOO_SOCKET_IFNAME"] = "lo"
    return {**kept, **of_run}


def _outer_variables() -> Iterable[str]:
    yield from _GROUP_VARIABLES
    for launcher in all_launchers():
        if launcher is SOPHGO:
            continue  # CHIP_MAP is for the ranks, with any launcher
        yield from launcher.markers
        yield from launcher.fields.values()


def _with_path(folder: str, rest: str) -> str:
    return f"{folder}:{rest}" if rest else folder
