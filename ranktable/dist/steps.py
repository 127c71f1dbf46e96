"""How a collective runs: in steps, for calls that wait and for asynchronous calls.

The steps are a generator. It starts an operation of a backend, yields it, continues
when it has ended, and returns the result at the end. A tensor that torch takes as it is
needs one operation. Such tensors are often small, and then the Python code around torch
takes most of the time; so that operation has no streams or events but those of torch.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, ReduceOp

from ranktable.dist.calls import (
    MOST_KNOWN,
    CollectiveFingerprint,
    await_backend,
    begin_call,
    explained,
    refused,
)
from ranktable.dist.wire import choose_wire, problem_of_values
from ranktable.dist.work import Pending, Work
from ranktable.runtime.backends.backend import backend_named
from ranktable.runtime.torch_versions import (
    counts_writes_of_lists,
    reduce_scatter_single,
)

if TYPE_CHECKING:
    from ranktable.dist.calls import CollectiveCall
    from ranktable.dist.collective_errors import DistError
    from ranktable.dist.group_state import GroupState

Result = TypeVar("Result")


class Step(Protocol):
    """An operation that a collective waits for before it continues."""

    @property
    def is_last(self) -> bool:
        """Whether this package does nothing after it, see ``Pending``."""
        ...

    def is_completed(self) -> bool:
        """Whether it has ended."""
        ...

    def wait(self) -> None:
        """Wait until it has ended."""
        ...


Steps: TypeAlias = Generator[Step, None, Result]


def run(
    members: GroupState, steps: Steps[Result], *, async_op: bool
) -> Work[Result] | Result:
    """Return the result of a collective; with ``async_op`` work with this result."""
    return Work(members, steps) if async_op else finish(steps)


def run_in_place(
    members: GroupState, steps: Steps[Result], *, async_op: bool
) -> Work[Result] | None:
    """Do a collective in place; with ``async_op`` return work."""
    if async_op:
        return Work(members, steps)
    for step in steps:  # faster than what gets the result too
        step.wait()
    return None


def finish(steps: Steps[Result]) -> Result:
    """Do all steps of a collective, and return its result."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        step.wait()


OPS: Final = {
    "sum": ReduceOp.SUM,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}

REDUCE_SCATTER: Final = reduce_scatter_single()
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

    Otherwise a backward pass that saved the tensor would use the new values. What a
    forward has saved counts at the begin of a collective, since a backward may come
    before its end; what it saves meanwhile counts at the end. A part of a larger tensor
    is not marked: torch counts the changes of all parts together, and a backward pass
    may need another part, which nothing writes to.
    """
    is_whole = data.untyped_storage().nbytes() == data.nbytes
    if is_whole and not data.is_inference():
        written = [data] if _COUNTS_LISTS else data
        torch._C._increment_version(written)


def direct_steps(
    members: GroupState,
    operation: str,
    data: object,
    reduction: object = None,
    *,
    root: int | None = None,
    async_op: bool = False,
) -> Steps[Any] | None:
    """Return a collective as one operation of torch, None if it needs preparation.

    Args:
        members: The group.
        operation: Its name.
        data: The argument of the caller.
        reduction: The reduction.
        root: The global rank of the root.
        async_op: Whether the caller gets work.
    """
    if not _is_simple(data) or not (reduction is None or type(reduction) is str):
        return None
    # The name of a device takes longer to read than everything else here.
    table_name = members.table_names.get("cpu" if data.is_cpu else data.device.type)
    if table_name is None or members.is_single:
        return None
    shape: tuple[int, ...] = data.shape
    if operation in _CUT:
        if data.numel() == 0 or not shape or shape[0] % members.size:
            return None
        shape = (shape[0] // members.size, *shape[1:])
    native = _native(table_name, operation, data.dtype, reduction, shape, root)
    if native is None:
        return None
    return native_steps(members, native, data, async_op=async_op)


_CUT: Final = {
    "all_to_all": "all_to_all_single",
    "reduce_scatter": REDUCE_SCATTER.__name__,
}
"""Torch's functions for collectives that send each rank an equal part of a tensor."""


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


