"""Collectives under way, and what every public function does with errors."""

from __future__ import annotations

import functools
import inspect
from threading import Lock
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from ranktable._error import Error
from ranktable.dist.errors import failure
from ranktable.runtime.torch_versions import out_of_memory_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    import torch.distributed as dist

__all__ = ["Work"]

OUT_OF_MEMORY = out_of_memory_error()

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Now_co = TypeVar("Now_co", covariant=True)


class Work(Generic[Result]):
    """A collective or a transfer under way; ``wait`` returns its result.

    Until then nothing else may use its tensors. Any number of threads may wait.
    """

    def __init__(
        self, work: dist.Work | None, finish: Callable[[], Result], name: str
    ) -> None:
        """Store what was started.

        Args:
            work: Torch's work; None if it has ended already.
            finish: Returns the result after torch has ended.
            name: The function that started it, for errors.
        """
        self._work = work
        self._finish: Callable[[], Result] | None = finish
        self._result: Any = None
        self._name = name
        self._lock = Lock()

    def wait(self, timeout: timedelta | None = None) -> Result:
        """Wait for the result and return it; a second call returns it again.

        On a device the current stream waits, as in torch. The result is written on the
        stream of the first call.

        Args:
            timeout: Time to wait; by default that of the group.

        Raises:
            DistError: It failed, or did not end in time.
        """
        with self._lock:  # otherwise two threads would divide a mean twice
            try:
                if self._work is not None:
                    self._work.wait() if timeout is None else self._work.wait(timeout)
                self._work = None  # gloo would wait for another transfer
                if self._finish is not None:
                    self._result, self._finish = self._finish(), None
            except (Error, OUT_OF_MEMORY):
                raise
            except RuntimeError as error:
                raise failure(self._name, error) from error
        return self._result  # type: ignore[no-any-return]

    def is_completed(self) -> bool:
        """Whether the result is there; if only the last step is left, this does it.

        Raises:
            DistError: It failed.
        """
        work = self._work
        if work is not None and not work.is_completed():
            return False
        self.wait()
        return True


def finished(
    work: dist.Work | None, finish: Callable[[], Result], name: str, *, async_op: bool
) -> Work[Result] | Result:
    """Return the result of what was started, or its work if it is asynchronous."""
    return Work(work, finish, name) if async_op else finish()


def written(
    work: dist.Work | None, finish: Callable[[], Result], name: str, *, async_op: bool
) -> Work[Result] | None:
    """Write the result of what was started in place, or return its work."""
    if async_op:
        return Work(work, finish, name)
    finish()
    return None


def public(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a function whose errors are ours.

    What torch raises becomes a ``DistError``. A wrong argument, such as one that
    torch's function of this name takes, is answered with the form to write.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(*given: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            return function(*given, **named)
        except (Error, OUT_OF_MEMORY):
            raise
        except RuntimeError as error:
            raise failure(name, error) from error
        except TypeError as error:
            raise TypeError(f"{error}; write {name}{_form(function)}") from error

    return call


def _form(function: Callable[..., object]) -> str:
    """Return the arguments of a function, without their types."""
    signature, empty = inspect.signature(function), inspect.Signature.empty
    bare = [each.replace(annotation=empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=empty))


class Collective(Protocol[Parameters, Now_co]):
    """The type of a function that returns work if ``async_op`` is given.

    A type cannot add a keyword to the parameters of a function, so type checkers do not
    look at the other arguments, nor at the result, of a call that gives it.
    """

    @overload
    def __call__(self, *given: Any, async_op: bool, **named: Any) -> Any: ...
    @overload
    def __call__(
        self, *given: Parameters.args, **named: Parameters.kwargs
    ) -> Now_co: ...


def collective(
    function: Callable[Parameters, Work[Any] | Result],
) -> Collective[Parameters, Result]:
    """Return a public collective."""
    return cast("Collective[Parameters, Result]", public(function))
