"""A process group as the functions of this package see it."""

from __future__ import annotations

from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Final, NamedTuple, SupportsIndex
from weakref import ref

import torch
import torch.distributed as dist

from ranktable.dist.check import Rounds, is_checking
from ranktable.dist.errors import NotMemberError, UnsupportedError
from ranktable.runtime.backends.backend import NAMES, backend_named
from ranktable.schema.text import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.distributed import ProcessGroup

    from ranktable.runtime.backends.backend import Backend

_LARGER: Final = {
    "bool": (torch.uint8, torch.int32),
    "uint8": (torch.int16, torch.int32),
    "int8": (torch.int16, torch.int32),
    "int16": (torch.int32, torch.int64),
    "uint16": (torch.int32, torch.int64),
    "uint32": (torch.int64,),
    "uint64": (torch.int64,),
    "float8_e4m3fn": (torch.float32,),
    "float8_e4m3fnuz": (torch.float32,),
    "float8_e5m2": (torch.float32,),
    "float8_e5m2fnuz": (torch.float32,),
}
# Torch 2.1 lacks some of them.
LARGER_TYPES: Final = {
    getattr(torch, name): larger
    for name, larger in _LARGER.items()
    if hasattr(torch, name)
}
"""In which types others are reduced where the backend lacks their own, and in the last
where torch folds them. All operations are right in them: integers that are too large
wrap when they are converted back."""


class Reducing(NamedTuple):
    """How a backend reduces tensors of a type.

    Attributes:
        dtype: The type in which they are sent; None if it cannot reduce them.
        op: The reduction to call.
        is_divided: Whether the sum is divided by the number of ranks afterwards.
    """

    dtype: torch.dtype | None
    op: str
    is_divided: bool


def current_device(kind: str) -> torch.device:
    """Return the current device of a type."""
    if kind == "cpu":
        return torch.device(kind)
    return torch.device(kind, getattr(torch, kind).current_device())


class Members:
    """The members of a process group, of which this process is one.

    Attributes:
        is_single: Whether there is no group: this process is the only member.
        ranks: Global rank of each member.
        size: Number of members.
        group_rank: The rank of this process among them.
        rank: Its global rank.
        tables: What the group can do for each type of device; None if that backend is
            not known, and then the answer is left to torch.
        direct: For an operation, reduction, type and device whose call is torch's call,
            torch's reduction; moves have no reduction. Empty in checking mode.
    """

    def __init__(self, group: ProcessGroup | None) -> None:
        """Describe a group; without one, this process alone."""
        self._reducing: dict[object, Reducing] = {}
        self.direct: dict[tuple[str, str, torch.dtype, torch.device], Any] = {}
        self.is_single = group is None
        self.ranks: tuple[int, ...] = (0,)
        self.group_rank = 0
        self.tables: Mapping[str, Backend | None] = {"cpu": None}
        if group is not None:
            # Members are kept as long as the group lives, so they must not hold it.
            self._group = ref(group)
            self.ranks = tuple(dist.get_process_group_ranks(group))
            self.group_rank = dist.get_rank(group)
            self.tables = _tables(group)
        self.size, self.rank = len(self.ranks), self.ranks[self.group_rank]
        self._members = frozenset(self.ranks)

    @property
    def device(self) -> torch.device:
        """The device on which objects travel: the CPU, if the group serves it.

        A script may select its device after its first call.
        """
        kind = "cpu" if "cpu" in self.tables else next(iter(self.tables))
        return current_device(kind)

    @property
    def group(self) -> ProcessGroup:
        """Torch's group, which whoever calls a function holds."""
        group = self._group()
        assert group is not None
        return group

    @cached_property
    def rounds(self) -> Rounds:
        """The rounds in the store in which the members compare their calls."""
        return Rounds(self)

    @cached_property
    def is_checking(self) -> bool:
        """Whether the ranks compare their calls."""
        return self.size > 1 and is_checking()

    def direct_of(self, operation: str, data: object, op: object = "") -> Any:
        """Return torch's reduction if torch can be called with a tensor as it is.

        Nearly all calls are so. The caches are cold after each wait for the other
        ranks, and a function costs about a microsecond then, so this one asks it all.

        Returns:
            The reduction, for a move something true; None if the call needs more.
        """
        if (
            type(data) is torch.Tensor
            and data.layout is torch.strided
            and not (data.requires_grad or data.is_nested or data.is_neg())
            and data.is_contiguous()
            and type(op) is str
        ):
            return self.direct.get((operation, op, data.dtype, data.device))
        return None

    def has(
        self, operation: str, kind: str, dtype: torch.dtype, op: str | None = None
    ) -> bool:
        """Whether the backend of a type of device does an operation rightly."""
        table = self.tables[kind]
        name = str(dtype).removeprefix("torch.")
        return table is None or table.has(operation, name, op)

    def refuse_missing(self, operation: str, data: torch.Tensor) -> None:
        """Raise if the backend does not have an operation at all.

        Raises:
            UnsupportedError: It does not.
        """
        table = self.tables[data.device.type]
        if table is not None and operation in table.lacks:
            raise UnsupportedError(f"{table.name} has no {operation}")

    def reducing(self, operation: str, data: torch.Tensor, op: str) -> Reducing:
        """Return how the backend reduces tensors like this one."""
        key = (operation, data.device, data.dtype, op)
        found = self._reducing.get(key)
        if found is None:
            found = self._reducing[key] = self._how(*key)
        return found

    def _how(
        self, operation: str, device: torch.device, dtype: torch.dtype, op: str
    ) -> Reducing:
        for name in (op, "sum") if op == "mean" else (op,):
            # The sum of half numbers overflows where their mean does not.
            is_half = op == "mean" != name and dtype is torch.float16
            own = (torch.float32,) if is_half else (dtype,)
            for each in (*own, *LARGER_TYPES.get(dtype, ())):
                if self.has(operation, device.type, each, name):
                    return Reducing(each, name, name != op)
        return Reducing(None, op, op == "mean")

    def root_of(
        self, rank: object, role: str, problem: Exception | None = None
    ) -> tuple[int, Exception | None]:
        """Return a global rank, and what is wrong with it or was wrong before.

        Args:
            rank: The rank that was given; a single process ignores it.
            role: ``src`` or ``dst``.
            problem: What was wrong before.
        """
        if self.is_single:
            return 0, problem
        if type(rank) is int and rank in self._members:
            return rank, problem  # nearly all
        if not isinstance(rank, SupportsIndex):
            return 0, problem or TypeError(f"{role} is {rank!r}, not a rank")
        if index(rank) in self._members:
            return index(rank), problem
        return 0, problem or NotMemberError(
            f"{role} is {rank}, a global rank that is not in the group of ranks "
            f"{folded(self.ranks)}"
        )


