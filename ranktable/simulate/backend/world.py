"""What a process of a simulated run knows of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.simulate.faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ranktable.simulate.backend.membership import Membership
    from ranktable.simulate.backend.profile import Profile
    from ranktable.simulate.run import Run

    ChipMap = Callable[["World", Membership, object], Sequence[int]]

_NODE = "GROUP_RANK"  # torchrun's index of its agent; one agent is one simulated node


@dataclass(slots=True, kw_only=True)
class World:
    """One process of a run.

    Attributes:
        folder: The folder of the run.
        run: The run.
        profile: The limits of its backend.
        selected_chip: Returns the chip that the script has selected, None before.
        chip_map_of: Returns the chip of each member of a new group, from the
            ``pg_options`` it was given; empty if the backend has no such map.
        rank: Global rank, once it has joined.
        chip_map: The chip of every rank, once it has joined.
        faults: What goes wrong on purpose in this process, once it has a rank.
    """

    folder: Path
    run: Run
    profile: Profile
    selected_chip: Callable[[], int | None]
    chip_map_of: ChipMap
    rank: int = 0
    chip_map: tuple[int, ...] = ()
    faults: Faults | None = None

    @property
    def node(self) -> int:
        """The node that this process is on."""
        return node_of_process(self.run)

    def faults_of(self, rank: int) -> Faults:
        """Return the faults of this process, which has this global rank."""
        if self.faults is None or self.rank != rank:
            self.rank, self.faults = rank, Faults(self.run, rank)
        return self.faults


def node_of_process(run: Run) -> int:
    """Return the simulated node that this process is on.

    Processes that were started in another way than by torchrun are on the first.
    """
    node = int(os.environ.get(_NODE, "0"))
    return node if node < len(run.chips) else 0
