"""A process group as this package sees it: its ranks, its backends, its collectives."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.distributed_c10d import _get_default_store

from ranktable.dist.capability import TABLES
from ranktable.dist.errors import DistError, NotMemberError
from ranktable.schema.messages import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup

    from ranktable.dist.action import Turn
    from ranktable.dist.work import Pending

_DEVICES: Final = {table.backend: table.device for table in TABLES}
_DEFAULT_TIMEOUT: Final = timedelta(minutes=30)  # torch's own
_MOST_OPEN: Final = 64
_MODES: Final = {b"off": "off", b"first": "first", b"always": "always"}
_ENVIRONMENT: Final = getattr(os.environb, "_data", os.environb)
"""The dictionary behind it: every collective looks a variable up, and one that is not
set takes ``os.environb`` longer than all else that Python does in a collective."""


class Communicator:
    """One rank's side of a process group.

    Attributes:
        ranks: Global rank of each member.
        size: Number of members.
        member: Which of them this process is.
        name: What to call the group.
        tables: Name of the capability table, by type of device.
        device: Where what is said beside tensors travels: lengths, objects.
        timeout: How long to wait for the others.
        sequence: Number of collectives so far.
        is_watched: Whether a rank can look what the others do while it waits: in
            gloo, whose operations can be waited for a while.
        seen: What all ranks were found to do alike, see ``agree``.
        open_turns: What was begun without a comparison, and not ended yet, by number.
        transfers: Transfers that nobody has waited for. Gloo gives one up that nobody
            holds, and with it what the other rank sends.
        last_compared: Number of the last collective whose verdict this rank has given.
    """

    def __init__(self, group: ProcessGroup) -> None:
        """Describe a group that this process is a member of."""
        # Torch keeps its groups until they are destroyed; nobody else should.
        self._group = ref(group)
        self._local_group: ref[ProcessGroup] | None = None
        self.ranks: tuple[int, ...] = tuple(dist.get_process_group_ranks(group))
        self.size = len(self.ranks)
        self.member: int = group.rank()
        is_world = group is dist.group.WORLD
        self.name = "the default group" if is_world else f"the group of {self.members}"
        self.tables = _tables(group)
        self.device = _device(self.tables)
        self.timeout = _timeout(group, self.device)
        self.sequence = 0
        self.is_watched = set(self.tables.values()) == {"gloo"}
        self.seen: set[object] = set()
        self.open_turns: dict[int, Turn] = {}
        self.transfers: set[Pending] = set()
        self._failure: str | None = None
        self.last_compared = 0

    @property
    def group(self) -> ProcessGroup:
        """Torch's group.

        Raises:
            NotMemberError: It was destroyed.
        """
        group = self._group()
        if group is None:
            raise NotMemberError(f"{self.name} was destroyed")
        return group

    @property
    def local_group(self) -> ProcessGroup | None:
        """The members on the node of this one, once somebody has asked for them."""
        return None if self._local_group is None else self._local_group()

    @local_group.setter
    def local_group(self, group: ProcessGroup | None) -> None:
        self._local_group = None if group is None else ref(group)

    @property
    def rank(self) -> int:
        """The global rank of this process."""
        return self.ranks[self.member]

    @property
    def members(self) -> str:
        """The members, in words."""
        return f"ranks {folded(self.ranks)}"

    def keep_open(self, turn: Turn) -> None:
        """Remember what was begun until it ends, in case that another rank asks."""
        if not self.is_watched:
            return
        self.open_turns[turn.number] = turn
        if len(self.open_turns) > _MOST_OPEN:  # nobody has waited for these
            del self.open_turns[next(iter(self.open_turns))]

    def fail(self, reason: str) -> None:
        """End what is under way: nothing can follow in this group.

        Args:
            reason: Why, in words.
        """
        self._failure = reason
        abort = getattr(self.group, "abort", None)
        if abort is not None:  # older torch has none
            abort()

    def refuse_failed(self) -> None:
        """Raise if the group has failed before.

        Raises:
            DistError: It has.
        """
        if self._failure is not None:
            raise DistError(
                f"{self.name} was given up, since its ranks were in different "
                f"collectives already; end the job. It was: {self._failure}"
            )

    @cached_property
    def key(self) -> str:
        """What no other group of the job has.

        A store may outlive a group, and a later group have the same name: both are told
        apart by how often this rank has come to a group of this name.
        """
        key = f"ranktable/dist/{self.group.group_name}"
        shared = PrefixStore(key, _get_default_store())
        return f"{key}/{shared.add(f'member/{self.member}', 1)}"

    @cached_property
    def store(self) -> Store:
        """Where the members write what collectives do not carry."""
        return store_of(self.key)

    def table_for(self, device: torch.device) -> str:
        """Return the name of the table of the backend that serves a device.

        It is that of ``device_for`` where none does.
        """
        found = self.tables.get(device.type)
        return self.tables[self.device.type] if found is None else found

    def device_for(self, tensor: torch.Tensor) -> torch.device:
        """Return the device that a tensor travels from: its own where that can be."""
        device = tensor.device
        return device if device.type in self.tables else self.device

    def device_of(self, kind: str) -> torch.device:
        """Return the device of a type that the group serves."""
        return self.device if kind == self.device.type else _current(kind)

    def member_of(self, rank: int | None, group_rank: int | None, role: str) -> int:
        """Return which member a root or a peer is.

        Args:
            rank: Its global rank, or None.
            group_rank: Its rank in the group, or None.
            role: What it is called: ``src``, ``dst``.

        Raises:
            TypeError: It is no number.
            ValueError: Both are given, or none.
            NotMemberError: It is not in the group.
        """
        if (rank is None) == (group_rank is None):
            raise ValueError(f"give {role} or group_{role}, one of them")
        given = rank if group_rank is None else group_rank
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError(f"{role} is {given!r}, not a rank")
        if group_rank is not None:
            if 0 <= group_rank < self.size:
                return group_rank
            raise NotMemberError(
                f"group_{role} is {group_rank}, but {self.name} has the group ranks "
                f"0 to {self.size - 1}"
            )
        if rank in self.ranks:
            return self.ranks.index(rank)
        raise NotMemberError(
            f"{role} is {rank}, a global rank that is not in {self.name}"
            + ("" if self.name.startswith("the group") else f" ({self.members})")
            + f"; the rank within a group goes in group_{role}"
        )


_known: WeakKeyDictionary[ProcessGroup, Communicator] = WeakKeyDictionary()


def store_of(key: str) -> Store:
    """Return where the members of a group write, given its key."""
    return PrefixStore(key, _get_default_store())


def begun() -> dict[str, int]:
    """Return how many collectives this process has begun, by the keys of its groups."""
    return {each.key: each.sequence for each in _known.values()}


def communicator(group: ProcessGroup | None) -> Communicator | None:
    """Return this rank's side of a group, None where there are no groups.

    Args:
        group: A group, None for the default one.

    Raises:
        NotMemberError: This process is not in it.
    """
    world = dist.group.WORLD
    if world is None:
        if group is None:
            return None
        raise NotMemberError("there is no process group any more; call init_dist first")
    group = world if group is None else group
    try:
        found = _known.get(group)
    except TypeError:  # torch's marker, or no group at all
        found = None
    return _communicator(group) if found is None else found


def _communicator(group: object) -> Communicator:
    if group is None or group == dist.GroupMember.NON_GROUP_MEMBER:
        raise NotMemberError(
            f"rank {dist.get_rank()} is not in this group; call it only on the ranks "
            "that new_group was given"
        )
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"group is {type(group).__name__}, not a process group")
    if dist.get_rank(group) < 0:
        raise NotMemberError(f"rank {dist.get_rank()} is not in this group")
    found = _known[group] = Communicator(group)
    return found


def _tables(group: ProcessGroup) -> Mapping[str, str]:
    """Return the capability table of each type of device that a group serves.

    A backend that torch lists for a device which it serves in part only, as gloo does
    CUDA, is not used for it.
    """
    configured = str(dist.get_backend_config(group))
    pairs = [each.split(":", 1) for each in configured.split(",")]
    tables = {
        device: _with_profile(backend)
        for device, backend in pairs
        if _DEVICES.get(backend, device) == device
    }
    if not tables:
        raise NotMemberError(f"nothing is known of the backends {configured}")
    return tables


def _with_profile(backend: str) -> str:
    """Return the name of a backend's table; simulated chips may follow the manual."""
    package = sys.modules.get("torch_tpu")
    profile = getattr(package, "__profile__", None)
    return f"{backend}:doc" if backend == "sccl" and profile == "doc" else backend


