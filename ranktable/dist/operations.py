"""Start torch's operations, with tensors that the backend accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch.distributed as dist

from ranktable.dist.calls import CollectiveFingerprint, begin_call, refused
from ranktable.dist.collective_plan import make_plan
from ranktable.dist.tensors import dtype_name, name_of
from ranktable.dist.work import Pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from ranktable.dist.calls import CollectiveCall
    from ranktable.dist.collective_plan import CollectivePlan
    from ranktable.dist.group_state import GroupState
    from ranktable.dist.steps import Steps
    from ranktable.runtime.backends.backend import Backend


@dataclass(slots=True)  # one for each call: freezing it would cost more
class OperationStarter:
    """Starts torch's operations for one collective of a group.

    Attributes:
        members: The group.
        call: The collective, None for a transfer between two ranks.
        backend: The backend that does them.
        is_exact: Whether reductions are exact, see ``make_plan``.
    """

    members: GroupState
    call: CollectiveCall | None
    backend: Backend
    is_exact: bool = True

    @property
    def is_async(self) -> bool:
        """Whether this rank does not wait for the collective."""
        return self.call is not None and self.call.is_async

    @property
    def metadata(self) -> OperationStarter:
        """The operations that send shapes, lengths and objects."""
        return replace(self, backend=self.members.metadata_backend)

    def plan(
        self,
        operation: str,
        dtype: torch.dtype,
        reduction: str | None = None,
        *,
        is_even: bool = True,
    ) -> CollectivePlan:
        """Return the plan for a collective on this backend.

        Raises:
            UnsupportedError: The backend cannot do it.
        """
        return make_plan(
            self.backend.table_name,
            operation,
            dtype_name(dtype),
            reduction,
            is_even=is_even,
            is_exact=self.is_exact,
        )

    def start(self, name: str, *given: object, **named: object) -> Pending:
        """Start one of torch's functions.

        Roots are passed as global ranks, because SOPHGO's wrappers accept no others.

        Raises:
            DistError: Torch refuses it.
        """
        own_group = None if self.call is None else self.call.own_group
        work: dist.Work | None
        try:
            if own_group is not None:
                work = own_group.start(name, *given)
            else:
                function, group = getattr(dist, name), self.members.group
                work = function(*given, group=group, async_op=True, **named)
        except RuntimeError as error:
            raise refused(
                error, self.members, self.backend.table_name, self.call
            ) from error
        works = [] if work is None else [work]
        return Pending(works, self.members, self.call)


class Transfer(NamedTuple):
    """A transfer between two ranks.

    Attributes:
        operations: The operations of the backend.
        name: ``isend`` or ``irecv``.
        moved: A tensor that the backend accepts.
        peer: Group rank of the other rank.
        tag: A number, the same on both ranks.
    """

    operations: OperationStarter
    name: str
    moved: torch.Tensor
    peer: int
    tag: int

    @property
    def peer_rank(self) -> int:
        """The global rank of the other rank."""
        return self.operations.members.ranks[self.peer]


def start_transfers(transfers: Sequence[Transfer]) -> list[Pending]:
    """Start transfers; as one batch, if the backend does them one after the other.

    Without the batch, every rank would wait for the next one to receive.

    Raises:
        DistError: Torch refuses one.
    """
    if not transfers:
        return []
    first = transfers[0].operations
    own_group = None if first.call is None else first.call.own_group
    try:
        if own_group is not None:
            works = [
                [own_group.start(each.name, each.moved, each.peer_rank, each.tag)]
                for each in transfers
            ]
        else:
            works = _started(transfers)
    except RuntimeError as error:
        name = first.backend.table_name
        raise refused(error, first.members, name, first.call) from error
    begun = []
    for each, own in zip(transfers, works, strict=True):
        # Gloo closes all connections if a transfer does not end while it is waited
        # for. So this wait is not divided: it belongs to no call.
        begun.append(Pending(own, each.operations.members, None))
        if own_group is None and each.operations.backend.serves_cpu:
            each.operations.members.keep(begun[-1])
    return begun


def _started(transfers: Sequence[Transfer]) -> list[list[dist.Work]]:
    """Start transfers in torch's groups, and return the work of each."""
    given: list[Any] = [
        (
            getattr(dist, each.name),
            each.moved,
            each.peer_rank,
            each.operations.members.group,
            each.tag,
        )
        for each in transfers
    ]
    is_coalescing = any(each.operations.backend.is_coalescing for each in transfers)
    if len(given) > 1 and is_coalescing:
        together = dist.batch_isend_irecv([dist.P2POp(*each) for each in given])
        return [list(together) for _ in given]
    return [[function(*others)] for function, *others in given]


def begin(
    members: GroupState,
    operation: str,
    data: object = None,
    problem: Exception | None = None,
    *,
    reduction: str | None = None,
    shape: tuple[int, ...] | None = None,
    root: int | None = None,
    details: tuple[object, ...] = (),
    exact: bool | None = None,
) -> Steps[OperationStarter | None]:
    """Compare a collective with the other ranks, and return the operations for it.

    Args:
        members: The group.
        operation: Its name.
        data: One of its tensors, None if it is not known here.
        problem: Why this rank cannot do it.
        reduction: The reduction.
        shape: The shape, if it must be the same on all ranks.
        root: The group rank of the root.
        details: What else must be the same.
        exact: Whether reductions are exact; None for CPUs only.

    Returns:
        The operations, None if there is no process group.

    Raises:
        Exception: The problem, or that the backend cannot do it.
        MismatchError: The ranks differ.
    """
    if members.is_single:
        if problem is not None:
            raise problem
        return None
    device = getattr(data, "device", None)
    backend = (
        members.metadata_backend if device is None else members.backend_for(device)
    )
    is_exact = backend.serves_cpu if exact is None else exact
    where = backend.table_name
    if is_exact != backend.serves_cpu:
        where += ", exactly" if is_exact else ", as it comes"
    dtype = name_of(data)
    fingerprint = CollectiveFingerprint(
        operation,
        reduction,
        dtype,
        shape,
        None if root is None else members.ranks[root],
        details,
        where,
    )
    if problem is None and dtype is not None:
        try:
            make_plan(
                backend.table_name, operation, dtype, reduction, is_exact=is_exact
            )
        except (ValueError, RuntimeError) as error:
            problem = error
    call = begin_call(members, fingerprint, problem)
    yield call
    return OperationStarter(members, call, backend, is_exact=is_exact)
