"""A sample of drawn jobs: each kind of failure gets its culprit, and no other."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from ranktable.doctor import case, diagnose, lines
from tests import doctor_generator as generator
from tests import doctor_mindspore
from tests.doctor_changes import told_by_nccl, trained_for_long
from tests.doctor_table import GOOD, GRADES, grade, judged

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = range(10)


def grades(kind: str) -> list[str]:
    """Return how good the answers about some jobs of a kind are."""
    found = []
    for seed in SAMPLE:
        random = Random(f"{kind} {seed}")  # noqa: S311 - a job is drawn
        job = generator.draw(random, kind)
        form = generator.draw_form(random, job)
        found.append(grade(job, judged(generator.files(job, *form))))
    return found


@pytest.mark.parametrize("kind", generator.KINDS)
def test_the_culprit_of_a_drawn_job_is_named(kind: str) -> None:
    assert set(grades(kind)) <= set(GOOD)


def test_no_drawn_healthy_job_has_a_finding() -> None:
    for seed in SAMPLE:
        random = Random(seed)  # noqa: S311 - a job is drawn
        job = generator.draw_healthy(random)
        files = generator.files(job, *generator.draw_form(random, job))

        assert judged(files).causes == ()


def test_the_culprit_of_a_drawn_job_of_mindspore_is_named() -> None:
    wrong = []
    for seed in range(60):
        random = Random(f"mindspore {seed}")  # noqa: S311 - a job is drawn
        job = doctor_mindspore.draw(random)
        whole = doctor_mindspore.files(job)
        without = {name: text for name, text in whole.items() if "plog" not in name}
        some = random.sample(sorted(whole), random.randrange(len(whole)))
        found = judged({name: whole[name] for name in some})
        wrong += [(seed, sorted(logs)) for logs in (whole, without)
                  if grade(job, judged(logs)) not in GOOD]  # fmt: skip
        is_suspect = found.causes and "no log of" in found.causes[0].headline
        is_wrong = grade(job, found) == "wrong name" and not is_suspect
        wrong += [(seed, some)] * bool(is_wrong)

    assert wrong == []


def test_a_wrong_name_is_graded_as_one() -> None:
    job = generator.draw(Random(1), "raises")  # noqa: S311 - a job is drawn
    files = generator.files(job)
    job.culprits = frozenset({99})

    assert grade(job, judged(files)) == GRADES[-1]


@pytest.mark.parametrize("kind", generator.KINDS)
def test_how_logs_are_written_does_not_matter(kind: str) -> None:
    job = generator.draw(Random(f"forms {kind}"), kind)  # noqa: S311 - drawn

    bad = [
        (layout, wrap)
        for layout in generator.LAYOUTS
        for wrap in generator.WRAPS
        if generator.can_be_known(job, layout, wrap)
        and grade(job, judged(generator.files(job, layout, wrap))) not in GOOD
    ]

    assert bad == []


def test_taking_files_away_names_nobody_else() -> None:
    named = [seed for seed in range(150) if names_another(seed)]

    assert named == []


def names_another(seed: int) -> bool:
    """Whether a part of the logs of a job turns the answer to another rank.

    How a launcher says that a process ended (RT611) is true of that process, whoever
    made it end; of one without a log the answer says so. The highest ranks stay:
    without a table nothing says that they exist.
    """
    random = Random(f"away {seed}")  # noqa: S311 - a job is drawn
    job = generator.draw(random)
    files = generator.files(job, *generator.draw_form(random, job))
    highest = (f"rank_{job.size - 1}.log", f"{job.host(job.size - 1)}.log")
    names = [name for name in files if name not in highest]
    for name in random.sample(sorted(names), random.randrange(len(names) + 1)):
        del files[name]
    found = judged(files)
    is_of_job = all(rank < job.size for one in found.causes for rank in one.ranks)
    is_said_by_launcher = found.causes and "may have lost" in found.causes[0].headline
    is_wrong = grade(job, found) == "wrong name" and not is_said_by_launcher
    return is_wrong or not is_of_job


@pytest.mark.parametrize("kind", ["hangs", "leaves early", "loses a service"])
def test_a_victim_without_a_log_is_not_named_for_one_that_is_silent(kind: str) -> None:
    wrong = [seed for seed in range(40) if names_a_victim(kind, seed)]

    assert wrong == []


def names_a_victim(kind: str, seed: int) -> bool:
    """Whether a launcher's word on a rank without a log outweighs a silent log."""
    random = Random(f"victim {kind} {seed}")  # noqa: S311 - a job is drawn
    launchers = ["horovod", "srun", "mpirun", "torchrun"]
    job = generator.draw(random, kind, random.choice(launchers))
    lost = random.choice(job.others())
    files = generator.files(
        job, "rank", without=frozenset({f"rank {lost}", f"plog {lost}"})
    )
    return grade(job, judged(files)) == "wrong name"


