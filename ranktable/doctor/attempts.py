"""Several attempts in the logs of one job: the last one is judged.

A new attempt begins where a launcher says so, in a folder or file of a higher number,
and where the steps of all who tell them fall below an end that a launcher told. Where
the log of an agent alone tells a restart, clocks and steps part the other logs; lines
that neither parts are ``UNSURE``.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.doctor.identity import old_processes, process_of
from ranktable.doctor.patterns import NO_ERRORS, Evidence
from ranktable.doctor.times import CLEARLY_S, seconds_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.doctor.lines import Log, LogEvent

_OF_FOLDER = re.compile(r"attempt_(\d{1,6})[/\\]")
_OF_CONTAINER = re.compile(
    r"(?:^|[/\\])[^/\\_]+_[^/\\_]+_[^/\\_]+[/\\][^/\\]+[/\\](\d{1,6})\.log(?:\.gz)?$"
)
"""The log of a container on its node: ``NAMESPACE_POD_UID/CONTAINER/RESTART.log``."""

_OF_SLURM = re.compile(r"(?:^|[/\\])slurm-(\d{1,9})\.(?:out|err)$")
"""What sbatch writes for each job, by its number."""

_EPOCH = re.compile(r"(?i)\bepochs?\b\W{0,4}(\d{1,9})")
_STEP = re.compile(
    r"(?i)\b(?:global_)?(?:step|iter(?:ation)?|batch)s?\b\W{0,12}(\d{1,12})"
    r"|\d%\|[^|]{0,200}\| *(\d{1,12})/\d"
)
_SAYS_NOTHING = (Evidence.IDENTITY, Evidence.STATE, Evidence.ATTEMPT)
"""What an attempt says before anything happens."""
_SPEAKER = ("rank", "task", "local_rank", "pod", "host", "voice")

UNSURE = "restart"
"""The field of an event that may be of an earlier attempt: where the restart stands."""

STEPS_AGAIN = 5
"""Steps below the end of a job by its scheduler that show that it was started again.

