"""Wait for a rank table that is complete, sound and no longer changing.

Generators write in place, so a reader may see half of a file. A ConfigMap is a chain of
links whose targets are replaced. So the whole file is read again after each pause,
until two readings in a row give the same sound content. Times of files are not used: on
a network they may be old, and two writes may have the same time.

Source: Huawei's ascend-operator (``O_TRUNC``, then write) and the start scripts that
poll ``status``; the volumes of Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.schema.check import check_bytes, report_unreadable
from ranktable.schema.document import Document
from ranktable.schema.files import UnreadableError
from ranktable.schema.finding import Finding, Severity
from ranktable.schema.formats.placeholder import is_placeholder
from ranktable.schema.json_parser import parse
from ranktable.schema.report import Options
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.report import Report

COMPLETED = "completed"
"""The status of a table that its controller has completed."""

INITIALIZING = "initializing"
"""The status of a table that its controller has not completed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock, which tests replace.

    Attributes:
        now: Returns the time in seconds.
        sleep: Waits for a number of seconds.
    """

    now: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a table is not ready yet.

    Attributes:
        kind: Identifies the reason: the code of the finding.
        text: The reason in words.
        is_final: Whether waiting longer does not help.
    """

    kind: str
    text: str
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """How the waiting ended.

    Attributes:
        report: The report of the last reading.
        reason: Why waiting ended without a table, None if the table is ready.
        waited_s: How many seconds it took.
    """

    report: Report
    reason: Reason | None
    waited_s: float = 0.0


def wait_for_table(
    read: Callable[[], bytes],
    *,
    file: str,
    timeout_s: float,
    interval_s: float,
    clock: Clock,
    on_reason: Callable[[Reason, float], None],
) -> WaitResult:
    """Return when two readings of a file give the same sound table, or at a time-out.

    A status that is neither ``initializing`` nor ``completed`` in two readings ends the
    waiting, because no operator will correct a misspelt word.

    Args:
        read: Returns the bytes of the file or raises UnreadableError.
        file: Its name.
        timeout_s: Most seconds to wait.
        interval_s: Seconds between two readings.
        clock: The clock.
        on_reason: Called after every reading with the reason to go on, and the seconds
            since this reason is the same.
    """
    start = clock.now()
    watcher = _Watcher(read, file)
    while True:
        reason = watcher.look()
        if reason is None:
            return WaitResult(report=watcher.report, reason=None)
        waited_s = clock.now() - start
        if waited_s >= timeout_s or (reason.is_final and watcher.is_same):
            return WaitResult(report=watcher.report, reason=reason, waited_s=waited_s)
        on_reason(reason, waited_s)
        clock.sleep(min(interval_s, timeout_s - waited_s))


class _Watcher:
    """The state after the last reading."""

    def __init__(self, read: Callable[[], bytes], file: str) -> None:
        self.read = read
        self.file = file
        self.data: bytes | None = None
        self.is_sound = self.is_same = False
        self.report = check_bytes(b"", Options(), file=file)

    def look(self) -> Reason | None:
        """Read the file once; return why to wait, None if the table is ready."""
        try:
            data = self.read()
        except UnreadableError as error:
            self.data, self.is_sound, self.is_same = None, False, False
            self.report = report_unreadable(error, file=self.file)
            return Reason(error.code, error.message)
        was_sound = self.is_sound
        is_same = self.is_same = data == self.data
        if not is_same:
            self.data = data
            self.report = check_bytes(data, Options(limit=_SHOWN), file=self.file)
        reason = _defect(self.report)
        self.is_sound = reason is None
        if reason is None and not is_same:
            return CHANGED if was_sound else UNCONFIRMED
        return reason


_SHOWN = 20
"""Most findings of each code that are kept."""

UNCONFIRMED = Reason("", "it is sound, and had no time to be read once more")
CHANGED = Reason("changed", "it changed since the last reading")


def _placeholder_status(text: str) -> object:
    """Return the status of a placeholder, None for another text."""
    parsed = parse(text)
    if isinstance(parsed, Finding) or not is_placeholder(parsed[0]):
        return None
    return Document(text=text, data=parsed[0]).get("status")


def _defect(report: Report) -> Reason | None:
    """Return why a table is not ready; a half-written one has no status."""
    columns = report.columns
    status = columns.top.get("status") if columns else None
    if columns is None and report.text is not None:
        status = _placeholder_status(report.text)
    if isinstance(status, str) and status not in (COMPLETED, INITIALIZING):
        text = f"its status is {quoted(status)}, which never becomes {COMPLETED!r}"
        return Reason("status", f"{text}; correct the word", is_final=True)
    for diagnostic in report.diagnostics:
        if diagnostic.severity is Severity.ERROR:
            code, message = diagnostic.code, diagnostic.message
            return Reason(code, f"{message} ({code})")
    if isinstance(status, str) and status != COMPLETED:
        return Reason("status", f"its status is {quoted(status)}, not {COMPLETED}")
    return None
