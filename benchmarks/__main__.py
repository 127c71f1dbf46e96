"""``python -m benchmarks``: every budget beside its rival, as one table.

Exit status: 0 when every budget is kept, 1 when one is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.budgets import BUDGETS, QUICK, Result, Scale
from benchmarks.clusters import measure_clusters
from benchmarks.collectives import measure_collectives
from benchmarks.hosts import measure_hosts
from benchmarks.layouts import measure_layouts
from benchmarks.measure import Bench
from benchmarks.reading import measure_reading
from benchmarks.report import NOTES, budget_table, growth_table, is_within
from benchmarks.scaling import judge_growth, measure_growth
from benchmarks.simulating import measure_simulating
from benchmarks.starting import measure_starting
from benchmarks.validating import measure_validating


def main() -> int:
    """Measure, print, and return the exit status."""
    arguments = _parser().parse_args()
    scale = QUICK if arguments.quick else Scale()
    with tempfile.TemporaryDirectory(prefix="ranktable-bench-") as folder:
        bench = Bench(Path(folder))
        results: list[Result] = []
        _say("start-up")
        results += measure_starting(bench, scale)
        _say("reading")
        results += measure_reading(bench, scale)
        _say("validating")
        results += measure_validating(bench, scale)
        _say("host lists")
        results += measure_hosts(scale)
        _say("clusters")
        results += measure_clusters(bench, scale)
        _say("scaling")
        growths = measure_growth(bench, scale)
        results += judge_growth(growths, scale)
        _say("simulating")
        results += measure_simulating(bench, scale)
        _say("collectives")
        results += measure_collectives(bench, scale)
        _say("layouts")  # last: a child's peak is at least that of this process
        results += measure_layouts(scale)
    by_key = {result.key: result for result in results}
    print(budget_table(by_key, scale))
    print(growth_table(growths))
    print(NOTES, end="")
    missed = [budget for budget in BUDGETS if not is_within(budget, by_key[budget.key])]
    if missed:
        sys.stderr.write(f"{len(missed)} of {len(BUDGETS)} budgets are missed\n")
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
    return parser


def _say(what: str) -> None:
    sys.stderr.write(f"measuring: {what}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
