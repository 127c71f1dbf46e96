"""Waiting for a rank table that is complete, sound and no longer changing.

Generators write in place, so a reader may meet half a file; a ConfigMap is a chain of
links whose targets are exchanged. So the file is read as a whole, over and over with a
pause, until two readings in a row have the same sound content. Times of files are not
trusted: on a network they are old, and two writings may share one.

Source: Huawei's ascend-operator (``O_TRUNC``, then write) and the start scripts that
poll ``status``; the volumes of Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.schema.check import check_bytes, report_unreadable
from ranktable.schema.diagnostic import Options, Severity, quoted
from ranktable.schema.files import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.diagnostic import Report

COMPLETED = "completed"
"""The status of a table that its controller has filled in."""

INITIALIZING = "initializing"
"""The status of one that it will fill in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time, which a test replaces.

    Attributes:
        now: Seconds since some moment.
        sleep: Waits for so many seconds.
    """

    now: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a table is still waited for.

    Attributes:
        kind: What makes it another reason: the code of the finding.
        text: The reason in words.
        is_final: Whether waiting cannot help.
    """

    kind: str
    text: str
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """How the waiting ended.

    Attributes:
        report: What was found in the last reading.
        reason: Why it was given up, None when the table is there.
        waited_s: How long it took.
    """

    report: Report
    reason: Reason | None
    waited_s: float = 0.0


def wait_for_table(  # noqa: PLR0913 - what it does and whom it tells, by name
    read: Callable[[], bytes],
    *,
    file: str,
    timeout_s: float,
    interval_s: float,
    clock: Clock,
    on_reason: Callable[[Reason, float], None],
) -> WaitResult:
    """Return when a file has held the same sound table twice, or time is up.

    A status that is neither ``initializing`` nor ``completed`` in two readings is not
    waited for: no operator comes back to mend a misspelt word.

    Args:
        read: Returns the bytes of the file or raises UnreadableError.
        file: Its name.
        timeout_s: How long to wait.
        interval_s: Pause between two readings.
        clock: The time.
        on_reason: Told after every reading why it goes on, and since how many seconds.
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
    """What the last reading brought."""

    def __init__(self, read: Callable[[], bytes], file: str) -> None:
        self.read = read
        self.file = file
        self.data: bytes | None = None
        self.is_sound = self.is_same = False
        self.report = check_bytes(b"", Options(), file=file)

    def look(self) -> Reason | None:
        """Read once more; return why to go on, None when there is no reason."""
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
"""Findings of each code that are kept."""

UNCONFIRMED = Reason("", "it is sound, and had no time to be read once more")
CHANGED = Reason("changed", "it changed since the last reading")


def _defect(report: Report) -> Reason | None:
    """Return why a table is not ready; of a half-written one there is no status."""
    columns = report.columns
    status = columns.top.get("status") if columns else None
    if status is None and columns and not columns.format.has_global_ranks:
        status = columns.document.get("status")  # of a placeholder, or of groups
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
