"""The results as Markdown tables, which also read well as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.budgets import BUDGETS, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.budgets import Budget, Result, Scale

_HEADS = (
    "what",
    "ours",
    "rival",
    "ratio",
    "first call",
    "peak memory, ours / rival",
    "budget",
    "within",
)

NOTES = """\
How it is measured:

- Times are CPU seconds, user and system, of new processes. Ours and the rival run in
  turn, and the lowest of several runs counts.
- For a read, the best of five calls counts. The first call of a process has its own
  column.
- "json.load + loop" is the vendor's reader, which checks nothing. orjson.loads gets
  bytes that are already in memory, and its result is freed, as in timeit.
- A "json script" is a few lines of Python that write the same bytes as gen --spec or
  merge, and check nothing.
- "Index by index" makes the lists in the way of training libraries. DeviceMesh has a
  fake process group. These and host lists are timed in one process.
- Peak memory is that of the whole process for a command, and the memory that the first
  call adds for a read.
- The CPU time of a job is that of all its processes. All ranks share the cores.
- For all_reduce the wall time counts, ours and gloo's in turn in one job. Without
  chips, and with 4 bytes, it is the CPU time of the calling thread.
- If jobs are compared, the ratio is the median of such pairs.
"""


def is_within(budget: Budget, result: Result) -> bool:
    """Whether a result keeps its budget."""
    return result.figure <= budget.limit


def budget_table(results: Mapping[str, Result], scale: Scale) -> str:
    """Return the table of all budgets.

    Args:
        results: The results by key; budgets without one are left out.
        scale: What was measured.
    """
    rows = [
        _row(budget, results[budget.key], scale)
        for budget in BUDGETS
        if budget.key in results
    ]
    return "\n".join(_lines(_HEADS, rows)) + "\n"


def _row(budget: Budget, result: Result, scale: Scale) -> list[str]:
    return [
        budget.title(scale),
        result.ours,
        result.rival,
        _figure(result.figure, budget.unit),
        "" if result.first is None else _figure(result.first, budget.unit),
        result.memory,
        f"<= {budget.limit:g}{budget.unit.value}",
        "yes" if is_within(budget, result) else "NO",
    ]


def _figure(value: float, unit: Unit) -> str:
    digits = 2 if unit is Unit.TIMES else 1
    return f"{value:.{digits}f}{unit.value}"


def _lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    yield _line(heads, widths)
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    for row in rows:
        yield _line(row, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "| " + " | ".join(padded) + " |"