def _device(tables: Mapping[str, str]) -> torch.device:
    """Return the device for what is said beside tensors: the CPU where that can be."""
    return _current("cpu" if "cpu" in tables else next(iter(tables)))


def _current(kind: str) -> torch.device:
    if kind == "cpu":
        return torch.device(kind)
    return torch.device(kind, getattr(torch, kind).current_device())


def _timeout(group: ProcessGroup, device: torch.device) -> timedelta:
    """Return how long collectives of a group wait, torch's default if nobody says."""
    try:
        options = group._get_backend(device).options  # noqa: SLF001 - torch's own way
    except (AttributeError, RuntimeError):
        return _DEFAULT_TIMEOUT
    found = getattr(options, "_timeout", None)
    return found if isinstance(found, timedelta) else _DEFAULT_TIMEOUT


def check_mode() -> str:
    """Return when ranks compare what they are about to do.

    Raises:
        ValueError: ``RANKTABLE_DIST_CHECK`` is something else.
    """
    mode = _ENVIRONMENT.get(b"RANKTABLE_DIST_CHECK") or b"first"
    if mode not in _MODES:
        raise ValueError(
            f"RANKTABLE_DIST_CHECK is {os.fsdecode(mode)!r}, not one of off, first "
            "and always"
        )
    return _MODES[mode]
