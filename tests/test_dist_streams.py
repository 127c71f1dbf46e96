"""Work on streams of a device, which is replaced by a recorder."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._C._distributed_c10d import AllreduceOptions

from ranktable.dist.calls import CollectiveFingerprint
from ranktable.dist.steps import Native, native_steps
from ranktable.dist.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.dist.steps import Steps

pytestmark = pytest.mark.torch


class Stream:
    """A stream of a device, which writes down what waits for it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.device = SimpleNamespace(type="cpu")
        self._log = log

    def wait_stream(self, other: Stream) -> None:
        self._log.append(f"{self.name} waits for {other.name}")


class Recorded(torch.Tensor):
    """A tensor that keeps the streams which it is recorded for."""

    streams: list[str]

    def record_stream(self, stream: Stream) -> None:  # type: ignore[override]
        self.streams.append(stream.name)


class Device:
    """Streams, one of them current, and a collective that says on which it goes on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.first, self.second = Stream("first", self.log), Stream("second", self.log)
        self.current = self.first
        patch.setattr(
            torch,
            "cpu",
            SimpleNamespace(current_stream=lambda _=None: self.current, stream=self.on),
        )
        self.members: Any = SimpleNamespace(
            supports_timed_wait=False,
            current_stream=lambda: self.current,
            failure=None,
            unverified=(),
            seq=0,
            can_compare=False,
            size=4,
        )

    @contextlib.contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def say(self, what: str) -> None:
        self.log.append(f"{what} on {self.current.name}")

    def collective(self, result: object, *, is_last: bool = False) -> Steps[Any]:
        self.say("begun")
        yield SimpleNamespace(
            is_last=is_last,
            wait=lambda: self.say("waited"),
            is_completed=lambda: False,
        )
        self.say("written")
        return result


def tensor() -> Any:
    made = torch.ones(1).as_subclass(Recorded)
    made.streams = []
    return made


def test_a_wait_on_another_stream_goes_on_with_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device, parts = Device(monkeypatch), [tensor(), tensor()]
    work: Work[Any] = Work(device.members, device.collective(parts))
    device.current = device.second

    found = work.wait()

    assert found is parts
    assert device.log == [
        "begun on first",
        "waited on first",
        "written on first",
        "second waits for first",
    ]
    assert [each.streams for each in parts] == [["second"]] * 2
    assert device.current is device.second


def test_a_wait_on_the_same_stream_records_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device, data = Device(monkeypatch), tensor()
    work: Work[Any] = Work(device.members, device.collective(data))

    work.wait()

    assert device.log == ["begun on first", "waited on first", "written on first"]
    assert data.streams == []


def test_a_second_wait_on_another_stream_waits_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device, data = Device(monkeypatch), tensor()
    work: Work[Any] = Work(device.members, device.collective(data))
    work.wait()
    device.current = device.second

    work.wait()

    assert device.log[3:] == ["second waits for first"]
    assert data.streams == ["second"]


def test_what_torch_does_alone_is_waited_for_by_every_stream_that_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device, data = Device(monkeypatch), tensor()
    work: Work[Any] = Work(device.members, device.collective(data, is_last=True))
    work.wait()
    device.current = device.second

    assert work.wait() is data
    assert device.log == [
        "begun on first",
        "waited on first",
        "written on first",
        "waited on second",
    ]


@pytest.mark.parametrize(
    ("op", "found", "log"),
    [
        ("sum", 1.0, ["waited on second"] * 2),
        ("mean", 1 / 4, ["waited on first", *["second waits for first"] * 2]),
    ],
)
def test_one_operation_uses_its_first_stream_only_if_something_follows(
    monkeypatch: pytest.MonkeyPatch, op: str, found: float, log: list[str]
) -> None:
    device, data = Device(monkeypatch), tensor()
    begun: Any = SimpleNamespace(wait=lambda: device.say("waited"))
    device.members.group = SimpleNamespace(allreduce=lambda *_: begun)
    fingerprint = CollectiveFingerprint("all_reduce", op)
    native = Native(fingerprint, None, AllreduceOptions())
    steps = native_steps(device.members, native, data, async_op=True)
    work: Work[Any] = Work(device.members, steps)
    device.current = device.second
    work.wait()

    assert work.wait().item() == found
    assert device.log == log
