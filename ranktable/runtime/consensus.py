"""Before ranks make groups together, they compare their requests.

Ranks that make different groups would wait for each other until the time-out, without a
reason in the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.store_round import StoreRound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch._C._distributed_c10d import Store

WAIT_S = 300.0
"""Time for all ranks to post their request, if none is given."""

_TOLD = 64
"""By how many calls a rank that does not have to wait may be ahead. One key for all of
them would do for a rank that asks later, but not for one that waits in a later call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The request of a rank, for the comparison.

    Attributes:
        text: The request, in words.
        advice: What to do if the requests of ranks differ.
        noun: What a missing rank did not ask for, in one word.
    """

    text: str
    advice: str
    noun: str

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        """Return the message for ranks with other requests, and these ranks."""
        first = min(said)
        others = tuple(rank for rank in sorted(said) if said[rank] != said[first])
        count = f" ({len(others)} ranks differ from rank {first})"
        sentence = (
            f"rank {others[0]} asks for {said[others[0]]}, rank {first} for "
            f"{said[first]}; {self.advice}" + (count if len(others) > 1 else "")
        )
        return sentence, others

    def missing(self, absent: Sequence[int], time_s: float) -> str:
        """Return the message that names ranks that did not ask."""
        from ranktable.schema.text import folded

        return (
            f"ranks {folded(absent)} did not ask for their {self.noun} within "
            f"{time_s:g} s; every rank has to make the same calls in the same order"
        )


def refuse_other_specs(
    store: Store,
    spec: Spec,
    *,
    number: int,
    rank: int,
    ranks: Sequence[int],
    is_urgent: bool = False,
    time_s: float | None = None,
) -> StoreRound:
    """Raise unless all ranks ask for the same; wait for the ranks that must ask.

    Args:
        store: The store for requests of one kind.
        spec: The request of this rank.
        number: The number of this request among those of its kind.
        rank: Its global rank; if it is not in ``ranks``, it does not wait.
        ranks: Global ranks that must ask.
        is_urgent: Whether all ranks raise as soon as two requests differ.
        time_s: How long to wait for the others.

    Returns:
        The round.

    Raises:
        BootstrapError: A rank asks for something else (RT405), or is missing (RT404).
    """
    from torch._C._distributed_c10d import PrefixStore

    def round_of(number: int) -> StoreRound:
        return StoreRound(
            store=PrefixStore(str(number), store),
            rank=rank,
            ranks=ranks,
            wording=spec,
            is_urgent=lambda _first, _own: is_urgent,
        )

    held = round_of(number)
    try:
        verdict = held.post(spec.text, is_member=rank in ranks)
        if rank in ranks:
            verdict = held.hear(time_s or WAIT_S)
    except RuntimeError as error:  # torch's network errors
        raise BootstrapError(
            "RT404",
            f"rank {rank} lost the connection to the store of the job, so the process "
            "that serves it has ended; look at the output of rank 0",
        ) from error
    if verdict is None or verdict.kind == "agreed":
        return held
    if is_urgent and verdict.kind == "differ":
        # A rank that did not have to wait has continued; it reads this the next time.
        for later in range(number + 1, number + _TOLD):
            round_of(later).publish(verdict)
    code = "RT404" if verdict.kind == "missing" else "RT405"
    raise BootstrapError(code, verdict.message, verdict.ranks)
