"""Whether a vendor's real package is installed, found without importing it.

Importing one loads the libraries of its chips; without a Google TPU, importing Google's
torch_tpu even ends the interpreter. So files and metadata are looked at, no more.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.runtime.backends.sccl import package_owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIMULATED = Path(__file__).resolve().parent / "path"
"""The simulated packages, in a folder for each vendor; nothing else is in these."""

PACKAGES: Mapping[str, str] = {"sophgo": "torch_tpu", "ascend": "torch_npu"}
"""The vendor's package, which is also the name of the simulated one."""

_OWNERS = {"sophgo": "SOPHGO's", "google": "Google's"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RealPackage:
    """A package that is no simulation.

    Attributes:
        name: Name by which it is imported.
        owner: Whose it is, as words: ``SOPHGO's``.
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
    """Raise where the vendor's real package is installed.

    Raises:
        ArgumentError: It is.
    """
    real = find_real_package(vendor)
    if real is not None and not is_forced:
        raise ArgumentError(
            f"{real.owner} {real.name} is installed here, in {real.folder}; --force "
            "simulates all the same, and the ranks will not see it"
        )


def find_in(folder: str, vendor: str) -> str | None:
    """Return where a folder of the user's has the vendor's package, None if nowhere.

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
    # Within a simulated run the real one, if any, comes later on the path.
    path = [entry for entry in sys.path if not _is_below(entry)]
    return importlib.machinery.PathFinder.find_spec(name, path)


def _is_simulated(spec: importlib.machinery.ModuleSpec | None) -> bool:
    places = _locations(spec) if spec is not None else ()
    return bool(places) and all(map(_is_below, places))


def _is_below(entry: str) -> bool:
    return Path(entry or ".").resolve().is_relative_to(SIMULATED)


def _place(spec: importlib.machinery.ModuleSpec | None) -> str | None:
    """Return where a package is; a folder without ``__init__`` is none."""
    if spec is None or spec.origin is None:
        return None
    return _locations(spec)[0]


def _locations(spec: importlib.machinery.ModuleSpec) -> Sequence[str]:
    folders = list(spec.submodule_search_locations or ())
    return folders or ([spec.origin] if spec.origin else [])
