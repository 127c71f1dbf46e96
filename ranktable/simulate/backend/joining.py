"""How a process comes to a run and its groups: the backend, the others, their chips."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore

from ranktable.simulate import claims, device
from ranktable.simulate.backend.exchange import Exchange, connect, leave_at_exit
from ranktable.simulate.backend.group import SimulatedGroup
from ranktable.simulate.backend.limits import Limits, profile_of
from ranktable.simulate.errors import SimulationError, rank_list, reported
from ranktable.simulate.faults import Faults
from ranktable.simulate.meeting import Meeting
from ranktable.simulate.run import report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from torch._C._distributed_c10d import Store, _DistributedBackendOptions

    from ranktable.simulate.backend.limits import Profile
    from ranktable.simulate.run import Run

    ChipMap = Callable[["World", "Membership", object], Sequence[int]]


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


_GROUP_INDEX = "TPU_GROUP_IDX"
"""SOPHGO's variable for several jobs that one launcher has started: a job does not see
what another has in the store."""


def register(world: World) -> None:
    """Make the backend of a run known to torch, for this process."""

    def create(
        options: _DistributedBackendOptions, pg_options: object
    ) -> SimulatedGroup:
        return _create(world, options, pg_options)

    profile = world.profile
    dist.Backend.register_backend(
        profile.backend,
        create,
        extended_api=True,
        # A list: of a plain string, which is what SOPHGO passes, torch takes the
        # letters for devices, and then has no default backend for this one.
        devices=[profile.device],
    )


def _create(
    world: World, options: _DistributedBackendOptions, pg_options: object
) -> SimulatedGroup:
    membership = _membership(world, options)
    rank = membership.ranks[membership.member]
    faults = world.faults_of(rank if membership.is_world else world.rank)
    faults.before_joining()
    chips = faults.chip_map(world.chip_map_of(world, membership, pg_options))
    meeting = join(world, membership, chips)
    if membership.is_world:
        world.chip_map = tuple(chips)
    gloo = connect(
        PrefixStore(meeting.name, membership.store),
        membership.member,
        len(membership.ranks),
        timedelta(seconds=membership.timeout_s),
    )
    recorder = None
    if world.run.is_recorded:
        from ranktable.simulate.recording import Recorder  # noqa: PLC0415 - if asked

        recorder = Recorder(world.folder, rank, meeting.name, membership.ranks)
    exchange = Exchange(gloo, meeting, faults, world.profile.title, recorder)
    limits = Limits(world, _own_chip(world, membership, chips))
    return SimulatedGroup(exchange, limits, membership.member)


def _membership(world: World, options: _DistributedBackendOptions) -> Membership:
    listed = tuple(options.global_ranks_in_group)
    timeout_s = min(world.run.timeout_s, options.timeout.total_seconds())
    prefix = os.environ.get(_GROUP_INDEX, "")
    return Membership(
        ranks=listed or tuple(range(options.group_size)),
        member=options.group_rank,
        is_world=not listed,
        store=PrefixStore(f"simulated{prefix}", options.store),
        timeout_s=timeout_s,
    )


def _own_chip(world: World, membership: Membership, chips: Sequence[int]) -> int | None:
    """Return the chip that tensors of this process are to be on, None for any.

    Where the vendor's own mistake gives a sub-group other chips, any will do.
    """
    if not chips:
        return None
    rank = membership.ranks[membership.member]
    chip = chips[membership.member]
    return chip if not world.chip_map or world.chip_map[rank] == chip else None


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
