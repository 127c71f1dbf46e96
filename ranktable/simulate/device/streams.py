"""Streams and events of a device that is done before it is asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from ranktable.simulate.device import inventory
from ranktable.simulate.device.device_index import index_of

if TYPE_CHECKING:
    from typing_extensions import Self

_PRIVATEUSE1 = 20  # c10::DeviceType
_MS_PER_S = 1e3


class Stream(torch.Stream):
    """A queue of work that is always empty."""

    def __new__(cls, device: Any = None, priority: int = 0, **_: Any) -> Self:  # noqa: ANN401, ARG004 - vendors' signatures differ
        """Make a stream of a chip; all streams of a chip are the same."""
        return super().__new__(
            cls, stream_id=0, device_index=index_of(device), device_type=_PRIVATEUSE1
        )

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Return True: all work is done."""
        return True

    def wait_event(self, event: object) -> None:
        """Return at once."""

    def wait_stream(self, other: object) -> None:
        """Return at once."""

    def record_event(self, event: Any = None) -> Any:  # noqa: ANN401 - torch's types
        """Return an event that has happened."""
        happened = Event() if event is None else event
        happened.record(self)
        return happened


class Event:
    """A moment on the host's clock."""

    def __init__(self, *_: object, enable_timing: bool = False, **__: object) -> None:
        """Take, and ignore, what vendors' events take."""
        self.is_timed = enable_timing
        self._recorded_s: float | None = None

    def record(self, stream: object = None) -> None:  # noqa: ARG002 - torch's signature
        """Note the time."""
        self._recorded_s = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to a later one.

        Raises:
            RuntimeError: One of them was not recorded.
        """
        if self._recorded_s is None or end._recorded_s is None:
            raise RuntimeError("both events must be recorded before the time is asked")
        return (end._recorded_s - self._recorded_s) * _MS_PER_S

    def wait(self, stream: object = None) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Return True: it has happened."""
        return True

    def synchronize(self) -> None:
        """Return at once."""


class StreamContext:
    """Make a stream current for a block; only its chip matters."""

    def __init__(self, stream: torch.Stream | None) -> None:
        """Take a stream, or None for no change."""
        self.stream = stream
        self._previous = 0

    def __enter__(self) -> torch.Stream | None:
        """Make its chip current."""
        self._previous = inventory.current_device()
        if self.stream is not None:
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_: object) -> None:
        """Make the previous chip current."""
        inventory.set_device(self._previous)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return a context in which a stream is current."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:  # noqa: ANN401 - None, int, str, torch.device
    """Return the stream of a chip."""
    return Stream(device)


def default_stream(device: Any = None) -> Stream:  # noqa: ANN401 - as above
    """Return the stream of a chip."""
    return Stream(device)


def set_stream(stream: torch.Stream) -> None:
    """Make a stream current: its chip."""
    inventory.set_device(stream.device_index)
