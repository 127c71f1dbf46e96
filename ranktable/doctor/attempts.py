"""Several attempts in the logs of one job: the last one is judged.

A new attempt begins where a launcher says so, in a folder or file of a higher number,
and where the steps of all who tell them fall below an end that a launcher told.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.doctor.identity import old_processes, process_of
from ranktable.doctor.patterns import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.doctor.lines import Log, LogEvent

_OF_FOLDER = re.compile(r"attempt_(\d{1,6})[/\\]")
_OF_CONTAINER = re.compile(
    r"_[0-9a-f-]{32,36}[/\\][^/\\]+[/\\](\d{1,6})\.log(?:\.gz)?$"
)
"""The log of a container on its node: ``NAMESPACE_POD_UID/CONTAINER/RESTART.log``."""

_EPOCH = re.compile(r"(?i)\bepochs?\b\W{0,4}(\d{1,9})")
_STEP = re.compile(
    r"(?i)\b(?:global_)?(?:step|iter(?:ation)?|batch)s?\b\W{0,12}(\d{1,12})"
    r"|\d%\|[^|]{0,200}\| *(\d{1,12})/\d"
)
_SAYS_NOTHING = (Evidence.IDENTITY, Evidence.STATE, Evidence.ATTEMPT)
"""What an attempt says before anything happens."""
_SPEAKER = ("rank", "task", "local_rank", "pod", "host", "voice")


def last_attempt(logs: Sequence[Log]) -> list[Log]:
    """Return the logs with the events of the last attempt and the last processes.

    A log that has no restart itself is taken whole: its clock is not compared.
    """
    last = _last_of_paths(logs)
    old = old_processes(logs)
    found = []
    for log in logs:
        folder, number = _attempt_of(log.file)
        is_old = number is not None and number < last[folder]
        events = [] if is_old else log.events[_start(log.events) :]
        left = [event for event in events if process_of(event) not in old]
        found.append(replace(log, events=left))
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
        if any(event.kind not in _SAYS_NOTHING for event in events[start:]):
            return start
    return 0


def _told_starts(events: Sequence[LogEvent]) -> Iterator[int]:
    """Yield where a launcher says that it starts the processes, or does so again.

    Each of the agents of a job says so; they are of one attempt.
    """
    nodes: set[str] = set()
    number = -1
    for index, event in enumerate(events):
        if _is_before_start(event):
            yield index + 1
        if event.kind is not Evidence.ATTEMPT or "peers" not in event.fields:
            continue
        count = event.number("attempt") or 0
        node = event.fields.get("node_rank", "")
        if count > number or node in nodes:
            nodes, number = set(), count
            yield index
        nodes.add(node)


def _is_before_start(event: LogEvent) -> bool:
    if event.kind is Evidence.SCHEDULER:
        return "REQUEUE" in event.fields.get("what", "").upper()
    return event.kind is Evidence.ATTEMPT and "peers" not in event.fields


def _falls(events: Sequence[LogEvent]) -> Iterator[int]:
    """Yield where the steps of all speakers fall below a process that ended."""
    reached: dict[tuple[str, ...], tuple[int, int]] = {}
    again: dict[tuple[str, ...], tuple[int, int]] = {}
    ended: int | None = None
    for index, event in enumerate(events):
        if (event.kind is Evidence.EXIT or _is_preempted(event)) and not again:
            ended = index
        step = _step(event) if event.kind is Evidence.LIFE else None
        if step is None:
            continue
        speaker = tuple(event.fields.get(name, "") for name in _SPEAKER)
        before = reached.get(speaker, step)
        if ended is None or step > before:
            reached[speaker] = max(step, before)
            continue
        again[speaker] = step
        if any(again.get(each, last) < last for each, last in reached.items()) and (
            again.keys() >= reached.keys()
        ):
            yield ended + 1
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
