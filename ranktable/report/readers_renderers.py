"""What each vendor's reader does with a file, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import printable
from ranktable.schema.readers.readers import readings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.report.terminal import Style
    from ranktable.schema.diagnostic import Report
    from ranktable.schema.readers.reader import ReaderResult

MAX_RANKS = 8
"""Most ranks that are shown; what a reader does wrong, it does for all."""


def render_readers(report: Report, look: Style) -> Iterator[str]:
    """Yield the result of each reader for each rank of a file.

    Ranks with the same result share a line.
    """
    size, found = _readings(report)
    yield f"{look.mark(printable(report.file), 'bold')}\n"
    for reading in found:
        yield f"  {look.mark(reading.title, 'bold')}\n"
        for label, outcome in _grouped(reading.outcomes):
            yield f"    {look.mark(label, 'place')}: {printable(outcome)}\n"
    if size > MAX_RANKS:
        yield f"  ranks {MAX_RANKS} to {size - 1} are not shown\n"


def _readings(report: Report) -> tuple[int, list[ReaderResult]]:
    """Return the number of ranks, and the result of each reader for the first."""
    size = report.columns.num_devices if report.columns else 1
    return size, readings(report.data, range(max(1, min(size, MAX_RANKS))), report)


def readers_data(report: Report) -> dict[str, object]:
    """Return the result of each reader for each rank of a file, as plain data."""
    size, found = _readings(report)
    return {
        "file": report.file,
        "world_size": size,
        "readers": [
            {
                "reader": reading.reader,
                "title": reading.title,
                "outcomes": {str(rank): text for rank, text in reading.outcomes},
            }
            for reading in found
        ],
    }


def _grouped(outcomes: tuple[tuple[int, str], ...]) -> Iterator[tuple[str, str]]:
    """Yield runs of ranks with the same result."""
    start = 0
    for at in range(1, len(outcomes) + 1):
        if at < len(outcomes) and outcomes[at][1] == outcomes[start][1]:
            continue
        first, last = outcomes[start][0], outcomes[at - 1][0]
        label = f"rank {first}" if first == last else f"ranks {first}-{last}"
        yield label, outcomes[start][1]
        start = at
