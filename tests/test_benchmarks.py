"""The benchmarks: that they run, and measure what they say. No time is judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import ranktable
from benchmarks.budgets import BUDGETS, QUICK
from benchmarks.calls import vendor_chip_map
from benchmarks.measure import Bench, BenchmarkError
from benchmarks.other_vendors import super_pods, write_rank_list
from benchmarks.tables import LAYOUTS, RING, Defect, write_table
from ranktable.cluster.generate import make_table
from tests.commands import run_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_quick_run_prints_every_budget() -> None:
    command = ("-m", "benchmarks", "--quick", "--no-fail")
    done = run_python(*command, cwd=ROOT, timeout_s=1180)
    lines = done.out.splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("|")]

    assert done.status == 0, done.err
    assert rows[2 : 2 + len(BUDGETS)] == [budget.title(QUICK) for budget in BUDGETS]


def test_generated_layout_is_what_dumps_writes(tmp_path: Path) -> None:
    path = tmp_path / "table.json"

    write_table(path, 16, layout="generated")

    assert path.read_bytes() == ranktable.dumps(make_table([RING, RING]))

    write_table(path, 16, layout="hosts")

    hosts = ["n000000", "n000001"]
    assert path.read_bytes() == ranktable.dumps(make_table([RING, RING], hosts=hosts))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ours_and_the_vendors_loop_read_the_same_chips(
    layout: str, tmp_path: Path
) -> None:
    path = tmp_path / "table.json"

    write_table(path, 8, layout=layout)

    assert ranktable.check(path).ok
    assert ranktable.read_rank_table(path) == list(RING)
    assert vendor_chip_map(str(path), LAYOUTS[layout], 0) == list(RING)


@pytest.mark.parametrize(("is_odd", "totals"), [(False, {}), (True, {"RT263": 1})])
def test_rank_list_has_the_defect_that_it_says(
    is_odd: bool,
    totals: dict[str, int],
    tmp_path: Path,
) -> None:
    path = tmp_path / "table.json"

    write_rank_list(path, 64, is_odd=is_odd)

    report = ranktable.check(path)
    assert (report.format, report.totals) == ("hccl-2.0", totals)


def test_table_of_super_pods_is_sound() -> None:
    report = ranktable.check(json.dumps(super_pods(256)).encode())

    assert (report.format, report.totals) == ("hccl-1.2", {})


@pytest.mark.parametrize(
    ("defect", "errors"),
    [
        (Defect.NONE, 0),
        (Defect.LAST_SHAPE, 1),
        (Defect.LAST_MEANING, 1),
        (Defect.ALL_SHAPE, 16),
        (Defect.ALL_MEANING, 15),
        (Defect.ALL_GAPS, 8),
    ],
)
def test_a_defect_is_found_as_often_as_it_was_made(
    defect: Defect, errors: int, tmp_path: Path
) -> None:
    path = tmp_path / "table.json"

    write_table(path, 16, defect=defect)

    assert ranktable.check(path).count(ranktable.Severity.ERROR) == errors


def test_a_command_that_fails_is_told_with_the_end_of_what_it_said(
    tmp_path: Path,
) -> None:
    said = "import sys; sys.exit('Traceback\\n' + 'frame\\n' * 5000 + 'the reason')"

    with pytest.raises(
        BenchmarkError, match=r"exit status 1, not 0\n[^T]*the reason\n$"
    ):
        Bench(tmp_path).command([sys.executable, "-c", said])
