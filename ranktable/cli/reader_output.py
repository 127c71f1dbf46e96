"""What each reader makes of one file, as ``validate --readers`` shows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ranktable.schema.messages import printable
from ranktable.schema.readers.readers import readings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.report.terminal import Style
    from ranktable.schema.check_report import Report

MAX_RANKS = 8
"""Ranks shown; the readers go wrong for the first as for the last."""


def show_readers(report: Report, look: Style) -> Iterator[str]:
    """Yield, for each reader, what it would give each rank of a file.

    Ranks with the same outcome share a line.
    """
    if report.data is None:
        sys.stderr.write(f"{printable(report.file)}: there is nothing to read\n")
        return
    size = report.columns.num_devices if report.columns else 1
    ranks = range(max(1, min(size, MAX_RANKS)))
    yield f"{look.mark(printable(report.file), 'bold')}\n"
    for reading in readings(report.data, ranks, report):
        yield f"  {look.mark(reading.title, 'bold')}\n"
        for label, outcome in _grouped(reading.outcomes):
            yield f"    {look.mark(label, 'place')}: {printable(outcome)}\n"
    if size > MAX_RANKS:
        yield f"  ranks {MAX_RANKS} to {size - 1} are not shown\n"


def readers_data(report: Report) -> dict[str, object]:
    """Return what each reader would give each rank of a file, as plain data."""
    size = report.columns.num_devices if report.columns else 1
    ranks = range(max(1, min(size, MAX_RANKS)))
    found = readings(report.data or b"", ranks, report)
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
    """Yield runs of ranks with one outcome."""
    start = 0
    for at in range(1, len(outcomes) + 1):
        if at < len(outcomes) and outcomes[at][1] == outcomes[start][1]:
            continue
        first, last = outcomes[start][0], outcomes[at - 1][0]
        label = f"rank {first}" if first == last else f"ranks {first}-{last}"
        yield label, outcomes[start][1]
        start = at
