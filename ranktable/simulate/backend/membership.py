"""How a rank comes to a new group: the others, and the chips of all."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.simulate import claims
from ranktable.simulate.errors import SimulationError, rank_list, reported
from ranktable.simulate.meeting import Meeting
from ranktable.simulate.run import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._C._distributed_c10d import Store

    from ranktable.simulate.backend.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One rank of a new group.

    Attributes:
        ranks: Global rank of each member.
        member: Which of them this process is.
        is_world: Whether it is the group of all ranks.
        store: Where the members meet first.
        timeout_s: How long to wait for them.
    """

    ranks: tuple[int, ...]
    member: int
    is_world: bool
    store: Store
    timeout_s: float

    @property
    def name(self) -> str:
        """What to call the group."""
        return "the default group" if self.is_world else f"the group of {self.members}"

    @property
    def members(self) -> str:
        """The members, in words."""
        return rank_list(self.ranks)


def join(world: World, membership: Membership, chip_map: Sequence[int]) -> Meeting:
    """Return where the members of a new group meet, after they have met once.

    Args:
        world: This process.
        membership: The group.
        chip_map: The chip of each member, as this process has it.

    Raises:
        SimulationError: A member did not come, or what the members hold does not fit
            together.
    """
    folder = _folder(world, membership)
    rank = membership.ranks[membership.member]
    claim = claims.Claim(
        rank=rank,
        node=world.node,
        chip=world.selected_chip(),
        chip_map=tuple(chip_map),
    )
    claims.show(folder, membership.member, claim)
    meeting = Meeting(
        folder,
        ranks=membership.ranks,
        member=membership.member,
        group=membership.name,
        timeout_s=membership.timeout_s,
    )
    meeting.meet("join")
    _judge(world, membership, claims.look(folder, len(membership.ranks)))
    return meeting


def _judge(world: World, membership: Membership, held: Sequence[claims.Claim]) -> None:
    right_map = None
    if not membership.is_world and world.chip_map:
        right_map = [world.chip_map[rank] for rank in membership.ranks]
    findings = list(
        claims.judge(
            held,
            chips=world.run.chips,
            right_map=right_map,
            wrong_map="warning" if world.run.is_strict else "error",
        )
    )
    for finding in findings:
        report(world.folder, finding)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        blamed = tuple(error.rank for error in errors if error.rank is not None)
        raise SimulationError("; ".join(error.message for error in errors), blamed)


def _folder(world: World, membership: Membership) -> Path:
    """Return the folder of the group, which its first member makes and names.

    A store may outlive a group, and a later one have the same name: both are told apart
    by how often this rank has come to a group of this name.
    """
    store, member = membership.store, membership.member
    count = store.add(f"simulated/{member}", 1)
    key = f"simulated/folder/{count}"
    if member == 0:
        folder = Path(tempfile.mkdtemp(prefix="group-", dir=world.folder))
        store.set(key, folder.name)
        return folder
    end = time.monotonic() + membership.timeout_s
    try:
        store.wait([key], timedelta(seconds=membership.timeout_s))
    except RuntimeError:
        if time.monotonic() < end:
            raise  # the store has gone
        first = membership.ranks[0]
        message = (
            f"rank {first} did not join {membership.name} within "
            f"{membership.timeout_s:g} s"
        )
        raise reported(world.folder, message, (first,)) from None
    return world.folder / store.get(key).decode()
