"""Collectives of tensors that torch takes as they are, by torch's own functions.

For small tensors the Python code around torch takes most of the time. So these have no
steps, and no streams or events but those of torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

import torch
from torch._C._distributed_c10d import AllreduceOptions, ReduceOp

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
_STRIDED: Final = torch.strided


def is_plain(data: object) -> TypeGuard[torch.Tensor]:
    """Whether something is a tensor that needs no preparation.

    Its memory has no gaps, holds its values as they are, and may be written to. Nearly
    all tensors are plain, and this check is faster than preparing one.
    """
    return (
        _is_simple(data)
        and not data.is_meta
        and not (data.is_conj() or data.is_quantized)
    )


def _is_simple(data: object) -> TypeGuard[torch.Tensor]:
    """Whether something is plain, if a backend accepts its device and its type.

    Each attribute of a tensor takes long to read. So this leaves out what the search
    for an operation checks too.
    """
    return (
        type(data) is torch.Tensor
        and data.layout is _STRIDED
        and data.is_contiguous()
        and not (
            data.requires_grad or data.is_neg() or data.is_inference() or data.is_nested
        )
    )


def mark_written(data: torch.Tensor) -> None:
    """Mark a tensor as changed, since torch does not see that a backend writes to it.

    Otherwise a backward pass that saved the tensor would use the new values. A part of
    a larger tensor is not marked: torch counts the changes of all parts together, and
    a backward pass may need another part, which nothing writes to.
    """
    if data.untyped_storage().nbytes() == data.nbytes:
        written = [data] if _COUNTS_LISTS else data
        torch._C._increment_version(written)  # noqa: SLF001 - the public one takes longer


@dataclass(frozen=True, slots=True, eq=False)  # there is one of each kind
class Native:
    """An operation of a backend for tensors that need no preparation.

    Attributes:
        fingerprint: What the ranks compare; it is the same for a call in steps.
        reduce_op: How the backend reduces, None if it does not.
        options: The same for a method of torch's group, which is faster than torch's
            function; None where the function is used.
    """

    fingerprint: CollectiveFingerprint
    reduce_op: ReduceOp | None
    options: AllreduceOptions | None


def native_of(  # noqa: PLR0913 - what collectives differ in
    members: GroupState,
    operation: str,
    data: object,
    reduction: object = None,
    *,
    root: int | None = None,
    is_cut: bool = False,
) -> Native | None:
    """Return the operation for a tensor, None if the tensor must be prepared.

    Args:
        members: The group.
        operation: Its name.
        data: The argument of the caller.
        reduction: The reduction.
        root: The global rank of the root.
        is_cut: Whether each rank gets an equal part of the tensor.
    """
    if not _is_simple(data) or not (reduction is None or type(reduction) is str):
        return None
    # The name of a device takes longer to read than everything else here.
    table_name = members.table_names.get("cpu" if data.is_cpu else data.device.type)
    if table_name is None or members.is_single:
        return None
    shape: tuple[int, ...] = data.shape
    if is_cut:
        if data.numel() == 0 or not shape or shape[0] % members.size:
            return None
        shape = (shape[0] // members.size, *shape[1:])
    return _native(table_name, operation, data.dtype, reduction, shape, root)


@lru_cache(maxsize=MOST_KNOWN)
def _native(  # noqa: PLR0913, PLR0917 - see native_of
    table_name: str,
    operation: str,
    dtype: torch.dtype,
    reduction: str | None,
    shape: tuple[int, ...],
    root: int | None,
) -> Native | None:
    how = _how(table_name, operation, dtype, reduction)
    if how is None:
        return None
    details = (f"of rows {tuple(shape[1:])}",) if operation == "all_to_all" else ()
    name = str(dtype).removeprefix("torch.")
    fingerprint = CollectiveFingerprint(
        operation, reduction, name, shape, root, details, table_name
    )
    return Native(fingerprint, *how)


@lru_cache(maxsize=MOST_KNOWN)  # anything may be given as a reduction
def _how(
    table_name: str, operation: str, dtype: torch.dtype, reduction: str | None
) -> tuple[ReduceOp | None, AllreduceOptions | None] | None:
    """Return how the backend reduces, as ``Native`` has it; None if it cannot do it."""
    if dtype.is_complex:  # torch hands a backend their parts
        return None
    name, backend = str(dtype).removeprefix("torch."), backend_named(table_name)
    has = backend.operations.get(operation)
    if has is None or name not in has.dtypes:
        return None
    if operation not in ("all_reduce", "reduce_scatter"):
        return None, None
    if has.is_derived or problem_of_values(reduction, name) is not None:
        return None
    wire = choose_wire(has, name, str(reduction), is_exact=backend.serves_cpu)
    if wire is None or wire.encoding != "itself":
        return None
    reduce_op, options = ReduceOp(OPS[wire.reduction]), None
    if table_name == "gloo" and operation == "all_reduce":
        options = AllreduceOptions()
        options.reduceOp = reduce_op
    return reduce_op, options


def begin_native(  # noqa: PLR0913 - what collectives differ in
    members: GroupState,
    native: Native,
    function: Callable[..., dist.Work | None],
    given: tuple[object, ...],
    result: Result,
    *,
    is_new: bool = False,
    is_written: bool = True,
    async_op: bool = False,
) -> Work[Result] | Result | None:
    """Start a collective, and wait for it unless it is asynchronous.

    Args:
        members: The group.
        native: What ``native_of`` has returned.
        function: The function of torch.
        given: Its first arguments.
        result: What the caller gets.
        is_new: Whether the result was allocated here, on the current stream.
        is_written: Whether the result is written to.
        async_op: Whether to return at once.

    Returns:
        The result; with ``async_op`` work whose result this is. None if it cannot begin
        at once, because others are queued or the ranks have to compare it.
    """
    fingerprint = native.fingerprint
    if async_op and not can_begin(members, fingerprint):
        return None
    call = begin_call(members, fingerprint)
    if call.held is not None or members.queue.works:
        call.wait()
    divisor = members.size if fingerprint.reduction == "mean" else 1
    is_written = is_written and not is_new
    if is_written:
        mark_written(given[0])  # type: ignore[arg-type] # it is the result
    # If torch returns no work, it has used the current stream.
    is_returned = async_op or members.supports_timed_wait
    stream = members.current_stream() if async_op and (is_new or divisor > 1) else None
    group = members.group  # raises if it was destroyed
    begun: dist.Work | None
    try:
        if native.options is not None:
            begun = group.allreduce([given[0]], native.options)  # type: ignore[list-item]
        else:
            how = () if native.reduce_op is None else (native.reduce_op,)
            begun = function(*given, *how, group=group, async_op=is_returned)
    except RuntimeError as error:
        if members.supports_timed_wait:
            raise explained(error, members, call) from error
        raise refused(error, members, fingerprint.backend, call) from error
    if async_op:
        written = result if is_written else None
        return DirectWork(call, begun, result, divisor, stream, written)
    if begun is not None:
        await_backend(begun, members, call)
    _divide(result, divisor)
    return result


def _divide(result: Any, divisor: int) -> None:  # noqa: ANN401 - one tensor where it matters
    if divisor > 1:
        result.data.div_(divisor)  # not counted as a change; see mark_written


class DirectWork(Work[Result]):
    """A collective of torch that may not have ended yet.

    Every ``wait`` makes the current stream wait, as in torch.
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
        """Store what is needed to end it.

        Args:
            call: The collective.
            begun: What torch has returned; None if it is on the current stream.
            result: What it becomes.
            divisor: What to divide that by.
            stream: On which the result was made or is divided; None for the current.
            written: The tensor that only the backend writes to. It is marked as changed
                at the begin and at the end, since a forward may save it between.
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
