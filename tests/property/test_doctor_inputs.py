"""Laws of ``doctor`` on any input: it ends in a diagnosis, in any order of files."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ranktable.cli.output import Color, style_of
from ranktable.doctor.diagnose import Diagnosis, judge_logs
from ranktable.doctor.lines import read_log
from ranktable.doctor.patterns import patterns
from ranktable.doctor.reports import report_log
from ranktable.report.doctor_renderers import RENDERERS
from tests.effort import law
from tests.property.strategies import json_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

examples = st.sampled_from([pattern.example for pattern in patterns()])
numbers = st.sampled_from(["0", "1", "3", "77", "99999999999999999999", "-1", ""])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A known message with another number in it, behind some prefix."""
    text, number = draw(examples), draw(numbers)
    at = [place for place, mark in enumerate(text) if mark.isdigit()]
    if at:
        place = draw(st.sampled_from(at))
        text = text[:place] + number + text[place + 1 :]
    prefix = draw(st.sampled_from(["", "[rank3]:", "1: ", "(Worker_TP1 pid=7) "]))
    return (prefix + text + "\n").encode()


lines = messages() | st.binary(max_size=40)
files = st.sampled_from(
    ["n0/a.log", "n1/a.log", "w/run/plog/plog-812_1.log", "w/debug/plog/plog-812_2.log",
     "rank_1.log", "l/attempt_1/0/stderr.log", "dmesg"]
)  # fmt: skip
jobs = st.dictionaries(files, st.lists(lines, max_size=8).map(b"".join), max_size=4)


def judged(job: Mapping[str, bytes], order: Sequence[str] = ()) -> Diagnosis:
    names = order or list(job)
    return judge_logs([read_log(io.BytesIO(job[name]), name) for name in names])


@law(100)
@given(jobs)
def test_any_bytes_in_any_files_end_in_a_diagnosis(job: Mapping[str, bytes]) -> None:
    diagnosis = judged(job)

    for render in RENDERERS.values():
        "".join(render(diagnosis, style_of(Color.NEVER))).encode()


@law(100)
@given(jobs, st.randoms())
def test_the_order_of_files_changes_no_cause(
    job: Mapping[str, bytes], made: Random
) -> None:
    names = list(job)
    made.shuffle(names)

    assert judged(job, names).causes == judged(job).causes


@law(100)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True), st.randoms())
def test_ranks_that_lines_name_do_not_depend_on_the_names_of_files(
    ranks: list[int], made: Random
) -> None:
    said = {
        f"n{rank % 3}/worker{rank}.log": b"[rank%d]: RuntimeError: [b.cc:84] Timed out "
        b"waiting 1000ms for recv operation to complete\n" % rank
        for rank in ranks
    }
    others = made.sample(range(100), len(said))
    renamed = {f"{n}.log": text for n, text in zip(others, said.values(), strict=True)}

    first, second = judged(said).causes, judged(renamed).causes

    assert [(c.rule, c.ranks) for c in first] == [(c.rule, c.ranks) for c in second]


@law(100)
@given(st.dictionaries(st.sampled_from(["items", "communicators", "kind", "status"]),
                       json_values))  # fmt: skip
def test_any_json_is_a_report_or_a_log(report: dict[str, object]) -> None:
    log = report_log(json.dumps(report).encode(), "a.json")

    assert log is None or judge_logs([log]) is not None
