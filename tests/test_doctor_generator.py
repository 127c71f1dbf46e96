"""A sample of drawn jobs: each kind of failure gets its culprit, and no other."""

from __future__ import annotations

from random import Random

import pytest

from tests import doctor_generator as generator
from tests.doctor_table import GOOD, GRADES, grade, judged

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


def test_a_wrong_name_is_graded_as_one() -> None:
    job = generator.draw(Random(1), "raises")  # noqa: S311 - a job is drawn
    files = generator.files(job)
    job.culprits = frozenset({99})

    assert grade(job, judged(files)) == GRADES[-1]