A few lines may arrive late.
"""
_TAKEN = (Evidence.SCHEDULER, Evidence.NODE)

SRUN_LINES = 12
"""Lines below the end of a job in which srun tells how its tasks ended."""

LATE_S = 600
"""How long after the last line of an agent its processes write, at most."""


def last_attempt(logs: Sequence[Log]) -> list[Log]:
    """Return the logs with the events of the last attempt and the last processes.

    A line that may be of an earlier one has the field ``UNSURE``.
    """
    last = _last_of_paths(logs)
    old = old_processes(logs)
    found: list[Log] = []
    whole: list[int] = []
    for log in logs:
        folder, number = _attempt_of(log.file)
        is_old = number is not None and number < last[folder]
        start = _start(log.events)
        events = [] if is_old else log.events[start:]
        left = [event for event in events if process_of(event) not in old]
        if not start and number is None and not any(map(_is_again, log.events)):
            whole.append(len(found))
        found.append(replace(log, events=left))
    if marks := _restarts(logs):
        ends = {log.file: log.last_time for log in logs}
        parted = _parted([found[at] for at in whole], marks, ends)
        for at, log in zip(whole, parted, strict=True):
            found[at] = log
    return found


def earlier_jobs(logs: Sequence[Log]) -> list[str]:
    """Return the outputs of sbatch whose last line is older than all of a later job."""
    jobs: dict[int, list[Log]] = defaultdict(list)
    for log in logs:
        if number := _OF_SLURM.search(log.file):
            jobs[int(number[1])].append(log)
    if len(jobs) < 2:
        return []
    last = [event for log in jobs.pop(max(jobs)) for event in log.events]
    first = next((event for event in last if "time" in event.fields), None)
    if first is None:
        return []
    return [
        log.file for logs_of_job in jobs.values() for log in logs_of_job
        if (seconds_between(_at(first, log.last_time), first) or 0) > 0
    ]  # fmt: skip


def _is_again(event: LogEvent) -> bool:
    is_later = event.kind is Evidence.ATTEMPT and (event.number("attempt") or 0) > 0
    return is_later or _is_before_start(event)


def _restarts(logs: Sequence[Log]) -> list[LogEvent]:
    """Return the restarts that logs tell, up to the last one that anything follows."""
    marks = [event for log in logs for event in log.events if _is_again(event)]
    latest: LogEvent | None = None
    for event in (event for log in logs for event in log.events):
        if event.kind not in _SAYS_NOTHING and "time" in event.fields:
            is_later = latest is None or (seconds_between(latest, event) or 0) > 0
            latest = event if is_later else latest
    gaps = (seconds_between(mark, latest) if latest else None for mark in marks)
    return [mark for mark, gap in zip(marks, gaps, strict=True)
            if gap is None or gap > 0]  # fmt: skip


def _parted(
    logs: Sequence[Log], marks: Sequence[LogEvent], ends: Mapping[str, str | None]
) -> list[Log]:
    """Return logs that tell no restart without what was said before the last one."""
    mark = marks[0]
    for one in marks:
        mark = one if (seconds_between(mark, one) or 0) > 0 else mark
    number = max(Counter(one.file for one in marks).values())
    last_s = (seconds_between(mark, _at(mark, ends.get(mark.file))) or 0) + LATE_S
    sides = [[_side(event, mark, last_s) for event in log.events] for log in logs]
    # A clock by which nobody lived in the last attempt may be that of another zone.
    is_clock_known = any("new" in of_log for of_log in sides) or any(
        _side(_at(mark, log.last_time), mark, last_s) == "new" for log in logs
    )
    found = []
    for log, said in zip(logs, sides, strict=True):
        falls = [*_falls(log.events, is_restarted=True)]
        start = falls[-1] if len(falls) >= number else 0
        of_log = _filled(said) if is_clock_known else [None] * len(said)
        kept = [
            event if start or side == "new" or event.kind in NO_ERRORS
            else replace(event, fields={**event.fields, UNSURE: _place(mark)})
            for event, side in zip(log.events[start:], of_log[start:], strict=True)
            if start or side != "old"
        ]  # fmt: skip
        found.append(replace(log, events=kept))
    return found


def _at(mark: LogEvent, time: str | None) -> LogEvent:
    return replace(mark, fields={"time": time or ""})


def _place(mark: LogEvent) -> str:
    return f"{mark.file}:{mark.line}"


def _side(event: LogEvent, mark: LogEvent, last_s: float) -> str | None:
    """Return whether a line is older than a restart or newer, None if unknown."""
    gap = seconds_between(mark, event)
    if gap is None or 0 <= gap <= CLEARLY_S or gap > last_s:
        return None
    return "old" if gap < 0 else "new"


def _filled(sides: Sequence[str | None]) -> list[str | None]:
    """Return the sides with those of lines between two on one side, and at the ends."""
    below: list[str | None] = []
    following = None
    for side in reversed(sides):
        following = side or following
        below.append(following)
    found, before = [], None
    for side, after in zip(sides, reversed(below), strict=True):
        before = side or before
        found.append(side or ("new" if before == "new" else
                              "old" if after == "old" else None))  # fmt: skip
    return found


def _attempt_of(file: str) -> tuple[str, int | None]:
    """Return what the number of an attempt in a path counts, and this number."""
    if container := _OF_CONTAINER.search(file):
        return os.path.dirname(file), int(container[1])
    numbers = _OF_FOLDER.findall(file)
    return "", int(numbers[-1]) if numbers else None


def _last_of_paths(logs: Iterable[Log]) -> dict[str, int]:
    last: dict[str, int] = defaultdict(int)
    for log in logs:
        folder, number = _attempt_of(log.file)
        last[folder] = max(last[folder], number or 0)
    return last


def _start(events: Sequence[LogEvent]) -> int:
    """Return where the events of the last attempt begin that says anything."""
    starts = sorted({*_told_starts(events), *_falls(events)})
    for start in reversed(starts):
        if not all(map(_says_nothing, events[start:])):
            return start
    return 0


def _says_nothing(event: LogEvent) -> bool:
    """Whether a line may be of an attempt that has not begun, or never did."""
    is_closed = "RendezvousClosedError" in event.text
    return is_closed or event.kind in _SAYS_NOTHING


def _told_starts(events: Sequence[LogEvent]) -> Iterator[int]:
    """Yield where a launcher says that it starts the processes, or does so again.

    Each of the agents of a job says so; they are of one attempt.
    """
    nodes: set[str] = set()
    number = -1
    steps_below = _steps_below(events)
    for index, event in enumerate(events):
        is_taken = event.kind in _TAKEN and event.pattern.speaker == "slurm"
        if _is_before_start(event) or (is_taken and steps_below[index] >= STEPS_AGAIN):
            yield index + 1 + _num_closing(events, index)
        if event.kind is not Evidence.ATTEMPT or "peers" not in event.fields:
            continue
        count = event.number("attempt") or 0
        node = event.fields.get("node_rank", "")
        if count > number or node in nodes:
            nodes, number = set(), count
            yield index
        nodes.add(node)


def _steps_below(events: Sequence[LogEvent]) -> list[int]:
    """Return how many different steps stand below each event; a good end is many."""
    found: list[int] = []
    steps: set[tuple[int, int] | None] = set()
    number = 0
    for event in reversed(events):
        found.append(number)
        if event.kind is Evidence.END:
            number = STEPS_AGAIN
        elif event.kind is Evidence.LIFE:
            steps.add(_step(event))
            number = max(number, len(steps))
    return found[::-1]


def _num_closing(events: Sequence[LogEvent], index: int) -> int:
    """Return how many lines below a restart are of the end of the attempt above it.

    torchrun ends the other processes then, and srun tells how the tasks ended.
    """
    last = events[index]
    number = 0
    for event in events[index + 1 :]:
        is_of_srun = last.pattern.speaker == event.pattern.speaker == "slurm"
        is_of_srun &= event.line - last.line < SRUN_LINES
        if not _is_closing(event) and not is_of_srun:
            break
        last, number = event, number + 1
    return number


def _is_closing(event: LogEvent) -> bool:
    return "closing" in event.fields


def _is_before_start(event: LogEvent) -> bool:
    if event.kind is Evidence.SCHEDULER:
        return "REQUEUE" in event.fields.get("what", "").upper()
    return event.kind is Evidence.ATTEMPT and "peers" not in event.fields


def _falls(events: Sequence[LogEvent], *, is_restarted: bool = False) -> Iterator[int]:
    """Yield where the steps of all speakers fall below a process that ended.

    Any error may be its end if another log tells that the job was started again.
    """
    reached: dict[tuple[str, ...], tuple[int, int]] = {}
    again: dict[tuple[str, ...], tuple[int, int]] = {}
    ended: int | None = None
    for index, event in enumerate(events):
        is_end = event.kind is Evidence.EXIT or _is_preempted(event)
        is_end |= is_restarted and event.kind not in NO_ERRORS
        if is_end and not again:
            ended = index
        step = _step(event) if event.kind is Evidence.LIFE else None
        if step is None:
            continue
        speaker = tuple(event.fields.get(name, "") for name in _SPEAKER)
        before = reached.get(speaker, step)
        is_open = ended is None and not (is_restarted and step < before)
        if is_open or step > before:
            reached[speaker] = max(step, before)
            continue
        if is_restarted and not again:
            ended = index - 1  # all above is of the attempt before
        again[speaker] = step
        if any(again.get(each, last) < last for each, last in reached.items()) and (
            again.keys() >= reached.keys()
        ):
            yield (ended or 0) + 1
            reached, again, ended = again, {}, None


def _is_preempted(event: LogEvent) -> bool:
    """Whether the scheduler took the nodes of a job, which it often starts again."""
    what = event.fields.get("what", "").upper()
    return event.kind is Evidence.SCHEDULER and "PREEMPT" in what


def _step(event: LogEvent) -> tuple[int, int] | None:
    """Return the epoch and the step that a line of progress tells."""
    epoch, step = _EPOCH.search(event.text), _STEP.search(event.text)
    if epoch is None and step is None:
        return None
    number = int(step[1] or step[2]) if step else 0
    return int(epoch[1]) if epoch else 0, number
