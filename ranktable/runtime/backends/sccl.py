"""SCCL starts through SOPHGO's torch_tpu.

Two packages have the import name ``torch_tpu``. They are distinguished by their files
and metadata, without an import: importing Google's package ends the interpreter if
there is no Google TPU.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.runtime import chip_map as chip_map_variable
from ranktable.runtime.errors import BootstrapError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import torch

    from ranktable.runtime.backends.backend import Placement

PACKAGE = "torch_tpu"
_SOPHGO_FILE = Path("lib", "libsccl.so")
_GOOGLE_FILE = Path("_loader.py")
_AUTOLOAD_GROUP = "torch.backends"  # Google's registers here, SOPHGO's does not


def why_not() -> str | None:
    """Return why it cannot be used here, None if it can.

    Raises:
        BootstrapError: The torch_tpu that is installed is Google's.
    """
    owner = package_owner()
    if owner == "google":
        raise BootstrapError(
            "RT402",
            "the torch_tpu installed here is Google's, not SOPHGO's; uninstall it "
            "and install SOPHGO's wheel",
        )
    return None if owner == "sophgo" else "SOPHGO's torch_tpu is not installed"


def select_device(placement: Placement) -> torch.device:
    """Make the process's chip current and return it.

    Since July 2025 torch_tpu maps indices through ``CHIP_MAP``, both for ``set_device``
    and for ``torch.device``: it needs the local rank. Earlier versions need the chip.
    ``map_local_rank_to_device_idx`` exists only in the new ones (revision 63d58389).

    Raises:
        BootstrapError: torch_tpu cannot be imported, or has no such chip.
        ConflictingVariablesError: ``CHIP_MAP`` contradicts the table.
    """
    chip_map_variable.refuse_contradiction(
        chip_map_variable.read_chip_map(os.environ), placement.local_chip_map
    )
    torch_tpu = _import_package()
    import torch

    index = placement.device_id
    if hasattr(torch_tpu.tpu, "map_local_rank_to_device_idx"):
        chips = ",".join(map(str, placement.local_chip_map))
        os.environ[chip_map_variable.VARIABLE] = chips
        index = placement.local_rank
    try:
        torch_tpu.tpu.set_device(index)
    except (RuntimeError, IndexError, ValueError) as error:
        raise BootstrapError(
            "RT403",
            f"chip {placement.device_id} of rank {placement.rank} cannot be "
            f"selected: {error}; correct device_id in the rank table, or check "
            "whether the host has this chip",
            (placement.rank,),
        ) from error
    return torch.device(f"tpu:{index}")


def group_options(chip_map: Sequence[int] | None) -> object | None:
    """Return options with the chip of each member, in the order of the group.

    SCCL finds chips by the rank within the group, so a sub-group needs a map of its
    own.
    """
    torch_tpu = _import_package()
    options = torch_tpu.ProcessGroupSCCLOptions()
    options.chip_map = list(chip_map or ())
    return options  # type: ignore[no-any-return]


def refuse_before_torch() -> None:
    """Raise if importing torch would end the interpreter.

    Torch imports Google's torch_tpu by itself (since 2.5), which ends the interpreter
    if there is no Google TPU. If torch is imported already, this has not happened.

    Raises:
        BootstrapError: Google's torch_tpu would be imported with torch.
    """
    # The same test as in torch: any value except 1 turns it off.
    imports_it = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"
    if imports_it and "torch" not in sys.modules and package_owner() == "google":
        raise BootstrapError(
            "RT402",
            "the torch_tpu installed here is Google's, and importing torch would "
            "import it; uninstall it, or export TORCH_DEVICE_BACKEND_AUTOLOAD=0 to "
            "use gloo or nccl",
        )


def _import_package() -> Any:
    try:
        return importlib.import_module(PACKAGE)
    except (ImportError, OSError) as error:  # OSError: a library that it needs
        raise BootstrapError(
            "RT401",
            f"SOPHGO's torch_tpu is installed, but cannot be imported: {error}; "
            "check that its driver and a matching torch are installed",
        ) from error


def package_owner() -> str | None:
    """Return whose torch_tpu is installed: ``"sophgo"``, ``"google"`` or None.

    It is found by files and metadata; nothing is imported.
    """
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        if (Path(folder) / _SOPHGO_FILE).is_file():
            return "sophgo"
        if (Path(folder) / _GOOGLE_FILE).is_file():
            return "google"
    return "google" if _is_google_by_metadata() else "sophgo"


def _is_google_by_metadata() -> bool:
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return False
    if any(entry.group == _AUTOLOAD_GROUP for entry in distribution.entry_points):
        return True
    metadata = distribution.metadata
    described = [
        *(metadata.get_all("Home-page") or ()),
        *(metadata.get_all("Project-URL") or ()),
        *(metadata.get_all("Requires-Dist") or ()),
    ]
    return any("google-pytorch" in text or "libtpu" in text for text in described)
