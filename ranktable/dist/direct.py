"""Collectives of tensors that torch takes as they are: all they need is torch's own.

What is done in Python comes on top of what torch takes, and for small tensors it is
most of the time. So these have no steps, and no streams or events but torch's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

import torch
from torch._C._distributed_c10d import ReduceOp

from ranktable.dist.calls import (
    MOST_KNOWN,
    CollectiveFingerprint,
    await_backend,
    begin_call,
    can_begin,
    explained,
    refused,
)
from ranktable.dist.wire import choose_wire, problem_of_values
from ranktable.dist.work import Work
from ranktable.runtime.backends.backend import backend_named
from ranktable.runtime.torch_versions import counts_writes_of_lists

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch.distributed as dist

    from ranktable.dist.calls import CollectiveCall
    from ranktable.dist.group_state import GroupState

Result = TypeVar("Result")

OPS: Final = {
    "sum": ReduceOp.SUM,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}

_COUNTS_LISTS: Final = counts_writes_of_lists()


def is_plain(data: object) -> TypeGuard[torch.Tensor]:
    """Whether something is a tensor that needs no preparation.

    It has memory without gaps, anything may be written to it, and its memory is its
    values. Nearly all are, and to see that takes less than to prepare one.
    """
    return (
        type(data) is torch.Tensor
        and not data.is_meta
        and data.layout is torch.strided
        and data.is_contiguous()
        and not (
            data.requires_grad
            or data.is_conj()
            or data.is_neg()
            or data.is_inference()
            or data.is_quantized
            or data.is_nested
        )
    )


def mark_written(data: torch.Tensor) -> None:
    """Tell torch that a backend writes to a tensor, which it cannot see itself.

    A backward that has saved the tensor would use the new values otherwise.
    """
    written = [data] if _COUNTS_LISTS else data
    torch._C._increment_version(written)  # noqa: SLF001 - the public one takes longer


@dataclass(frozen=True, slots=True, eq=False)  # there is one of a kind
class Native:
    """An operation that a backend has for tensors as they are.

    Attributes:
        operation: Its name.
        table_name: Name of what the backend can do.
        dtype: Type of the tensors.
        reduction: How the caller wants it to reduce.
        told: How the backend does it.
    """

    operation: str
    table_name: str
    dtype: str
    reduction: str | None
    told: ReduceOp | None


def native_of(
    members: GroupState, operation: str, data: object, reduction: object = None
) -> Native | None:
    """Return the operation for a tensor, None where something has to be prepared."""
    if not is_plain(data) or not (reduction is None or type(reduction) is str):
        return None
    # The name of a device takes longer than all else that is asked here.
    table_name = members.table_names.get("cpu" if data.is_cpu else data.device.type)
    if table_name is None or members.is_single:
        return None
    return _native(operation, table_name, data.dtype, reduction)


@lru_cache(maxsize=1024)  # anything may be given as a reduction
def _native(
    operation: str, table_name: str, dtype: torch.dtype, reduction: str | None
) -> Native | None:
    if dtype.is_complex:  # torch hands a backend their parts
        return None
    name, backend = str(dtype).removeprefix("torch."), backend_named(table_name)
    has = backend.operations.get(operation)
    if has is None or name not in has.dtypes:
        return None
    told = None
    if operation in ("all_reduce", "reduce_scatter"):
        if has.is_derived or problem_of_values(reduction, name) is not None:
            return None
        wire = choose_wire(has, name, str(reduction), is_exact=backend.serves_cpu)
        if wire is None or wire.encoding != "itself":
            return None
        told = ReduceOp(OPS[wire.reduction])
    return Native(operation, table_name, name, reduction, told)


@lru_cache(maxsize=MOST_KNOWN)
def _fingerprint(
    native: Native,
    shape: tuple[int, ...],
    root: int | None,
    details: tuple[object, ...],
) -> CollectiveFingerprint:
    return CollectiveFingerprint(
        native.operation,
        native.reduction,
        native.dtype,
        shape,
        root,
        details,
        native.table_name,
    )


def begin_native(  # noqa: PLR0913, PLR0917 - what collectives differ in
    members: GroupState,
    native: Native,
    function: Callable[..., dist.Work | None],
    given: tuple[object, ...],
    result: Result,
    shape: tuple[int, ...],
    *,
    root: int | None = None,
    details: tuple[object, ...] = (),
    is_new: bool = False,
    is_written: bool = True,
    async_op: bool = False,
) -> Work[Result] | Result | None:
    """Begin a collective, and wait for it unless it is asynchronous.

    Args:
        members: The group.
        native: What ``native_of`` has returned.
        function: That of torch.
        given: What it is given first.
        result: What the caller gets.
        shape: As ``begin`` compares it: ranks may come this way or the other.
        root: Likewise.
        details: Likewise.
        is_new: Whether the result was made here, so that the caller knows nothing of
            the stream on which it was.
        is_written: Whether the result is written to.
        async_op: Whether to return at once.

    Returns:
        The result; with ``async_op`` work whose result this is, or None where others
        have to begin before it, or the ranks to compare it: then nothing has begun.
    """
    global_root = None if root is None else members.ranks[root]
    fingerprint = _fingerprint(native, shape, global_root, details)
    if async_op and not can_begin(members, fingerprint):
        return None
    call = begin_call(members, fingerprint)
    if call.held is not None or members.queue.works:
        call.wait()
    divisor = members.size if native.reduction == "mean" else 1
    is_written = is_written and not is_new
    if is_written:
        mark_written(given[0])  # type: ignore[arg-type] # it is the result
    if native.told is not None:
        given = (*given, native.told)
    # What torch need not return it does on the current stream.
    is_returned = async_op or members.supports_timed_wait
    stream = members.current_stream() if async_op and (is_new or divisor > 1) else None
    group = members.group  # which may have ended
    try:
        begun = function(*given, group=group, async_op=is_returned)
    except RuntimeError as error:
        if members.supports_timed_wait:
            raise explained(error, members, call) from error
        raise refused(error, members, native.table_name, call) from error
    if async_op:
        written = result if is_written and divisor == 1 else None
        return DirectWork(call, begun, result, divisor, stream, written)
    if begun is not None:
        await_backend(begun, members, call)
    _divide(result, divisor)
    return result


def _divide(result: Any, divisor: int) -> None:  # noqa: ANN401 - one tensor where it matters
    if divisor > 1:
        result.div_(divisor)


class DirectWork(Work[Result]):
    """A collective of torch that may not have ended yet.

    Whoever waits makes the current stream wait, as in torch, at every call.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what it needs to end
        self,
        call: CollectiveCall,
        begun: dist.Work | None,
        result: Result,
        divisor: int,
        stream: Any,  # noqa: ANN401 - of any device
        written: Any = None,  # noqa: ANN401 - one tensor
    ) -> None:
        """Keep what is needed to end it.

        Args:
            call: The collective.
            begun: What torch has returned; None if it is on the current stream.
            result: What it becomes.
            divisor: What to divide that by.
            stream: On which the result was made or is divided; None for the current.
            written: The tensor that only the backend writes to. Torch hears of that at
                the begin and at the end, since a forward may save it between.
        """
        super().__init__(call.members, stream)
        self._call = call
        self._begun = begun
        self._result = result
        self._divisor = divisor
        self._written = written

    def _has_ended(self) -> bool:
        return self._begun is None or self._begun.is_completed()

    def _finish(self) -> None:
        if self._begun is not None:
            await_backend(self._begun, self._call.members, self._call)
        _divide(self._result, self._divisor)
        if self._written is not None:
            mark_written(self._written)
        self._divisor, self._written = 1, None
