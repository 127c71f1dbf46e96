"""What counts as a failure in the tests of ``ranktable.dist``."""

from __future__ import annotations

import os
import time

import pytest

from ranktable import dist
from tests.ranks import Pool, RankFailureError, run_code

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("_rank_pools")]


def die() -> None:
    print("rank", dist.get_rank(), "begins", flush=True)  # noqa: T201 - for the test
    dist.barrier()
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


def test_a_rank_that_dies_is_a_failure_with_its_status(fresh: Pool) -> None:
    with pytest.raises(
        RankFailureError, match="rank 1 of gloo-2 ended with exit status 7"
    ) as raised:
        fresh.call(die)

    for rank in (0, 1):
        assert f"rank {rank} of gloo-2 wrote:\nrank {rank} begins" in str(raised.value)
    assert fresh.returned(answer) == [0, 1]


def test_a_rank_that_hangs_is_a_failure(fresh: Pool) -> None:
    with pytest.raises(
        RankFailureError, match="rank 1 of gloo-2 gave no answer within 1 s"
    ):
        fresh.call(hang, timeout_s=1)

    assert fresh.returned(answer) == [0, 1]


def test_a_rank_that_raises_is_a_failure(fresh: Pool) -> None:
    with pytest.raises(RankFailureError, match=r"(?s)rank 1 of gloo-2:.*wrong"):
        fresh.returned(fail)

    assert fresh.returned(answer) == [0, 1]


SLOW = """
print("rank", os.environ["RANK"], "begins", flush=True)
time.sleep(60 * int(os.environ["RANK"]))
"""


def test_what_does_not_end_by_the_deadline_is_a_failure_with_all_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_code("", 1)  # from now on torch has been imported
    monkeypatch.setattr("tests.ranks.DEADLINE_S", 5.0)

    with pytest.raises(RankFailureError) as raised:
        run_code(SLOW, 2)

    said = str(raised.value)
    assert said.startswith("did not end in 5 s: rank 1\n")
    assert "--- rank 0, exit status 0\n--- rank 1, had not ended\n" in said
    for rank in (0, 1):
        assert f"--- rank {rank} wrote:\nrank {rank} begins" in said