_members: dict[ref[ProcessGroup], Members] = {}
_SINGLE: Final = Members(None)


def members_of(group: ProcessGroup | None) -> Members:
    """Return the members of a group; None means all ranks.

    Raises:
        NotMemberError: This process is not in it.
        TypeError: It is not a group.
    """
    world = dist.group.WORLD
    if group is None:
        group = world
        if group is None:
            return _SINGLE
    try:
        found = _members.get(ref(group))  # a WeakKeyDictionary calls two functions
    except TypeError:  # torch's marker, or anything else
        found = None
    if found is None or world is None:
        _refuse_outsider(group)
        found = _members[ref(group, _members.pop)] = Members(group)
    return found


def _refuse_outsider(group: object) -> None:
    is_marker = group is dist.GroupMember.NON_GROUP_MEMBER
    if not (is_marker or isinstance(group, dist.ProcessGroup)):
        raise TypeError(f"group is {type(group).__name__}, not a process group")
    if not dist.is_initialized():
        raise NotMemberError("this group has ended, as has the job")
    if is_marker or dist.get_rank(group) < 0:  # type: ignore[arg-type]
        raise NotMemberError(
            f"rank {dist.get_rank()} is not in this group; call it only on the ranks "
            "that new_group was given"
        )


def _tables(group: ProcessGroup) -> Mapping[str, Backend | None]:
    """Return what a group can do, for each type of device that it serves."""
    found: dict[str, Backend | None] = {}
    for pair in str(dist.get_backend_config(group)).split(","):
        device, _, name = pair.partition(":")
        table = backend_named(name) if name in NAMES else None
        if table is None or table.device_type == device:
            found[device] = table
    return found


def begin(
    members: Members,
    name: str,
    problem: Exception | None,
    data: object = None,
    *words: object,
    async_op: bool = False,
) -> None:
    """Raise what is wrong; in checking mode, compare the call with the other ranks.

    Args:
        members: The group.
        name: The function.
        problem: What is wrong with the arguments of this rank.
        data: A tensor whose shape and type must be the same on all ranks.
        words: What else must be the same; joined by spaces in checking mode only.
        async_op: Whether the call does not wait; then nothing is compared.

    Raises:
        Exception: The problem of this rank.
        MismatchError: The ranks call different things.
        DistError: A rank is missing, or the ranks differed before.
    """
    if members.is_checking:
        if async_op:
            members.rounds.refuse_ended()
        else:
            refused = "" if problem is None else f" - refused: {problem}"
            members.rounds.compare(_in_words(name, data, words) + refused)
    if problem is not None:
        raise problem


def _in_words(name: str, data: object, words: tuple[object, ...]) -> str:
    if isinstance(data, torch.Tensor) and not data.is_nested:
        shape, dtype = tuple(data.shape), str(data.dtype).removeprefix("torch.")
        words = (f"of shape {shape} {dtype}", *words)
    return " ".join([name, *map(str, words)])
