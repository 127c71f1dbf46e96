"""What the import of a vendor's simulated package does to torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.simulate import device
from ranktable.simulate.backend.create import register
from ranktable.simulate.backend.leaving import leave_at_exit
from ranktable.simulate.backend.profile import profile_of
from ranktable.simulate.backend.world import World, node_of_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from ranktable.simulate.backend.world import ChipMap
    from ranktable.simulate.run import Run


def start(
    folder: Path,
    run: Run,
    *,
    module: ModuleType,
    selected_chip: Callable[[], int | None],
    chip_map: ChipMap,
) -> None:
    """Give torch the device and the backend of a run.

    Args:
        folder: The folder of the run.
        run: The run.
        module: What ``torch.tpu`` becomes, or ``torch.npu``.
        selected_chip: Returns the chip that the script has selected, None before.
        chip_map: Returns the chip of each member of a new group.
    """
    profile = profile_of(run)
    chips = run.chips[node_of_process(run)]
    device.install(profile.device, chips=chips, module=module)
    register(
        World(
            folder=folder,
            run=run,
            profile=profile,
            selected_chip=selected_chip,
            chip_map_of=chip_map,
        )
    )
    leave_at_exit()
