"""A round in the store: every member posts a text, and all read one verdict.

The round uses the store that torch has anyway. The first member posts its text, the
others compare theirs with it, and the last one publishes the verdict, which names the
ranks that differ. After the time-out, one member finds the missing ranks and publishes
them. Only the first verdict counts. So if all agree, a member makes at most 15 requests
for any number of members, and one more per second while it waits for late ones. Rank 0
may look 20 times whether the others have read the verdict.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch._C._distributed_c10d import Store

_LOOK_S = 0.5

_FIRST_PAUSE_S = 0.002
_GROWTH = 4.0  # with 10, ranks that were 30 ms late were waited for 200 ms
_LONGEST_PAUSE_S = 1.0
_CLOCK_S = 0.05  # torch rounds a wait to milliseconds, so it may end a bit early
_LONGEST_LINGER_S = 0.1
_SHORT = 1000  # a longer text gets its own key, because all read that of the first one
_NONE = "-"  # the value of a store without a verdict
_OTHER = "!"  # marks ranks in the list whose text differs from the first one


class Verdict(NamedTuple):
    """The result of a round.

    Attributes:
        kind: Whether all agree, some ``differ``, or are ``missing``.
        message: What is wrong, in a sentence.
        ranks: The ranks that differ or are missing.
    """

    kind: Literal["agreed", "differ", "missing"]
    message: str = ""
    ranks: tuple[int, ...] = ()


AGREED = Verdict("agreed")


class Wording(Protocol):
    """The messages of a round."""

    def differing(self, said: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
        """Return the message for ranks that posted different texts, and these ranks."""
        ...

    def missing(self, absent: Sequence[int], time_s: float) -> str:
        """Return the message for missing ranks."""
        ...


@dataclass(slots=True, kw_only=True)
class StoreRound:
    """One rank's part of a round.

    Attributes:
        store: The store of this round; it has no other keys.
        rank: Global rank of this process.
        ranks: Global ranks of all members.
        wording: The messages.
        is_urgent: Whether a difference between this rank and the first one is published
            at once, without waiting for the others.
        is_erased: Whether the keys are removed after all have read the verdict.
        is_awaited: Whether rank 0 waits until all have read the verdict, also if they
            agree: most stores end with its process.
        is_alone: Whether no other thread uses this connection to the store: then the
            store itself can wait, and there is no pause between two looks.
    """

    store: Store
    rank: int
    ranks: Sequence[int]
    wording: Wording
    is_urgent: Callable[[str, str], bool] = lambda _first, _own: False
    is_erased: bool = False
    is_awaited: bool = False
    is_alone: bool = False
    _verdict: Verdict | None = None
    _first_rank: int = -1
    _first_said: str | None = None

    def __post_init__(self) -> None:
        """Adapt the store to this version of torch."""
        self.store = usable_store(self.store)

    def post(
        self, said: str, *, note: str = "", is_member: bool = True
    ) -> Verdict | None:
        """Post a text, and return the verdict if there is one, without waiting.

        Args:
            said: The text.
            note: A text that is shown with it and not compared.
            is_member: Whether the others wait for this rank.
        """
        store, digest = self.store, hashlib.sha256(said.encode()).hexdigest()
        said += note
        shown = said if len(said) <= _SHORT else None
        own = json.dumps([self.rank, digest, shown])
        found = json.loads(store.compare_set("first", "", own))
        self._first_rank, first, self._first_said = found
        is_first, is_other = self._first_rank == self.rank, first != digest
        if is_other or (is_first and shown is None):
            store.set(f"said/{self.rank}", said)
        if is_other:
            first_said = self._said_first()
            if self.is_urgent(first_said, said):
                ranks = (self._first_rank, self.rank)
                saying = dict(zip(ranks, (first_said, said), strict=True))
                self.publish(self._differing(saying))
        if not is_member:
            return self._verdict
        # One list, not one key for each rank: so missing ranks need only one request.
        store.append("came", f"{self.rank}{_OTHER * is_other},")  # type: ignore[attr-defined]
        count = store.add("count", 1)
        if self.is_last(count):
            self.publish(self._judge() or AGREED)
            if self._verdict == AGREED and self.is_erased:
                self._delete(*self._posted())
        return self._verdict

    def is_last(self, count: int) -> bool:
        """Whether this member judges, after so many have posted."""
        return count == len(self.ranks)

    def hear(
        self, time_s: float, *, left_s: float | None = None, look_s: float = _LOOK_S
    ) -> Verdict:
        """Return the verdict; wait for it, and a moment longer to name missing ranks.

        Args:
            time_s: The whole time for the others.
            left_s: How much of this time is left; by default all.
            look_s: Time for one member to find the missing ranks and publish them.
        """
        if self._verdict is None:
            self._await(time_s if left_s is None else left_s)
        if self._verdict is None:
            self._verdict = self._look(time_s, look_s)
        is_awaited = self.is_awaited or self._verdict != AGREED
        if is_awaited and self.rank == 0 and not self.is_alone:
            # Most stores end with the process of rank 0. After the time-out the others
            # look too, and a caller counts on the time that it has given.
            is_late = self._verdict.kind == "missing"
            time_s = _LOOK_S if is_late else _LONGEST_PAUSE_S + _LOOK_S
            self.linger(time_s, is_counted=False)
        self._leave()
        return self._verdict

    def linger(self, time_s: float, *, is_counted: bool = True) -> None:
        """Wait until all present ranks have read the verdict, or until the time-out.

        Args:
            time_s: The time.
            is_counted: Whether this rank is already counted among them.
        """
        end = time.monotonic() + time_s
        expected = self._count_present() - (not is_counted)
        pause_s = _FIRST_PAUSE_S
        while self.store.add("heard", 0) < expected and time.monotonic() < end:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LINGER_S)

    def _count_present(self) -> int:
        """Return the number of ranks that posted, from the verdict."""
        assert self._verdict is not None
        is_missing = self._verdict.kind == "missing"
        return len(self.ranks) - is_missing * len(self._verdict.ranks)

    def publish(self, verdict: Verdict) -> None:
        """Publish a verdict; only the first one counts."""
        stands = self.store.compare_set("verdict", "", json.dumps(verdict)).decode()
        self._verdict = _verdict(stands)
        if self.is_alone:
            # Before torch 2.4 a compare_set does not wake other ranks that wait.
            self.store.set("verdict", stands)

    def _is_read(self) -> bool:
        """Read the verdict, if there is one, in one request."""
        said = self.store.compare_set("verdict", _NONE, _NONE).decode()
        if said != _NONE:
            self._verdict = _verdict(said)
        return said != _NONE

    def _await(self, time_s: float) -> bool:
        """Read the verdict, and return whether there is one in time.

        Raises:
            RuntimeError: The store is lost.
        """
        end = time.monotonic() + time_s
        if self.is_alone:
            try:
                self.store.wait(["verdict"], timedelta(seconds=max(time_s, 0.001)))
            except RuntimeError:
                if time.monotonic() < end - _CLOCK_S:
                    raise
                return False
            return self._is_read()
        # While a store waits, other threads cannot use its connection. The other ranks
        # may be waiting for one of these threads.
        pause_s = _FIRST_PAUSE_S
        while not self._is_read():
            left_s = end - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = min(_GROWTH * pause_s, _LONGEST_PAUSE_S)
        return True

    def _look(self, time_s: float, look_s: float) -> Verdict:
        """Return the verdict after the time-out; one member publishes it for all."""
        if self.store.add("lookers", 1) == 1:
            verdict = self._judge()
            if verdict is None:
                came = {rank for rank, _ in self._entries()}
                absent = sorted(set(self.ranks) - came)
                message = self.wording.missing(absent, time_s)
                verdict = Verdict("missing", message, tuple(absent))
            self.publish(verdict)
        elif not self._await(look_s):
            return Verdict("missing", self.wording.missing((), time_s))
        assert self._verdict is not None
        return self._verdict

    def _judge(self) -> Verdict | None:
        """Return the verdict that ranks differ, None if all posted the same."""
        entries = self._entries()
        came = sorted(rank for rank, _ in entries)
        for rank, following in pairwise(came):
            if rank == following:
                message = (
                    f"two processes have rank {rank}; give every process of the job a "
                    "RANK of its own, and end the processes of an earlier job"
                )
                return Verdict("differ", message, (rank,))
        others = [rank for rank, is_other in entries if is_other]
        if not others:
            return None
        texts = self.store.multi_get([f"said/{rank}" for rank in others])
        said = dict.fromkeys(came, self._said_first())
        for rank, text in zip(others, texts, strict=True):
            said[rank] = text.decode()
        return self._differing(said)

    def _said_first(self) -> str:
        """Return the text that was posted first."""
        if self._first_said is not None:
            return self._first_said
        return self.store.get(f"said/{self._first_rank}").decode()

    def _differing(self, said: Mapping[int, str]) -> Verdict:
        return Verdict("differ", *self.wording.differing(said))

    def _entries(self) -> list[tuple[int, bool]]:
        """Return the ranks that posted, each with whether it differs from the first."""
        # Appending nothing creates the list, so that no rank waits for it.
        self.store.append("came", "")  # type: ignore[attr-defined]
        listed = self.store.get("came").decode().split(",")[:-1]
        return [(int(each.rstrip(_OTHER)), each.endswith(_OTHER)) for each in listed]

    def _leave(self) -> None:
        """Count this rank among those that have read the verdict.

        The last one removes the keys.
        """
        if self._verdict == AGREED and self.is_alone:
            return
        if self.store.add("heard", 1) != len(self.ranks) or not self.is_erased:
            return
        self._delete("verdict", "heard")
        if self._verdict != AGREED:  # else the last rank has removed the other keys
            said = [f"said/{rank}" for rank in self.ranks]
            self._delete(*self._posted(), "lookers", *said)

    def _posted(self) -> list[str]:
        """Return the keys that are not needed after all agree."""
        is_apart = self._first_said is None
        return ["first", "came", "count", *[f"said/{self._first_rank}"] * is_apart]

    def _delete(self, *keys: str) -> None:
        for key in keys:
            self.store.delete_key(key)


def _verdict(said: str) -> Verdict:
    kind, message, ranks = json.loads(said)
    return Verdict(kind, message, tuple(ranks))


def has_list_store(store: Any) -> bool:
    """Whether a store can append to a value; a FileStore cannot."""
    has_it = getattr(store, "has_extended_api", None)
    return has_it is not None and bool(has_it())


def usable_store(store: Any) -> Any:
    """Return a store with usable methods ``check`` and ``compare_set``.

    Torch 2.1 lacks the first. The second sometimes ends the process, because it makes a
    Python object without holding the interpreter's lock.
    """
    return store if hasattr(store, "check") else _CountedStore(store)


class _CountedStore:
    """A store that counts the writers of a key, to know whether it exists."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def check(self, keys: list[str]) -> bool:
        return all(self._store.add(f"{key}/writes", 0) > 0 for key in keys)

    def set(self, key: str, value: str) -> None:
        self._store.set(key, value)
        self._store.add(f"{key}/writes", 1)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Write a key unless it exists, and return its value; nothing is replaced."""
        if expected and not self.check([key]):
            return expected.encode()
        if not expected and self._store.add(f"{key}/writes", 1) == 1:
            self._store.set(key, desired)
            return desired.encode()
        found: bytes = self._store.get(key)
        return found

    def delete_key(self, key: str) -> bool:
        self._store.delete_key(f"{key}/writes")
        return bool(self._store.delete_key(key))
