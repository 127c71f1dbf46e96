"""``pg_options`` of SCCL: the chip of each member of a group."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from ranktable.runtime.chip_map import read_chip_map
from ranktable.runtime.table import is_rank_table_valid, read_rank_table
from ranktable.simulate.simulation_error import repaired
from torch_tpu._run import FOLDER
from torch_tpu.local_ranks import SHORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.simulate.backend.joining import Membership, World


class ProcessGroupSCCLOptions:
    """Options of a process group.

    Attributes:
        timeout: Ignored: a group gets its own time-out.
    """

    def __init__(self) -> None:
        """Make options without a map."""
        self._chip_map: list[int] = []
        self.timeout = timedelta(minutes=30)

    @property
    def chip_map(self) -> list[int]:
        """The chip of each member; a copy, so that only an assignment changes it."""
        return list(self._chip_map)

    @chip_map.setter
    def chip_map(self, chips: Iterable[int]) -> None:
        listed = list(chips)
        if not all(isinstance(chip, int) for chip in listed):
            raise TypeError(f"chip_map must be a list of int, not {listed!r}")
        self._chip_map = [int(chip) for chip in listed]


def chip_map_of(
    world: World, membership: Membership, pg_options: object
) -> Sequence[int]:
    """Return the chip of each member of a new group.

    SCCL uses the first chips of the map for every group. Without a map it uses chips 0,
    1, 2 and so on; without options it cannot make a group. Both cases are repaired:
    such a group gets the chips that its members have in the table.

    Raises:
        RuntimeError: The map has too few chips.
        TypeError: The options have another type.
    """
    size = len(membership.ranks)
    if pg_options is None:
        what = "init_process_group" if membership.is_world else "new_group"
        what += " without pg_options"
        repaired(FOLDER, what, "TypeError: (): incompatible function arguments")
        return _chips_of_members(world, membership)
    if not isinstance(pg_options, ProcessGroupSCCLOptions):
        raise TypeError(
            "(): incompatible function arguments. The following argument types are "
            "supported:\n    1. (arg0: "
            "torch._C._distributed_c10d._DistributedBackendOptions, arg1: "
            "torch_tpu._C.ProcessGroupSCCLOptions) -> "
            "torch._C._distributed_c10d.ProcessGroup\n\nInvoked with: "
            f"<_DistributedBackendOptions>, {pg_options!r}"
        )
    chips = pg_options.chip_map
    if not chips:
        return _chips_of_members(world, membership)
    if len(chips) < size:
        raise RuntimeError(f"{SHORT}\n")
    return chips[:size]


def _chips_of_members(world: World, membership: Membership) -> Sequence[int]:
    if not membership.is_world:
        return [world.chip_map[rank] for rank in membership.ranks]
    size = len(membership.ranks)
    if is_rank_table_valid():
        chips = read_rank_table()
    else:
        chips = read_chip_map(os.environ) or list(range(size))
    if len(chips) < size:
        raise RuntimeError(f"{SHORT}\n")
    return chips[:size]