@lru_cache(maxsize=MOST_KNOWN)  # anything may be given as a reduction
def _native(
    table_name: str,
    operation: str,
    dtype: torch.dtype,
    reduction: str | None,
    shape: tuple[int, ...],
    root: int | None,
) -> Native | None:
    """Return the operation of a backend, None if it does not take such a tensor."""
    name, backend = str(dtype).removeprefix("torch."), backend_named(table_name)
    has = backend.operations.get(operation)
    # Torch hands a backend the real parts of complex numbers.
    if has is None or name not in has.dtypes or dtype.is_complex:
        return None
    reduce_op, options = None, None
    if operation in ("all_reduce", "reduce_scatter"):
        if has.is_derived or problem_of_values(reduction, name) is not None:
            return None
        wire = choose_wire(has, name, str(reduction), is_exact=backend.serves_cpu)
        if wire is None or wire.encoding != "itself":
            return None
        reduce_op = ReduceOp(OPS[wire.reduction])
        if backend.name == "gloo" and operation == "all_reduce":
            options = AllreduceOptions()
            options.reduceOp = reduce_op
    details = (f"of rows {tuple(shape[1:])}",) if operation == "all_to_all" else ()
    fingerprint = CollectiveFingerprint(
        operation, reduction, name, shape, root, details, table_name
    )
    return Native(fingerprint, reduce_op, options)


def native_steps(
    members: GroupState,
    native: Native,
    data: torch.Tensor,
    *,
    async_op: bool,
) -> Steps[Any]:
    """Do a collective as one operation of torch, see ``direct_steps``."""
    fingerprint, root = native.fingerprint, native.fingerprint.root
    result: Any = data
    if native.options is None:
        given, result = _arguments(members, native, data)
    call = begin_call(members, fingerprint)
    if call.held is not None:
        yield call
    is_new, is_mean = result is not data, fingerprint.reduction == "mean"
    is_written = not is_new and (root is None or root != members.rank)
    if is_written:
        mark_written(data)
    group = members.group  # raises if it was destroyed
    begun: dist.Work | None
    try:
        if native.options is not None:
            begun = group.allreduce([data], native.options)
        else:
            name = fingerprint.operation
            function = getattr(dist, _CUT.get(name, name))
            # If torch returns no work, it has used the current stream.
            is_returned = async_op or members.supports_timed_wait
            begun = function(*given, group=group, async_op=is_returned)
    except RuntimeError as error:
        raise _error_of(error, members, call) from error
    if async_op:
        works = [] if begun is None else [begun]
        yield Pending(works, members, call, is_last=not (is_new or is_mean))
    elif begun is not None:
        await_backend(begun, members, call)
    if is_mean:
        result.data.div_(members.size)  # not counted as a change; see mark_written
    if async_op and is_written:  # a forward may have saved it since the begin
        mark_written(data)
    return result


def _arguments(
    members: GroupState, native: Native, data: torch.Tensor
) -> tuple[tuple[object, ...], Any]:
    """Return the first arguments of torch's function, and the result."""
    operation, root = native.fingerprint.operation, native.fingerprint.root
    reduce_op = () if native.reduce_op is None else (native.reduce_op,)
    if operation == "all_gather":
        outputs = [data.new_empty(data.shape) for _ in members.ranks]
        return (outputs, data), outputs
    if operation in _CUT:
        part = native.fingerprint.shape or ()
        output = data.new_empty(data.shape if operation == "all_to_all" else part)
        return (output.view(-1), data.view(-1), *reduce_op), output
    return (data, *(reduce_op if root is None else (root,))), data


def _error_of(
    error: RuntimeError, members: GroupState, call: CollectiveCall
) -> DistError:
    if members.supports_timed_wait:
        return explained(error, members, call)
    return refused(error, members, call.fingerprint.backend, call)
