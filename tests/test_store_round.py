"""Rounds in a store: what they find, what they cost, what they leave."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from torch._C._distributed_c10d import HashStore, PrefixStore

from ranktable.runtime.consensus import Spec, refuse_other_specs
from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.store_round import StoreRound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ranktable.runtime.store_round import Verdict

pytestmark = pytest.mark.torch

IS_OLD = not hasattr(HashStore, "check")  # torch 2.1: each key has a second one
MOST_REQUESTS = 24 if IS_OLD else 15
"""More with torch 2.1, whose store cannot tell whether a key is there."""

SPEC = Spec(text="tea", advice="agree", noun="drink")


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store: object) -> None:
        self.store = store
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.store, name)

        def counted(*given: object) -> object:
            self.count += 1
            return function(*given)

        return counted


def take_part(
    count: int,
    said: Callable[[int], str],
    *,
    who: Sequence[int] | None = None,
    time_s: float = 20,
    store: object = None,
    **options: object,
) -> tuple[dict[int, Verdict | None], dict[int, int]]:
    """Return the verdict on each rank, and the number of its requests."""
    shared = HashStore() if store is None else store
    heard: dict[int, Verdict | None] = {}
    requests: dict[int, int] = {}

    def rank_does(rank: int) -> None:
        own = Counting(shared)
        held = StoreRound(
            store=own,  # type: ignore[arg-type]
            rank=rank,
            ranks=range(count),
            wording=SPEC,
            **options,  # type: ignore[arg-type]
        )
        held.post(said(rank))
        heard[rank] = held.hear(time_s)
        requests[rank] = own.count

    ranks = range(count) if who is None else who
    threads = [threading.Thread(target=rank_does, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return heard, requests


@pytest.mark.deadline
@pytest.mark.parametrize("count", [1, 2, 40])
def test_ranks_that_say_the_same_agree_and_leave_nothing(count: int) -> None:
    store = HashStore()
    heard, requests = take_part(count, lambda _: "tea", store=store, is_erased=True)

    assert {each.kind for each in heard.values() if each} == {"agreed"}
    assert store.num_keys() == 0
    assert max(requests.values()) <= MOST_REQUESTS


@pytest.mark.parametrize("text", ["tea", "tea " * 1000])
def test_texts_of_any_length_are_compared_and_removed(text: str) -> None:
    store = HashStore()
    heard, _ = take_part(
        3, lambda rank: text + "x" * (rank == 1), store=store, is_erased=True
    )

    [verdict] = set(heard.values())
    assert verdict is not None
    assert verdict.kind == "differ"
    assert f"for {text}" in verdict.message
    assert f"for {text}x" in verdict.message
    assert store.num_keys() == 0


def test_every_rank_gets_the_name_of_a_rank_that_differs() -> None:
    heard, _ = take_part(5, lambda rank: "milk" if rank in (2, 4) else "tea")

    assert set(heard.values()) == {
        (
            "differ",
            "rank 2 asks for milk, rank 0 for tea; agree (2 ranks differ from rank 0)",
            (2, 4),
        )
    }


def test_every_rank_gets_the_name_of_a_missing_rank() -> None:
    heard, _ = take_part(4, lambda _: "tea", who=[0, 3], time_s=0.2)

    [verdict] = set(heard.values())
    assert verdict is not None
    assert (verdict.kind, verdict.ranks) == ("missing", (1, 2))
    assert "ranks 1, 2 did not ask for their drink" in verdict.message


def test_late_rank_gets_the_same_verdict_as_the_others() -> None:
    store = HashStore()
    first, _ = take_part(2, lambda _: "tea", who=[0], time_s=0.1, store=store)
    late, _ = take_part(2, lambda _: "tea", who=[1], time_s=5, store=store)

    assert late[1] == first[0]


def test_urgent_difference_is_reported_before_all_ranks_are_connected() -> None:
    heard, _ = take_part(
        9, str, who=[3, 5], time_s=20, is_urgent=lambda first, own: first != own
    )

    assert {each.kind for each in heard.values() if each} == {"differ"}


def test_two_processes_of_one_rank_are_named() -> None:
    heard, _ = take_part(3, lambda _: "tea", who=[0, 1, 1])

    assert {each.ranks for each in heard.values() if each} == {(1,)}


def test_waiting_rank_makes_at_most_two_requests_a_second() -> None:
    store = HashStore()
    own = Counting(store)
    waiting = StoreRound(
        store=own,  # type: ignore[arg-type]
        rank=0,
        ranks=range(2),
        wording=SPEC,
        is_erased=True,
    )
    waiting.post("tea")
    late = threading.Timer(
        3,
        take_part,
        (2, lambda _: "tea"),
        {"who": [1], "store": store, "is_erased": True},
    )
    began = time.monotonic()
    late.start()
    verdict = waiting.hear(20)
    waited_s = time.monotonic() - began
    late.join()

    assert verdict.kind == "agreed"
    removals = 4 if IS_OLD else 2  # those of the last to hear it
    assert own.count <= MOST_REQUESTS - 5 + 2 * waited_s + removals
    assert store.num_keys() == 0


@pytest.mark.parametrize("is_ahead", [False, True])
def test_optional_rank_does_not_wait_and_gets_the_verdict_later(
    is_ahead: bool,
) -> None:
    store = HashStore()
    found = []

    def ask(rank: int, number: int, text: str, members: list[int]) -> None:
        spec = Spec(text=text, advice="agree", noun="group")
        try:
            refuse_other_specs(
                store,
                spec,
                number=number,
                rank=rank,
                ranks=members,
                is_urgent=True,
                time_s=20,
            )
        except BootstrapError as error:
            found.append(error.ranks)

    both = "the group of ranks 0, 1"
    ask(1, 1, "the group of rank 0", [0])  # it is not in that
    ahead = threading.Thread(target=ask, args=(1, 2, both, [0, 1]))
    if is_ahead:
        ahead.start()
        while not store.add("2/count", 0):
            time.sleep(0.01)
    ask(0, 1, both, [0, 1])
    if not is_ahead:
        ahead.start()
    ahead.join()

    assert found == [(1,), (1,)]


def test_a_prefix_keeps_rounds_apart() -> None:
    store = HashStore()
    for number in range(3):
        prefix = PrefixStore(str(number), store)
        take_part(2, lambda _: "tea", store=prefix, is_erased=True)

    assert store.num_keys() == 0


def test_rank_0_goes_on_after_all_connected_ranks_have_read_the_verdict() -> None:
    store, heard = HashStore(), threading.Event()
    first, other = (
        StoreRound(store=store, rank=rank, ranks=(0, 1), wording=SPEC)
        for rank in (0, 1)
    )
    other.post("coffee")

    def hear_late() -> None:
        time.sleep(0.4)
        other.hear(20)
        heard.set()

    late = threading.Thread(target=hear_late)
    late.start()
    first.post("tea")
    verdict = first.hear(20)
    had_heard = store.add("heard", 0)
    late.join()

    assert verdict is not None
    assert verdict.kind == "differ"
    assert had_heard == 2  # the other one, and rank 0 itself


def test_rank_0_does_not_wait_long_for_a_rank_that_never_reads_the_verdict() -> None:
    store, began = HashStore(), time.monotonic()
    first, other = (
        StoreRound(store=store, rank=rank, ranks=(0, 1), wording=SPEC)
        for rank in (0, 1)
    )
    other.post("coffee")
    first.post("tea")

    verdict = first.hear(20)

    assert verdict is not None
    assert verdict.kind == "differ"
    assert time.monotonic() - began < 10
