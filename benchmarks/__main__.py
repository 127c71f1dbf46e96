"""``python -m benchmarks``: every budget beside its rival, as one table.

Exit status: 0 when every budget is kept, 1 when one is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.budgets import BUDGETS, QUICK, Result, Scale
from benchmarks.clusters import measure_clusters
from benchmarks.collectives import measure_collectives
from benchmarks.diagnosing import measure_diagnosing
from benchmarks.hosts import measure_hosts
from benchmarks.layouts import measure_layouts
from benchmarks.measure import Bench
from benchmarks.operating import measure_operating
from benchmarks.other_vendors import measure_other_vendors
from benchmarks.reading import measure_reading
from benchmarks.report import NOTES, budget_table, is_within
from benchmarks.scaling import measure_scaling
from benchmarks.simulating import measure_simulating
from benchmarks.starting import measure_starting
from benchmarks.validating import measure_validating

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PARTS: dict[str, Callable[[Bench, Scale], Iterable[Result]]] = {
    "start-up": measure_starting,
    "reading": measure_reading,
    "validating": measure_validating,
    "diagnosing": measure_diagnosing,
    "host lists": measure_hosts,
    "clusters": measure_clusters,
    "other vendors": measure_other_vendors,
    "operating": measure_operating,
    "scaling": measure_scaling,
    "simulating": measure_simulating,
    "collectives": measure_collectives,
    "layouts": measure_layouts,
}
"""What is measured; layouts last, as a child's peak is at least that of this process.
"""


def main() -> int:
    """Measure, print, and return the exit status."""
    arguments = _parser().parse_args()
    scale = QUICK if arguments.quick else Scale()
    by_key: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="ranktable-bench-") as folder:
        for name in arguments.only or PARTS:
            sys.stderr.write(f"measuring: {name}\n")
            sys.stderr.flush()
            found = PARTS[name](Bench(Path(folder)), scale)
            by_key |= {result.key: result for result in found}
    print(budget_table(by_key, scale))
    print(NOTES, end="")
    measured = [budget for budget in BUDGETS if budget.key in by_key]
    missed = [
        budget for budget in measured if not is_within(budget, by_key[budget.key])
    ]
    if missed:
        sys.stderr.write(f"{len(missed)} of {len(measured)} budgets are missed\n")
    return int(bool(missed) and not arguments.no_fail)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure every budget beside its rival.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small tables: do the benchmarks run?"
    )
    parser.add_argument(
        "--no-fail", action="store_true", help="exit 0 even if a budget is missed"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=PARTS,
        help="measure this part; may be given several times",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
