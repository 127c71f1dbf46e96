"""Join a run and its groups: the backend, the members and their chips."""

from __future__ import annotations

import atexit
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import msgspec
from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore

from ranktable.runtime.backends.backend import SCCL
from ranktable.runtime.store_round import StoreRound
from ranktable.runtime.torch_versions import keep_groups_forever
from ranktable.simulate import device
from ranktable.simulate.backend.exchange import Exchange, is_failing
from ranktable.simulate.backend.group import SimulatedGroup
from ranktable.simulate.backend.limits import Limits
from ranktable.simulate.barrier import RendezvousBarrier
from ranktable.simulate.chip_assignments import ChipAssignment, judge
from ranktable.simulate.faults import Faults
from ranktable.simulate.simulated_run import attempt, note_attempt, report
from ranktable.simulate.simulation_error import SimulationError, rank_list, reported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from torch._C._distributed_c10d import Store, _DistributedBackendOptions

    from ranktable.simulate.simulated_run import Run

    ChipMap = Callable[["World", "Membership", object], Sequence[int]]


_NODE = "GROUP_RANK"  # torchrun's name for the index of a node


@dataclass(slots=True, kw_only=True)
class World:
    """One process of a run.

    Attributes:
        folder: The folder of the run.
        run: The run.
        selected_chip: Returns the chip that the script has selected, None before that.
        chip_map_of: Returns the chip of each member of a new group, given its
            ``pg_options``.
        rank: Global rank, after it has joined.
        chip_map: The chip of every rank, after it has joined.
        faults: Simulated failures of this process, after it has a rank.
    """

    folder: Path
    run: Run
    selected_chip: Callable[[], int | None]
    chip_map_of: ChipMap
    rank: int = 0
    chip_map: tuple[int, ...] = ()
    faults: Faults | None = None

    def faults_of(self, rank: int) -> Faults:
        """Return the faults of this process, which has this global rank."""
        if self.faults is None or self.rank != rank:
            self.rank, self.faults = rank, Faults(self.run, rank, attempt())
        return self.faults


