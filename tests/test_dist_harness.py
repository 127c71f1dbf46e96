"""What the tests of ``ranktable.dist`` take for a failure."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from ranktable import dist
from tests.dist_ranks import Pool, RankFailureError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("_rank_pools")]


@pytest.fixture
def two() -> Iterator[Pool]:
    ranks = Pool("gloo", 2)
    yield ranks
    ranks.stop()


def die() -> None:
    if dist.get_rank() == 1:
        os._exit(7)
    time.sleep(60)


def hang() -> str:
    if dist.get_rank() == 1:
        time.sleep(60)
    return "answer"


def fail() -> None:
    if dist.get_rank() == 1:
        raise ValueError("wrong")


def answer() -> int:
    return dist.get_rank()


def test_a_rank_that_dies_is_a_failure_with_its_status(two: Pool) -> None:
    with pytest.raises(
        RankFailureError, match="rank 1 of gloo-2 ended with exit status 7"
    ):
        two.call(die)

    assert two.returned(answer) == [0, 1]


def test_a_rank_that_hangs_is_a_failure(two: Pool) -> None:
    with pytest.raises(
        RankFailureError, match="rank 1 of gloo-2 gave no answer within 1 s"
    ):
        two.call(hang, timeout_s=1)

    assert two.returned(answer) == [0, 1]


def test_a_rank_that_raises_is_a_failure(two: Pool) -> None:
    with pytest.raises(AssertionError, match=r"(?s)rank 1 of gloo-2:.*wrong"):
        two.returned(fail)

    assert two.returned(answer) == [0, 1]