@pytest.mark.parametrize(
    "change", [generator.renamed, generator.joined, generator.without_clocks]
)
def test_logs_that_tell_less_name_nobody_else(
    change: Callable[[generator.Files], generator.Files],
) -> None:
    wrong = []
    for seed in range(120):
        random = Random(f"less {seed}")  # noqa: S311 - a job is drawn
        job = generator.draw(random)
        wraps = [wrap for wrap in generator.WRAPS
                 if generator.can_be_known(job, "rank", wrap)]  # fmt: skip
        logs = generator.files(job, "rank", random.choice(wraps))
        wrong += [seed] * (grade(job, judged(change(logs))) == "wrong name")

    assert wrong == []


@pytest.mark.parametrize("kind", ["raises", "raises as it cleans up", "hangs"])
def test_what_nccl_tells_of_its_work_changes_no_answer(kind: str) -> None:
    wrong = []
    for seed in range(20):
        random = Random(f"nccl {kind} {seed}")  # noqa: S311 - a job is drawn
        job = told_by_nccl(generator.draw(random, kind))
        form = generator.draw_form(random, job)
        wrong += [seed] * (grade(job, judged(generator.files(job, *form))) not in GOOD)

    assert wrong == []


def test_steps_of_other_logs_that_were_joined_do_not_undo_a_failure() -> None:
    found: Counter[str] = Counter()
    for seed in range(60):
        job = generator.draw(Random(f"long {seed}"))  # noqa: S311 - a job is drawn
        logs = generator.joined(generator.files(trained_for_long(job)))
        found[grade(job, judged(logs))] += 1

    assert found["wrong name"] == found["acquitted"] == 0
    assert found["right"] > 35


def test_a_handled_error_in_the_log_of_a_rank_is_none_where_logs_were_joined() -> None:
    for seed in range(60):
        random = Random(f"joined {seed}")  # noqa: S311 - a job is drawn
        job = generator.draw_healthy(random)
        wrap = random.choice([wrap for wrap in generator.WRAPS if wrap != "Ray"])

        assert judged(generator.joined(generator.files(job, "rank", wrap))).causes == ()


def test_the_last_of_two_attempts_in_one_log_is_judged() -> None:
    wrong = [seed for seed in range(60) if grade_of_last(seed, "job") not in GOOD]

    assert wrong == []


@pytest.mark.parametrize("layout", ["rank", "host"])
def test_the_last_of_two_attempts_is_judged_if_only_agents_tell_it(layout: str) -> None:
    found = Counter(grade_of_last(seed, layout) for seed in range(60))

    assert found["wrong name"] == 0
    assert found["right"] > 50


def grade_of_last(seed: int, layout: str) -> str:
    """Return how good the answer is about a job that was started again."""
    random = Random(f"again {seed}")  # noqa: S311 - a job is drawn
    kinds = [
        kind for kind in sorted(generator.KINDS) if kind not in ("host memory", "xid")
    ]
    first = generator.draw(random, random.choice(kinds), "torchrun")
    second = generator.draw(random, random.choice(kinds), before=first)
    wraps = [wrap for wrap in generator.WRAPS
             if generator.can_be_known(second, layout, wrap)]  # fmt: skip
    if not wraps:
        return "right"
    files = generator.restarted(first, second, random.choice(wraps), layout)
    return grade(second, judged(files))


def writes_matter(seed: int) -> bool:
    """Whether an answer depends on how the logs of a job are written."""
    random = Random(f"forms {seed}")  # noqa: S311 - a job is drawn
    job = generator.draw(random)
    form = generator.draw_form(random, job)
    return grade(job, judged(generator.files(job, *form))) not in GOOD


def judges_the_first(seed: int) -> bool:
    return grade_of_last(seed, "job") not in GOOD


NEVER = re.compile(r"(?!)")
COVERAGE = {(case.Case, "is_covered"): lambda _, rank: True,
            (case.Case, "without_log"): property(lambda _: set())}  # fmt: skip
# Nothing that is read while they are off may be left in the cache for other tests.
PREFIXES = {
    (lines, "_ANY_PREFIX"): NEVER,
    (lines, "_spoken"): lines._spoken.__wrapped__,
}
PARTS: dict[str, tuple[dict[tuple[Any, str], Any], Callable[[int], bool]]] = {
    "prefixes": (PREFIXES, writes_matter),
    "coverage": (COVERAGE, names_another),
    "payload": ({(case, "judged_again"): list}, writes_matter),
    "segments": ({(diagnose, "last_attempt"): list}, judges_the_first),
}
"""A part of doctor: how it is switched off, and which law breaks then."""


@pytest.mark.parametrize("part", PARTS)
def test_a_law_is_broken_without(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    off, is_broken = PARTS[part]
    assert not any(map(is_broken, range(20)))
    for (owner, name), value in off.items():
        monkeypatch.setattr(owner, name, value)

    assert any(map(is_broken, range(150)))
