"""What an asynchronous call returns: a collective that may not have ended yet."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from threading import Lock
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)
from weakref import ref

import torch

from ranktable.dist.calls import CollectiveCall, await_backend
from ranktable.runtime.torch_versions import not_traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch.distributed as dist

    from ranktable.dist.group_state import GroupState
    from ranktable.dist.steps import Step, Steps

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Waited_co = TypeVar("Waited_co", covariant=True)
Later = TypeVar("Later")

_NO_CHANGE: Final = contextlib.nullcontext()


class Work(Generic[Result]):
    """A collective that may not have ended yet."""

    _result: Result
    _step: Step | None = None

    def __init__(self, members: GroupState, steps: Steps[Result]) -> None:
        """Start the work.

        The ranks are compared by ``wait`` and not before: torch's own calls in the
        group have to begin in the same order on every rank. What needs the shapes of
        other ranks goes on in the background, on connections of its own.
        """
        self._stream = members.current_stream()
        self._is_inference = torch.is_inference_mode_enabled()
        self._error: BaseException | None = None
        self._lock = Lock()
        self._steps: Steps[Result] | None = steps
        self._go_on()
        call = self._step
        if isinstance(call, CollectiveCall):
            call.is_async = True
            self._go_on()
            if isinstance(self._step, Pending) and self._step.is_of_shapes:
                self._steps = members.background.put(call, self._step, steps)
                self._go_on()
            elif not call.is_completed():
                members.unverified.append((ref(self), call))

    @not_traced
    def wait(self) -> Result:
        """Wait for the result and return it; a second call returns it again.

        On a device the current stream waits, and this function does not: operations
        that are started on that stream afterwards see the result.

        Raises:
            MismatchError: The ranks called different operations.
            DistError: The collective failed.
        """
        with self._lock:  # two threads would divide a mean twice
            if self._error is not None:
                raise self._error
            is_last = self._step is not None and self._step.is_last
            stream = None if is_last else self._stream
            try:
                with continued(stream, is_inference=self._is_inference) as now:
                    self._finish()
                    if now is not None:
                        _record(self._result, now)
            except BaseException as error:  # also Ctrl-C, which ends the work
                self._error, self._steps = error, None
                raise
            return self._result

    @not_traced
    def is_completed(self) -> bool:
        """Whether the result is written, so that ``wait`` returns at once.

        If the backend has ended, this does the remaining steps: means, casts, copies.
        """
        step = self._step if self._steps is not None else None
        if step is not None and not step.is_completed():
            return False
        with contextlib.suppress(Exception):  # wait raises it again for the caller
            self.wait()
        return True

    def _finish(self) -> None:
        """Do the remaining steps."""
        if self._steps is None and self._step is not None:
            self._step.wait()  # the current stream may be another one now
        while self._steps is not None:
            assert self._step is not None
            self._step.wait()
            self._go_on()

    def _go_on(self) -> None:
        assert self._steps is not None
        try:
            self._step = next(self._steps)
        except StopIteration as end:
            self._result, self._steps = end.value, None
            if self._step is not None and not self._step.is_last:
                self._step = None


class Collective(Protocol[Parameters, Waited_co, Later]):
    """The type of a collective that returns work if that is asked for.

    A type cannot add a keyword to the parameters of a function, so type checkers do not
    look at the other arguments of a call that gives ``async_op``.
    """

    @overload
    def __call__(
        self, *args: object, async_op: Literal[True], **named: object
    ) -> Work[Later]: ...
    @overload
    def __call__(
        self, *args: object, async_op: Literal[False], **named: object
    ) -> Waited_co: ...
    @overload
    def __call__(
        self, *args: object, async_op: bool, **named: object
    ) -> Waited_co | Work[Later]: ...
    @overload
    def __call__(
        self, *args: Parameters.args, **named: Parameters.kwargs
    ) -> Waited_co: ...


def collective(
    function: Callable[Parameters, Work[Result] | Result],
) -> Collective[Parameters, Result, Result]:
    """Return a collective with the type for type checkers."""
    return cast("Collective[Parameters, Result, Result]", function)


def in_place(
    function: Callable[Parameters, Work[Result] | None],
) -> Collective[Parameters, None, Result]:
    """Return a collective that returns only work, with the type for type checkers."""
    return cast("Collective[Parameters, None, Result]", function)


@dataclass(eq=False)
class Pending:
    """Operations that torch has started, as a step of a collective.

    Attributes:
        works: The work objects of torch; those of a transfer are removed when they
            were waited for.
        members: The group.
        call: The collective, None for a transfer between two ranks.
        is_last: Whether this package does nothing after it. Then every ``wait`` makes
            the current stream wait for the backend, as in torch.
        is_of_shapes: Whether they exchange shapes, which are needed before tensors can
            be sent.
    """

    works: list[dist.Work]
    members: GroupState
    call: CollectiveCall | None
    is_last: bool = False
    is_of_shapes: bool = False

    def is_completed(self) -> bool:
        """Whether torch has ended it, and it is known that the ranks do the same."""
        if not all(work.is_completed() for work in self.works):
            return False
        return self.call is None or self.call.is_decided()

    def wait(self) -> None:
        """Wait until torch has ended it.

        Raises:
            MismatchError: Another rank does something else.
            DistError: It failed, or did not end in time.
        """
        if self.call is not None:
            self.call.verify()
        try:
            for work in self.works:
                await_backend(work, self.members, self.call)
        finally:
            if self.call is None:
                self.works.clear()  # GroupState.keep looks at it


@contextlib.contextmanager
def continued(stream: Any, *, is_inference: bool) -> Iterator[Any]:
    """Use the inference mode and the stream in which a collective was started.

    Memory that was allocated on that stream is then used and released only there. If
    another stream is current, it waits; it is the yielded value.
    """
    is_same = torch.is_inference_mode_enabled() == is_inference
    with _NO_CHANGE if is_same else torch.inference_mode(is_inference):
        if stream is None:
            yield None
            return
        device = getattr(torch, stream.device.type)
        now = device.current_stream(stream.device)
        if now == stream:
            yield None
            return
        with device.stream(stream):
            yield now
        now.wait_stream(stream)


def _record(result: object, stream: Any) -> None:
    """Keep the memory of a result for a stream that has not made it."""
    for each in result if isinstance(result, list) else [result]:
        if isinstance(each, torch.Tensor) and each.device.type == stream.device.type:
            each.record_stream(stream)