def node_of_process(run: Run) -> int:
    """Return the simulated node of this process.

    A process of a script that starts its ranks itself may be without it: then it is on
    the first node.
    """
    node = int(os.environ.get(_NODE, "0"))
    return node if node < len(run.chips) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One rank of a new group.

    Attributes:
        ranks: Global rank of each member.
        group_rank: The rank of this process in the group.
        is_world: Whether it is the group of all ranks.
        store: The store of the members.
        timeout_s: Seconds to wait for the members.
    """

    ranks: tuple[int, ...]
    group_rank: int
    is_world: bool
    store: Store
    timeout_s: float

    @property
    def name(self) -> str:
        """The name of the group for messages."""
        if self.is_world:
            return "the default group"
        return f"the group of {rank_list(self.ranks)}"


class _JoinWording:
    """The messages about ranks that join a group."""

    def __init__(self, membership: Membership) -> None:
        self._name = membership.name

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        return f"{rank_list(list(said))} join {self._name}", ()

    def missing(self, absent: Sequence[int], time_s: float) -> str:
        who = rank_list(absent) if absent else "other ranks"
        return f"{who} did not join {self._name} within {time_s:g} s"


def join(
    world: World, membership: Membership, chip_map: Sequence[int]
) -> tuple[Path, list[ChipAssignment]]:
    """Wait for the members of a new group.

    Returns:
        The folder of the group, and the chips of each member by its rank in the group.

    Raises:
        SimulationError: A member did not join in time.
    """
    group_rank = membership.group_rank
    # A store may outlive a group, and a later group may have the same name, even with
    # other members. So keys have the members, and how often this rank has joined them.
    named = PrefixStore(",".join(map(str, membership.ranks)), membership.store)
    store = PrefixStore(str(named.add(f"joined/{group_rank}", 1)), named)
    if group_rank == 0:
        folder = tempfile.mkdtemp(prefix="group-", dir=world.folder)
        store.set("folder", Path(folder).name)
    own = ChipAssignment(
        rank=membership.ranks[group_rank],
        node=node_of_process(world.run),
        chip=world.selected_chip(),
        chip_map=tuple(chip_map),
    )
    store.set(f"chips/{own.rank}", msgspec.json.encode(own).decode())
    round_ = StoreRound(
        store=PrefixStore("round", store),
        rank=own.rank,
        ranks=membership.ranks,
        wording=_JoinWording(membership),
        is_erased=True,
    )
    round_.post("join")
    found = round_.hear(membership.timeout_s)
    if found.kind != "agreed":
        raise reported(world.folder, found.message, found.ranks)
    texts = store.multi_get([f"chips/{rank}" for rank in membership.ranks])
    held = [msgspec.json.decode(text, type=ChipAssignment) for text in texts]
    return world.folder / store.get("folder").decode(), held


def _judge(world: World, membership: Membership, held: list[ChipAssignment]) -> None:
    """Report what is wrong with the chips of the members.

    Raises:
        SimulationError: The chips do not match.
    """
    right_map = None
    if not membership.is_world and world.chip_map:
        right_map = [world.chip_map[rank] for rank in membership.ranks]
    findings = list(
        judge(
            held,
            chips=world.run.chips,
            right_map=right_map,
        )
    )
    for finding in findings:
        report(world.folder, finding)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        blamed = tuple(error.rank for error in errors if error.rank is not None)
        raise SimulationError("; ".join(error.message for error in errors), blamed)


_GROUP_INDEX = "TPU_GROUP_IDX"
"""SOPHGO's variable for several jobs of one launcher: a job does not see the keys of
another one in the store."""


def register(world: World) -> None:
    """Register the backend of a run with torch, in this process."""

    def create(
        options: _DistributedBackendOptions, pg_options: object
    ) -> SimulatedGroup:
        return _create(world, options, pg_options)

    dist.Backend.register_backend(
        SCCL.name,
        create,
        extended_api=True,
        # A list: SOPHGO passes a plain string, whose letters torch takes as devices;
        # then it has no default backend for this one.
        devices=[SCCL.device_type],
    )


def _create(
    world: World, options: _DistributedBackendOptions, pg_options: object
) -> SimulatedGroup:
    membership = _membership(world, options)
    rank = membership.ranks[membership.group_rank]
    faults = world.faults_of(rank if membership.is_world else world.rank)
    faults.before_joining()
    chips = world.chip_map_of(world, membership, pg_options)
    folder, held = join(world, membership, chips)
    _judge(world, membership, held)
    if membership.is_world:
        world.chip_map = tuple(chips)
    rendezvous = RendezvousBarrier(
        folder,
        ranks=membership.ranks,
        group_rank=membership.group_rank,
        group=membership.name,
        timeout_s=membership.timeout_s,
    )
    limits = Limits(
        world.folder,
        rank=rank,
        chip=chips[membership.group_rank],
        selected_chip=world.selected_chip,
    )
    return SimulatedGroup(Exchange(rendezvous, faults), limits)


def _membership(world: World, options: _DistributedBackendOptions) -> Membership:
    listed = tuple(options.global_ranks_in_group)
    timeout_s = min(world.run.timeout_s, options.timeout.total_seconds())
    prefix = os.environ.get(_GROUP_INDEX, "")
    return Membership(
        ranks=listed or tuple(range(options.group_size)),
        group_rank=options.group_rank,
        is_world=not listed,
        store=PrefixStore(f"simulated{prefix}", options.store),
        timeout_s=timeout_s,
    )


def start(
    folder: Path,
    run: Run,
    *,
    module: ModuleType,
    selected_chip: Callable[[], int | None],
    chip_map: ChipMap,
) -> None:
    """Install the device and the backend of a run in torch.

    Args:
        folder: The folder of the run.
        run: The run.
        module: The module for ``torch.tpu``.
        selected_chip: Returns the chip that the script has selected, None before that.
        chip_map: Returns the chip of each member of a new group.
    """
    note_attempt(folder)
    chips = run.chips[node_of_process(run)]
    device.install(chips=chips, module=module)
    register(
        World(
            folder=folder,
            run=run,
            selected_chip=selected_chip,
            chip_map_of=chip_map,
        )
    )
    atexit.register(_leave, os.getpid())


_LEAVING_S = 60.0
_LEAVING_AFTER_FAILURE_S = 2.0


def _leave(process: int) -> None:
    """Destroy the process group when the interpreter ends, if the script did not.

    Without this a gloo group of the script aborts the interpreter at its end
    (pytorch/pytorch#190489), after the script has printed the right results.
    """
    if os.getpid() != process:
        keep_groups_forever()  # gloo would wait for its threads, which a fork lacks
    elif dist.is_initialized():
        # A daemon: after the time-out, the process ends without it. After an exception
        # peers may have ended, and no rank should wait for them.
        thread = Thread(target=dist.destroy_process_group, daemon=True)
        thread.start()
        thread.join(_LEAVING_AFTER_FAILURE_S if is_failing() else _LEAVING_S)
