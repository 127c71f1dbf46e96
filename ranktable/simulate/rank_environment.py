"""The environment of a simulated rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.launchers import all_launchers
from ranktable.runtime.launchers.sophgo import SOPHGO
from ranktable.runtime.table import VARIABLE
from ranktable.simulate.real_package import private_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PREFIXES = ("PET_", "TORCHELASTIC_")
"""torchrun takes its arguments from the first; it makes the second for its ranks."""

_GROUP_VARIABLES = (
    *("GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE"),
)


def rank_environment(
    env: Mapping[str, str], *, vendor: str, table: str, of_run: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment to start ranks with.

    What an outer job says of its own ranks is left out, so that the simulated one can
    be started within an allocation.

    Args:
        env: The environment of the launcher.
        vendor: Whose package the ranks can import.
        table: Absolute path of the rank table.
        of_run: The variables of the run.
    """
    outer = set(_outer_variables())
    kept = {
        name: value
        for name, value in env.items()
        if name not in outer and not name.startswith(_PREFIXES)
    }
    # Torch's own test is for 1; a real package must not be imported with torch.
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
            continue  # CHIP_MAP is for the ranks, whoever starts them
        yield from launcher.markers
        yield from launcher.fields.values()


def _with_path(folder: str, rest: str) -> str:
    return f"{folder}:{rest}" if rest else folder
