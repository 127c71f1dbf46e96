"""When lines were written, as far as they say it."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.doctor.lines import LogEvent

DAY_S = 24 * 3600

CLEARLY_S = 5
"""Events of processes are in order if their clocks are so far apart."""


def seconds_of(event: LogEvent) -> float | None:
    """Return when a line was written, None if it does not say it.

    Most lines say the time of day, some the date too; the date counts if it is there.
    """
    said = event.fields.get("time", "")
    found = re.search(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?", said)
    if found is None:
        return None
    hours, minutes, seconds = (int(found[part]) for part in (1, 2, 3))
    of_day = hours * 3600 + minutes * 60 + seconds + float(f"0.{found[4] or 0}")
    day = re.match(r"(\d{4})-(\d\d)-(\d\d)", said)
    try:
        return (
            of_day + (date(*map(int, day.groups())).toordinal() if day else 0) * DAY_S
        )
    except ValueError:
        return of_day


def seconds_between(first: LogEvent, second: LogEvent) -> float | None:
    """Return how long after a line another was written, None if it is not known."""
    start, end = seconds_of(first), seconds_of(second)
    if start is None or end is None:
        return None
    if min(start, end) < DAY_S:  # one has no date: less than half a day apart
        return (end - start + DAY_S / 2) % DAY_S - DAY_S / 2
    return end - start


def on_one_clock(events: Sequence[LogEvent]) -> list[float | None]:
    """Return when lines were written, in seconds of one clock, None if it is not known.

    What says no date is taken as less than half a day from the last that has one.
    """
    last = max(events, key=lambda event: seconds_of(event) or -1, default=None)
    return [seconds_between(last, event) for event in events] if last else []
