"""Before a collective the ranks compare what they are about to do.

They do it in the store that the group was made with, not by a collective: a rank that
does something else, or nothing, cannot upset the group, and chips need not wait.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ranktable.dist.action import Action, Turn
from ranktable.dist.communicator import check_mode
from ranktable.dist.verdicts import post
from ranktable.dist.waiting import await_verdict, name_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from ranktable.dist.communicator import Communicator
    from ranktable.dist.verdicts import Site

_HERE: Final = "ranktable.dist."
_OTHERS_S: Final = 5.0
"""Time for the others to hear of a problem that only this rank has: those that wait in
a collective look every second."""


def agree(
    communicator: Communicator,
    describe: Callable[[], Action],
    problem: Exception | None = None,
    request: tuple[str | None, ...] = (),
) -> Turn:
    """Count a collective, and make sure that all ranks are about to do the same.

    Args:
        communicator: The group.
        describe: Returns what this rank is about to do; called if that is compared.
        problem: Why it cannot.
        request: What of it is new even where a place has been called from before.

    Raises:
        Exception: The problem, if all ranks have it or nothing is compared.
        MismatchError: The ranks are about to do different things.
        DistError: A rank did not come, or the group has failed before.
    """
    communicator.refuse_failed()
    communicator.sequence += 1
    mode = check_mode()
    is_compared = mode != "off" and communicator.size > 1
    turn = Turn(communicator.sequence, describe, is_compared)
    if not is_compared:
        if problem is not None:
            raise problem
        return turn
    frame = _caller()
    code = frame.f_code
    site = (code.co_filename, code.co_firstlineno, frame.f_lasti)
    seen = communicator.seen
    # Ranks that call from different places have not seen the same ones. One that has
    # goes on while the others wait for it, and only what is watched gets back to them.
    # Elsewhere ranks have to skip alike, so all that they do counts, and no place.
    key = (site, request) if communicator.is_watched else describe().key
    if mode == "first" and problem is None and key in seen:
        communicator.keep_open(turn)
        return turn
    action = describe()
    if problem is not None:
        action = replace(action, problem=str(problem))
    place = f"{_shown(code.co_filename)}:{frame.f_lineno}"
    sites = _compare(communicator, action, (place, site), problem)
    seen.add(key)
    # The others' places too: who calls from there next has been compared.
    seen.update((tuple(each), request) for each in sites)
    turn.is_agreed = True
    return turn


def _caller() -> FrameType:
    """Return the frame that has called this package.

    It is called by ``agree``, and that by one of the package's own.
    """
    frame = sys._getframe(3)  # noqa: SLF001 - there is no other way to one frame
    while frame.f_globals.get("__name__", "").startswith(_HERE):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame


def _shown(file: str) -> str:
    """Return a file as people name it: from the current folder, if it is in there."""
    try:
        return file.removeprefix(f"{Path.cwd()}/")
    except OSError:  # that folder was removed
        return file


def _compare(
    communicator: Communicator,
    action: Action,
    place: tuple[str, Site],
    problem: Exception | None,
) -> Sequence[Sequence[object]]:
    """Return where all ranks have called from, if all do the same."""
    timeout = communicator.timeout
    if problem is not None:
        timeout = min(timeout, timedelta(seconds=_OTHERS_S))
    number = communicator.sequence
    post(communicator, number, action, place)
    verdict = await_verdict(communicator, number, action, timeout)
    if verdict is None and problem is None:
        verdict = name_missing(communicator, number, action, timeout)
    if verdict is not None:
        verdict.refuse()
    if problem is not None:
        raise problem
    return () if verdict is None else verdict.sites
