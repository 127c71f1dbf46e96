"""The lines by which torch says that it waits in the barrier of a new group.

They are no errors: the same line stands in the log of a job whose ranks come late.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ranktable.doctor.patterns import Evidence
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.doctor.lines import Log, LogEvent

LINES_OF_A_MINUTE = 6
"""How often a rank says in one minute that it waits: every 10 seconds."""

LINES_BELOW = 3
"""Lines below the last one that may stand at the end of a log, such as ``Killed``."""

_PASSED = {Evidence.LIFE, Evidence.END}


def left_waiting(logs: Sequence[Log]) -> set[int]:
    """Return the ids of such lines that are no evidence that a rank did not join.

    What counts is a rank that said it for a minute, up to the end of its log. If others
    tell steps and do not name the barrier, they may have come through it, or not yet.
    """
    left: set[int] = set()
    passed, silent = _passed(logs), _silent(logs)
    for log in logs:
        lines = _lines(log)
        kept = _last_of_each(log, passed)
        at_end = any(log.num_lines - one.line <= LINES_BELOW for one in kept)
        spoken = Counter[str]()
        for one in lines:
            spoken[one.fields["rank"]] += one.count
        is_long = max(spoken.values(), default=0) >= LINES_OF_A_MINUTE
        counts = at_end and is_long and not silent
        left |= {id(one) for one in lines}
        left -= {id(one) for one in kept} if counts else set()
    return left


def barriers_of(logs: Sequence[Log]) -> Iterator[str]:
    """Yield how many ranks had joined, and who waited, at the end of each log."""
    passed = _passed(logs)
    for log in logs:
        if last := _last_of_each(log, passed):
            said = last[-1].fields
            ranks = sorted(int(one.fields["rank"]) for one in last)
            who = counted(len(ranks), "rank") + f" ({folded(ranks)})"
            verb = "waits" if len(ranks) == 1 else "wait"
            yield (
                f"{who} {verb} in the barrier of a new group, which {said['joined']} "
                f"of {said['size']} ranks had joined: {log.file}:{last[-1].line}"
            )


def _lines(log: Log) -> list[LogEvent]:
    return [one for one in log.events if one.pattern.name == "store-barrier-wait"
            and "rank" in one.fields]  # fmt: skip


def _last_progress(log: Log) -> int:
    return max((one.line for one in log.events if one.kind in _PASSED), default=0)


def _passed(logs: Sequence[Log]) -> set[str]:
    """Return the barriers that somebody is known to have left."""
    passed: set[str] = set()
    for log in logs:
        last = _last_progress(log)
        passed |= {one.fields.get("barrier", "") for one in _lines(log)
                   if one.line < last}  # fmt: skip
        passed |= {one.fields["barrier"] for one in log.events
                   if one.pattern.name == "store-barrier-done"}  # fmt: skip
    return passed


def _silent(logs: Sequence[Log]) -> set[str]:
    """Return the files with steps and without such lines."""
    return {log.file for log in logs if _last_progress(log) and not _lines(log)}


def _last_of_each(log: Log, passed: set[str]) -> list[LogEvent]:
    """Return the last line of each rank about a barrier that nobody has left."""
    last = {one.fields["rank"]: one for one in _lines(log)}
    kept = [one for one in last.values()
            if one.fields.get("barrier", "") not in passed]  # fmt: skip
    return sorted(kept, key=lambda one: one.line)
