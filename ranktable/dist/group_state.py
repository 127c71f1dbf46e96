"""The state of a process group in this package: ranks, backends, collectives."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from dataclasses import replace
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize, ref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed import distributed_c10d
from torch.distributed.distributed_c10d import _get_default_store

from ranktable.dist.collective_errors import DistError, NotMemberError
from ranktable.runtime.backends.backend import NAMES, backend_named
from ranktable.runtime.job import current_job
from ranktable.runtime.store_round import has_list_store, usable_store
from ranktable.runtime.torch_versions import gloo_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch._C._distributed_c10d import Store
    from torch.distributed import ProcessGroup

    from ranktable.dist.background import BackgroundQueue
    from ranktable.dist.calls import CollectiveCall, CollectiveFingerprint
    from ranktable.dist.work import Pending, Work
    from ranktable.runtime.backends.backend import Backend

_GLOO_TABLE: Final = gloo_table()
_DEFAULT_TIMEOUT: Final = timedelta(minutes=30)  # torch's own
_LOOK_S: Final = 0.5
_MOST_DROPPED: Final = 16
"""Most transfers to keep that nobody waits for and that may not have ended."""


class GroupState:
    """The state of a process group on one rank.

    Attributes:
        ranks: Global rank of each member.
        size: Number of members.
        group_rank: The rank of this process among them.
        backends: The backend that serves a type of device, by that type.
        table_names: What that can do, by the same.
        device: The device on which shapes, lengths and objects travel.
        timeout: How long to wait for the others.
        seq: Number of collectives so far.
        supports_timed_wait: Whether a wait can have a limit, so that a rank can answer
            others meanwhile: in gloo.
        known: Collectives that all ranks have compared, or are comparing. One is added
            when it is called, so that the set is the same on all ranks.
        is_single: Whether there is no process group, and this process is alone.
        is_of_job: Whether the group is of a job that this package has joined.
        local_group: The group of the members on this node, once it was made.
        failure: Why the group cannot be used any more; None while it can.
        unverified: Work of which calls are compared when it is waited for, which may
            never be, and these calls.
        has_warned: Whether it was warned of too many different collectives.
    """

    def __init__(self, group: ProcessGroup | None) -> None:
        """Describe a group with this process as a member; None for no group."""
        # Only torch should keep a group, until it is destroyed.
        self._group = None if group is None else ref(group)
        self.local_group: ref[ProcessGroup] | None = None
        self.is_single = group is None
        self.ranks: tuple[int, ...] = (0,)
        self.group_rank = 0
        self.backends: Mapping[str, Backend] = {"cpu": backend_named("gloo")}
        if group is not None:
            self.ranks = tuple(dist.get_process_group_ranks(group))
            self.group_rank = group.rank()
            self.backends = _backends(group)
        self.table_names = {
            kind: each.table_name for kind, each in self.backends.items()
        }
        self.size = len(self.ranks)
        self.device = _metadata_device(self.backends)
        self.timeout = _timeout(group, self.device)
        self.seq = 0
        self.supports_timed_wait = {each.name for each in self.backends.values()} == {
            "gloo"
        }
        self.known: set[CollectiveFingerprint] = set()
        self._transfers: list[tuple[ref[Pending], list[dist.Work]]] = []
        self.unverified: deque[tuple[ref[Work[Any]], CollectiveCall]] = deque()
        self._next_look = 0.0
        self.failure: str | None = None
        self.is_of_job = current_job() is not None
        self.has_warned = False
        self._has_place = False

    @property
    def group(self) -> ProcessGroup:
        """Torch's group.

        Raises:
            NotMemberError: It was destroyed.
        """
        group = None if self._group is None else self._group()
        if group is None:
            raise NotMemberError("this group was destroyed")
        return group

    @property
    def rank(self) -> int:
        """The global rank of this process."""
        return self.ranks[self.group_rank]

    @cached_property
    def name(self) -> str:
        """The name of the group for messages."""
        if self._group is None or self._group() is dist.group.WORLD:
            return "the default group"
        return f"the group of {self.members}"

    @property
    def members(self) -> str:
        """The members, in words."""
        from ranktable.schema.diagnostic import folded

        return f"ranks {folded(self.ranks)}"

    @cached_property
    def own_store(self) -> Store:
        """The part of the store that this group uses.

        In a job that this package has started, it is for this group only. A store of
        torch may outlive the group, and a later group may have the same name.
        """
        store = _get_default_store()
        job = current_job()
        if job is not None and job.store is not None:
            store = job.store
        return PrefixStore(f"ranktable/dist/{_group_name(self.group)}", store)

    @cached_property
    def store(self) -> Store | None:
        """The store in which the members compare; None where none can be used."""
        return self.own_store if has_list_store(self.own_store) else None

    @cached_property
    def can_compare(self) -> bool:
        """Whether there are other members, and a store to compare in."""
        return self.size > 1 and self.store is not None

    @cached_property
    def background(self) -> BackgroundQueue:
        """Asynchronous collectives that need the shapes of other ranks."""
        from ranktable.dist.background import BackgroundQueue

        return BackgroundQueue(self.own_store)

    def set_place(self, place: str | None) -> None:
        """Publish in which collective this rank waits, for ranks of other groups."""
        store = _places()
        if place is not None:
            store.set(str(self.rank), place)
            self._has_place = True
        elif self._has_place:
            store.delete_key(str(self.rank))
            self._has_place = False

    def place_of(self, rank: int) -> str:
        """Return in which collective a rank waits, if it has published this."""
        # Unlike get, this does not wait for a key that does not exist.
        return _places().compare_set(str(rank), "-", "").decode().strip("-")

    @contextlib.contextmanager
    def using_store(self) -> Iterator[None]:
        """Use the store, and explain its errors.

        Raises:
            DistError: The connection is lost.
        """
        try:
            yield
        except DistError:
            raise
        except RuntimeError as error:  # torch's network errors
            raise DistError(
                f"rank {self.rank} lost the connection to the store of the job, so "
                "the process that serves it has ended; look at the output of rank 0"
            ) from error

    def fail(self, reason: str) -> None:
        """End the running collectives; the group cannot be used afterwards.

        Args:
            reason: The reason in words.
        """
        self.failure = reason
        abort = getattr(self.group, "abort", None)  # since torch 2.7
        if abort is not None:
            abort()

    def refuse_failed(self) -> None:
        """Raise if the group has failed before.

        Raises:
            DistError: It has failed.
        """
        if self.failure is not None:
            raise DistError(
                f"{self.name} cannot be used any more, because its ranks called "
                f"different collectives; end the job. The error was: {self.failure}"
            )

    def keep(self, pending: Pending) -> None:
        """Keep a transfer until it has ended: gloo drops one without a reference.

        Gloo does not say whether one has ended. So if many were dropped by the script,
        this waits for the oldest of them.
        """
        self._transfers = [each for each in self._transfers if each[1]]
        self._transfers.append((ref(pending), pending.works))
        dropped = [works for held, works in self._transfers if held() is None]
        for works in dropped[:-_MOST_DROPPED]:
            with contextlib.suppress(RuntimeError):  # the group was not used
                for work in works:
                    work.wait()
            works.clear()

    def check_dropped(self) -> None:
        """Finish comparisons of work that is not waited for.

        Their keys would stay in the store. This checks at most twice a second.

        Raises:
            MismatchError: The ranks called different operations.
        """
        while self.unverified and time.monotonic() >= self._next_look:
            work, call = self.unverified[0]
            if not call.is_completed():
                if work() is not None or not call.is_decided():
                    self._next_look = time.monotonic() + _LOOK_S
                    return
                call.verify()
            self.unverified.popleft()

    def current_stream(self) -> Any:
        """Return the current stream of the group's devices, None on CPUs."""
        if self.supports_timed_wait:
            return None
        kind = next((each for each in self.backends if each != "cpu"), None)
        current = getattr(getattr(torch, kind or "cpu"), "current_stream", None)
        return None if kind is None or current is None else current()

    def backend_for(self, device: torch.device) -> Backend:
        """Return the backend for a device, or that for ``device_for``."""
        found = self.backends.get(device.type)
        return self.metadata_backend if found is None else found

    def is_uneven(
        self, data: object, *, even: bool = False, uneven: bool | None = None
    ) -> bool:
        """Return whether ranks exchange shapes before such data travels.

        Args:
            data: A tensor, or another argument of the caller.
            even: Whether the caller knows that the shapes are the same.
            uneven: Whether they may differ; None means on CPUs only.
        """
        if uneven is not None:
            return uneven
        if even or self.is_single or not isinstance(data, torch.Tensor):
            return not even
        return self.backend_for(data.device).serves_cpu

    @property
    def metadata_backend(self) -> Backend:
        """The backend on which shapes, lengths and objects travel."""
        return self.backends[self.device.type]

    def device_for(self, tensor: torch.Tensor) -> torch.device:
        """Return the device from which a tensor is sent: if possible, its own."""
        device = tensor.device
        return device if device.type in self.backends else self.device

    def device_of(self, kind: str) -> torch.device:
        """Return the device of a type, as the group uses it."""
        return self.device if kind == self.device.type else _current(kind)

    def root_of(
        self, rank: int | None, group_rank: int | None, role: str
    ) -> tuple[int, Exception | None]:
        """Return the group rank of a root, and the error if it cannot be one.

        Args:
            rank: Its global rank, or None.
            group_rank: Its rank in the group, or None; 0 if neither is given.
            role: Name of the argument: ``src``, ``dst``.
        """
        if self.is_single:
            return 0, None
        if rank is None and group_rank is None:
            rank = 0
        try:
            return self.group_rank_of(rank, group_rank, role), None
        except (TypeError, ValueError) as error:
            return 0, error

    def group_rank_of(self, rank: int | None, group_rank: int | None, role: str) -> int:
        """Return the rank in the group of a root or a peer.

        Args:
            rank: Its global rank, or None.
            group_rank: Its rank in the group, or None.
            role: Name of the argument: ``src``, ``dst``.

        Raises:
            TypeError: It is not a number.
            ValueError: Both are given, or neither.
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


_states: dict[ref[ProcessGroup], GroupState] = {}
"""By the weak reference of a group: a dictionary of weak keys is slower."""


def group_state(group: ProcessGroup | None) -> GroupState:
    """Return the state of a group on this rank; without groups that of one process.

    Args:
        group: A group, None for the default one.

    Raises:
        NotMemberError: This process is not in it.
    NotMemberError: This process is not in the group.
    """
    world = dist.group.WORLD
    if world is None:
        if group is None:
            return _single()
        raise NotMemberError("there is no process group any more; call init_dist first")
    group = world if group is None else group
    try:
        found = _states.get(ref(group))
    except TypeError:  # torch's marker, or another type
        found = None
    return _state_of(group) if found is None else found


@cache
def _single() -> GroupState:
    return GroupState(None)


def _places() -> Store:
    places = PrefixStore("ranktable/dist/places", _get_default_store())
    found: Store = usable_store(places)
    return found


def _state_of(group: object) -> GroupState:
    if group is None or group == dist.GroupMember.NON_GROUP_MEMBER:
        raise NotMemberError(
            f"rank {dist.get_rank()} is not in this group; call it only on the ranks "
            "that new_group was given"
        )
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"group is {type(group).__name__}, not a process group")
    if dist.get_rank(group) < 0:
        raise NotMemberError(f"rank {dist.get_rank()} is not in this group")
    found = _states[ref(group)] = GroupState(group)
    finalize(group, _states.pop, ref(group)).atexit = False
    return found


def _backends(group: ProcessGroup) -> Mapping[str, Backend]:
    """Return the backend for each type of device of a group.

    Torch also lists backends that serve a device in part only, such as gloo for CUDA.
    They are not used for it.
    """
    configured = str(dist.get_backend_config(group))
    found = {}
    for pair in configured.split(","):
        device, _, name = pair.partition(":")
        backend = backend_named(name) if name in NAMES else None
        if backend is not None and backend.device_type == device:
            found[device] = _with_profile(backend)
    if not found:
        raise NotMemberError(f"the backends {configured} are not known")
    return found


def _with_profile(backend: Backend) -> Backend:
    """Return a backend; an old torch and simulated chips may have other limits."""
    if backend.name == "gloo":
        return replace(backend_named(_GLOO_TABLE), config=backend.config)
    package = sys.modules.get("torch_tpu")
    if backend.name == "sccl" and getattr(package, "__profile__", None) == "doc":
        return replace(backend_named("sccl:doc"), config=backend.config)
    return backend


def _metadata_device(backends: Mapping[str, Backend]) -> torch.device:
    """Return the device for shapes and objects: the CPU if the group serves it."""
    return _current("cpu" if "cpu" in backends else next(iter(backends)))


def _current(kind: str) -> torch.device:
    if kind == "cpu":
        return torch.device(kind)
    return torch.device(kind, getattr(torch, kind).current_device())


def _timeout(group: ProcessGroup | None, device: torch.device) -> timedelta:
    """Return the time-out of a group's collectives, by default that of torch."""
    if group is None:
        return _DEFAULT_TIMEOUT
    try:
        options = group._get_backend(device).options
    except (AttributeError, RuntimeError):
        return _DEFAULT_TIMEOUT
    found = getattr(options, "_timeout", None)
    return found if isinstance(found, timedelta) else _DEFAULT_TIMEOUT


def _group_name(group: ProcessGroup) -> str:
    """Return the name of a group, which is the same on all members."""
    name = getattr(group, "group_name", None)
    return str(distributed_c10d._world.pg_names[group] if name is None else name)
