"""Waiting for the other ranks to say what they do, without waiting in vain."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ranktable.dist.blocked import Waiting, find_cycle, forget, told
from ranktable.dist.communicator import begun, store_of
from ranktable.dist.verdicts import (
    Verdict,
    find_verdict,
    missing_ranks,
    post,
    publish,
    ranks_in_words,
)

if TYPE_CHECKING:
    from ranktable.dist.action import Action
    from ranktable.dist.communicator import Communicator

_MOST_MISSING: Final = 8
_LOOK_S: Final = 1.0
"""Time after which a rank looks for the first time why nobody answers."""

_OPEN_S: Final = 0.25
"""Time after which it says what it has begun before."""

_FIRST_PAUSE_S: Final = 0.0002
_LONGEST_PAUSE_S: Final = 0.1
_LATE_S: Final = 5.0
"""Time for the last rank to say what it has found."""


def await_verdict(
    communicator: Communicator, number: int, action: Action, timeout: timedelta
) -> Verdict | None:
    """Return what the last rank to come has found, None if it did not come in time.

    Raises:
        DistError: The store is lost.
    """
    begin = time.monotonic()
    look_s, pause_s = _LOOK_S, _FIRST_PAUSE_S
    try:
        # The store could wait itself, but says so on standard error when that is over.
        while (verdict := find_verdict(communicator, number)) is None:
            waited_s = time.monotonic() - begin
            if waited_s >= timeout.total_seconds():
                return None
            if waited_s > _OPEN_S:
                post_open(communicator)  # another rank may wait for that
            if waited_s > look_s:
                look_s *= 2  # many ranks may wait for one, and for long
                verdict = find_deadlock(communicator, number, action)
                if verdict is not None:
                    return verdict
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return verdict
    finally:
        if look_s > _LOOK_S:
            forget(communicator.rank)


def post_open(communicator: Communicator) -> None:
    """Write what this rank has begun without a comparison, and not seen the end of."""
    for turn in list(communicator.open_turns.values()):
        if not turn.is_posted:
            turn.is_posted = True
            post(communicator, turn.number, turn.action)


def find_deadlock(
    communicator: Communicator, number: int, action: Action
) -> Verdict | None:
    """Return that this rank and another wait for each other in different groups."""
    own = Waiting(
        rank=communicator.rank,
        key=communicator.key,
        number=number,
        missing=missing_ranks(communicator, number, _MOST_MISSING),
        begun=begun(),
        said=f"{action}, collective {number} of {communicator.name}",
    )
    circle = find_cycle(own)
    if not circle:
        return None
    verdict = Verdict("mismatch", told(circle))
    # All of these groups are told the same, also those who look later.
    for each in circle:
        publish(store_of(each.key), each.number, verdict)
    return find_verdict(communicator, number)


def name_missing(
    communicator: Communicator, number: int, action: Action, timeout: timedelta
) -> Verdict:
    """Return which ranks did not come; whoever asks first decides for all."""
    missing = missing_ranks(communicator, number, communicator.size)
    if not missing:  # the last one has just come, and is about to say what it finds
        late = await_verdict(communicator, number, action, timedelta(seconds=_LATE_S))
        if late is not None:
            return late
    message = (
        f"{ranks_in_words(missing)} did not come to collective {number} of "
        f"{communicator.name} within {timeout.total_seconds():g} s; the others call "
        f"{action}"
    )
    return publish(communicator.store, number, Verdict("missing", message))
