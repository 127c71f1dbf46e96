"""Who went on below an error, and so has overcome it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ranktable.doctor.causes import ABORT, PROGRAMS, signal_of
from ranktable.doctor.lines import voice_of
from ranktable.doctor.patterns import (
    CONSEQUENCES,
    FATAL,
    LOST,
    NO_ERRORS,
    OF_OTHERS,
    Evidence,
)
from ranktable.doctor.tallies import Tally, number_below
from ranktable.doctor.times import CLEARLY_S, seconds_between, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.doctor.identity import Ranks
    from ranktable.doctor.lines import LogEvent

    Lines = dict[str, dict[int | None, list[int]]]
    """Numbers of lines of logs, by the ranks that say them."""

PROGRESS = 20
"""Ordinary lines of an unnamed speaker that show that a program went on."""

FEW = 5
"""Ordinary lines that show it in the log of one process, or of one host."""
SERVED = 3
"""Lines of a server that answers, below an error, that show that it still does."""

_SERVED = re.compile(
    r" HTTP/[\d.]+\" [24]\d\d|tokens/s, Running|gen throughput \(token/s\): "
)

STALLS = (
    "horovod-stalled", "store-barrier", "ranktable-node", "ranktable-unanswered",
    "ray-unreached", "tensorflow-waits", "neuron-waits",
)  # fmt: skip
"""Messages of waits in which all ranks of a job stand, or have not begun."""

_BEGINS = {
    "pod-unscheduled": ("event-scheduled", "event-started"),
    "pod-not-begun": ("event-started",),
}
NOT_YET = tuple(_BEGINS)
"""Messages of pods that wait, until anybody goes on or what ends it is told."""

OF_NEXT = ("slurm-refused", "jax-coordinator")
"""What says nothing below the end of a job: the next did not start, or a rank has ended
that the others tell of theirs."""

_OF_STATE = ("slurm-state-node", "slurm-state-ended", "slurm-state-memory")
"""Why a job ended, which sacct and scontrol tell for each time that it ran."""

_HANDLED = re.compile(
    r"\b(?:WARN(?:ING)?|INFO)\b.*\b(?i:skip(?:s|ped|ping)?|retrying|resampl\w+|instead)\b"
)
"""What a program that handles an exception logs directly below its traceback."""

_NOT_HANDLED = re.compile(
    r"(?i)\b(?:cannot|can't|not|never) (?:be )?(?:skip|retry|resampl)"
    r"|\b(?:giv(?:e|es|ing) up|abort|exit|leav|stop|end(?:s|ing)\b)"
)

_OF_OTHERS = ("hccl", "slurm", "kernel", "kubernetes", "torchrun")
"""Those whose lines are not ended by what a program does afterwards."""


class Continuation:
    """The steps and good ends that the logs of a job tell, and what these show.

    Attributes:
        finished: The line in each log that tells a good end, if no process failed.
    """

    def __init__(self, events: Sequence[LogEvent], ranks: Ranks) -> None:
        """Find the steps and ends, each with its speaker."""
        self._ranks = ranks
        self._events = events
        self._last_step: dict[tuple[str, tuple[str, ...]], int] = {}
        self._steps = self._lines_of(Evidence.LIFE, events)
        steps = (event for event in events if event.kind is Evidence.LIFE)
        self._tells_failure = any(map(_is_of_failed, events))
        self._joints = _joints(step for step in steps if ranks.speaker(step) is None)
        self._ends = self._lines_of(Evidence.END, events)
        self._tallies = {
            with_ends: _tallies(self._steps, self._ends if with_ends else {})
            for with_ends in (False, True)
        }
        self._served: dict[str, list[int]] = defaultdict(list)
        for event in filter(_is_of_server, events):
            self._served[event.file].append(event.line)
        ends = [event for event in events if event.kind is Evidence.END]
        self._last_end: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
        for event in ends:
            self._last_end[event.file][voice_of(event)] = event.line
        self._succeeded = _last_lines(
            event for event in ends if event.pattern.speaker == "torchrun"
        )
        self._resized = _last_lines(
            event for event in ends if event.pattern.name == "horovod-elastic-ended"
        )
        self._completed = [
            event for event in ends if event.pattern.name == "slurm-state-completed"
        ]
        named = defaultdict(list)
        for event in events:
            named[event.pattern.name].append(event)
        self._active = {_port_of(event): event.line
                        for event in named["nccl-port-active"]}  # fmt: skip
        self._begun = {
            name: {(event.file, pod): event.line
                   for other in others for event in named[other]
                   for pod in ("", event.fields.get("pod", ""))}
            for name, others in _BEGINS.items()
        }  # fmt: skip
        self.finished = {} if any(map(_has_failed, events)) else _last_lines(ends)

    def overcome(self) -> list[LogEvent]:
        """Return the errors below which their process went on."""
        found = [event for event in self._events if self._went_on(event)]
        again = self._fatal_after_all(found)
        return [event for event in found if event not in again]

    def _lines_of(self, kind: Evidence, events: Iterable[LogEvent]) -> Lines:
        """Return the lines of a kind, by file and speaker."""
        lines: Lines = {}
        for event in events:
            if event.kind is kind:
                of_file = lines.setdefault(event.file, defaultdict(list))
                of_file[self._ranks.speaker(event)].append(event.line)
                self._last_step[event.file, voice_of(event)] = event.line
        return lines

    def _has_step_of_process(self, event: LogEvent) -> bool:
        """Whether a process without a rank, as launchers call it, tells a step below.

        The id of a process may be that of another, of which the line tells.
        """
        voice = voice_of(event)
        without_id = voice_of(replace(event, fields={**event.fields, "pid": ""}))
        return any(
            any(one) and self._last_step.get((event.file, one), 0) > event.line
            for one in (voice, without_id)
        )

    def _went_on(self, event: LogEvent) -> bool:
        """Whether its process went on below an error.

        If it is not known which process that was, all of the file have to go on. If
        only others tell their steps, many of them show it: nobody gets far alone.
        """
        is_over = event.line > self.finished.get(event.file, event.line)
        is_beside = "in_background" in event.fields or _is_of_helper(event)
        is_left = is_left_loader(event) or (is_over and is_beside)
        is_left |= is_over and event.pattern.name in OF_NEXT
        is_lost = event.kind not in FATAL  # Horovod goes on without a worker
        if is_lost and event.line < self._resized.get(event.file, 0):
            is_left |= self._goes_on_below(event)
        if event.pattern.name in _OF_STATE:  # and was put into the queue again
            is_left |= any(_is_same_job(event, other) for other in self._completed)
        if event.pattern.name == "slurm-state-failed":  # and was submitted again
            is_left |= any(_is_again(event, other) for other in self._completed)
            is_left |= self._goes_on_below(event)
        if event.pattern.name in NOT_YET:
            is_left |= self._has_begun(event)
            is_left |= bool(self._steps or self._ends)
        if is_left or event.line < self._succeeded.get(event.file, 0):
            return event.kind not in NO_ERRORS
        is_fatal = event.kind is Evidence.TIMEOUT and event.pattern.speaker == "torch"
        is_of_others = event.pattern.speaker in _OF_OTHERS
        if event.kind in NO_ERRORS or is_of_others or is_fatal:
            return False  # a watchdog of torch ends its process
        rank = self._ranks.speaker(event)
        # Where a process ended, a script or another rank may say that it is done.
        is_end = event.pattern.speaker == "shell" or "from_module" in event.fields
        is_end = is_end and not self._is_done_below(event)
        own, least, most = self._steps_below(event, with_ends=not is_end)
        is_serving = number_below(self._served[event.file], event.line) >= SERVED
        is_warning = event.pattern.speaker == "store" and "[W" in event.text
        if is_warning or event.pattern.name.startswith(STALLS):
            # Nobody goes on during a stall.
            is_start = event.kind is Evidence.EDGE or "neuron" in event.pattern.name
            return most > 0 or (is_start and bool(self.finished))
        finished = 0 if is_end else self.finished.get(event.file, 0)
        is_done = rank is None and event.line < finished
        is_soon = "is_cut" in event.fields or (event.pattern.is_form and rank is None)
        progress = 1 if is_soon else FEW if self._is_handled(event) else PROGRESS
        is_port = event.pattern.name == "nccl-port-event"  # a link may come back
        is_active = is_port and self._active.get(_port_of(event), 0) > event.line
        is_back = is_port and (least > 1 or (is_active and most > 1))
        if is_back or (
            rank is None and (is_serving or self._has_step_of_process(event))
        ):
            return True
        if own is not None and not is_done:
            return own >= (progress if rank is None else 1)
        return is_done or (least if rank is None else most) >= progress

    def _is_handled(self, event: LogEvent) -> bool:
        """Whether a program logs directly below a traceback that it goes on.

        Nobody else may tell of a failure: what was printed before the end of a process
        may stand below its traceback.
        """
        below = event.fields.get("below", "").partition("\n")[0]
        is_logged = bool(_HANDLED.search(below)) and not _NOT_HANDLED.search(below)
        return is_logged and not (self._tells_failure or "from_module" in event.fields)

    def _has_begun(self, event: LogEvent) -> bool:
        """Whether a pod that waited was given its node, or its container has started.

        ``kubectl get events`` names the pods, and is not in the order of time.
        """
        begun, pod = self._begun[event.pattern.name], event.fields.get("pod", "")
        if pod:
            return (event.file, pod) in begun
        return event.line < begun.get((event.file, ""), 0)

    def _is_done_below(self, event: LogEvent) -> bool:
        """Whether the process of an error, or all of the job, tell a good end below.

        The processes are named by what stands before their lines, if not by ranks.
        """
        last, own = self._last_end[event.file], voice_of(event)
        if any(own):
            return last.get(own, 0) > event.line
        done = [voice for voice, line in last.items() if line > event.line]
        size = self._ranks.size if self._ranks.is_size_known else None
        return len(done) == size and all(map(any, done))

    def _steps_below(
        self, event: LogEvent, *, with_ends: bool
    ) -> tuple[int | None, int, int]:
        """Return how many steps stand below an error.

        Where the logs of several processes were joined, those without a name count up
        to the next log: there a few show as much as many of anybody.

        Returns:
            Those of its own speaker, None if that tells none in this log; and the
            fewest and the most of anybody there. A good end counts as many.
        """
        tally = self._tallies[with_ends].get(event.file)
        if tally is None:
            return None, 0, 0
        rank, counts = self._ranks.speaker(event), []
        unnamed = tally.of(None, event.line)
        joints = self._joints.get(event.file)
        lines = self._steps.get(event.file, {}).get(None, [])
        if joints and lines:
            after = bisect_right(joints, event.line)
            end = bisect_left(lines, joints[after]) if joints[after:] else len(lines)
            own = end - bisect_right(lines, event.line)
            unnamed += (PROGRESS if own >= FEW else 0) - number_below(lines, event.line)
        if None in tally.speakers:
            counts.append((unnamed, unnamed))
        if tally.speakers - {None}:
            counts.append(tally.below(event.line))
        own_steps = unnamed if rank is None else tally.of(rank, event.line)
        return (
            own_steps if rank in tally.speakers else None,
            min(least for least, _ in counts),
            max(most for _, most in counts),
        )

    def _goes_on_below(self, event: LogEvent) -> bool:
        """Whether anybody in the log of a line tells a step below."""
        _, _, most = self._steps_below(event, with_ends=False)
        return most > 0

    def has_steps_below(self, event: LogEvent) -> bool:
        """Whether anybody in the log of an error of unknown rank tells a step below."""
        tally = self._tallies[True].get(event.file)
        if tally is None or self._ranks.speaker(event) is not None:
            return False
        return tally.of(None, event.line) > 0 or tally.below(event.line)[1] > 0

    def _fatal_after_all(self, overcome: Sequence[LogEvent]) -> list[LogEvent]:
        """Return the last error of each rank that ended with status 1, or aborted.

        What a program prints may be written to a log only when it ends: its steps then
        stand below the traceback that ended it. So do those of others if their logs
        were joined.
        """
        left = {id(event) for event in overcome}
        found: list[LogEvent] = []
        errors: dict[int | None, list[LogEvent]] = defaultdict(list)
        for event in self._events:
            if event.kind in FATAL | LOST and not is_left_loader(event):
                errors[self._ranks.speaker(event)].append(event)
        for ended in self._events:
            ranks = ended.numbers("tasks") or (self._ranks.speaker(ended),)
            is_bad = ended.fields.get("exit") == "1" or signal_of(ended) == ABORT
            if not is_bad or len(ranks) != 1 or ranks[0] is None:
                continue
            own = errors[ranks[0]]
            tally = self._tallies[True].get(ended.file)
            is_last = tally is None or not tally.of(ranks[0], ended.line)
            if own and is_last and all(id(event) in left for event in own):
                found.append(own[-1])
        return found


def _joints(steps: Iterable[LogEvent]) -> dict[str, list[int]]:
    """Return the lines of steps with which the next of several joined logs begins.

    There the clock falls to the time of the first step, and nowhere else to any other.
    """
    of_files: dict[str, list[LogEvent]] = defaultdict(list)
    for step in steps:
        if seconds_of(step) is not None:
            of_files[step.file].append(step)
    found: dict[str, list[int]] = {}
    for file, timed in of_files.items():
        falls = [step for before, step in pairwise(timed)
                 if (seconds_between(before, step) or 0) < -CLEARLY_S]  # fmt: skip
        if all((seconds_between(timed[0], step) or 0) < CLEARLY_S for step in falls):
            found[file] = [step.line for step in falls]
    return found


def _last_lines(events: Iterable[LogEvent]) -> dict[str, int]:
    return {event.file: event.line for event in events}


def _tallies(steps: Lines, ends: Lines) -> dict[str, Tally]:
    """Return the steps of each log, of which a good end is as many as show anything."""
    return {file: Tally((steps.get(file, {}), 1), (ends.get(file, {}), PROGRESS))
            for file in steps.keys() | ends.keys()}  # fmt: skip


def _port_of(event: LogEvent) -> tuple[object, ...]:
    """Return the port of InfiniBand that a process tells of by NCCL."""
    return event.file, voice_of(event), event.fields["what"].partition(" ")[0]


def _is_same_job(ended: LogEvent, completed: LogEvent) -> bool:
    """Whether a lower row of sacct tells that the same job ran again and ended well."""
    is_below = ended.file == completed.file and ended.line < completed.line
    job = ended.fields.get("job")
    return is_below and job is not None and job == completed.fields.get("job")


def _is_again(failed: LogEvent, completed: LogEvent) -> bool:
    """Whether Slurm tells that the same job, or a later one, ended well.

    Another task of an array says nothing of the one that failed.
    """
    job, task = failed.fields.get("job", "").partition("_")[::2]
    other, its_task = completed.fields.get("job", "").partition("_")[::2]
    is_below = failed.file == completed.file and failed.line < completed.line
    return is_below and (job != other or task == its_task)


def is_left_loader(event: LogEvent) -> bool:
    """Whether a process or thread that loads data lost what it loads them for.

    Its program ended, well or not: nothing says how.
    """
    is_beside = event.fields.keys() >= {"in_background", "of_loader"}
    return is_beside and event.kind is Evidence.CLOSED


def _is_of_failed(event: LogEvent) -> bool:
    """Whether a line says that a process ended, or that others have lost one."""
    is_of_end = event.kind in (*OF_OTHERS, *CONSEQUENCES, Evidence.CASCADE)
    return is_of_end and event.fields.get("exit") != "0"


def _is_of_helper(event: LogEvent) -> bool:
    """Whether a shell tells the end of a program that does not look like a job."""
    command = event.fields.get("command", "")
    is_alone = event.fields.get("signal_alone") == "Terminated"
    return is_alone or (bool(command) and not PROGRAMS.search(command))


def _is_of_server(event: LogEvent) -> bool:
    return bool(_SERVED.search(event.text))


def _has_failed(event: LogEvent) -> bool:
    """Whether a line says that a process did not end well."""
    is_end = event.kind is Evidence.EXIT and not _is_of_helper(event)
    return is_end and event.fields.get("exit") not in ("0", "-15")
