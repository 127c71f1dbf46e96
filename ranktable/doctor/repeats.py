"""What is told twice: an error that another process quotes, an end with less names."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from ranktable.doctor.patterns import FATAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ranktable.doctor.failure import Failure

    Places = dict[str, set[str | None]]
    """Texts, and the logs in which nobody by name says them; None if anybody does."""

SHORTEST, COMPARED = 16, 60
"""Letters of an error by which another one is taken to quote it, and compared."""

_NAMES = {"pid", "pod", "task", "local_rank", "voice"}
"""What names a process of which neither rank nor host is known."""


def repeated(found: Collection[Failure]) -> Callable[[Failure], bool]:
    """Return what tells whether a failure is another one, told with less names.

    Engines and drivers raise what a worker raised, in words of their own. Slurm names
    the node of the batch script where another was lost.
    """
    is_quoting = _quoting(found)
    named = {(one.rule.code, one.event.file, what) for one in found
             if not _is_nameless(one) for what in (one.what, None)}  # fmt: skip

    def is_repeated(one: Failure) -> bool:
        is_of_batch = one.event.pattern.name == "slurm-lost-a-node"
        what = None if is_of_batch else one.what
        is_error = one.event.kind in FATAL
        is_long = is_error and len(_message_of(one.what)) >= SHORTEST
        is_end = _is_nameless(one) and not is_long
        is_end = is_end and (one.rule.code, one.event.file, what) in named
        return is_end or (is_error and is_quoting(one))

    return is_repeated


def _quoting(found: Collection[Failure]) -> Callable[[Failure], bool]:
    """Return what tells whether an error has the text of another one in it.

    An error in a log whose lines name nobody is quoted by others of that kind there.
    """
    begins: dict[str, set[int]] = defaultdict(set)
    quoted: Places = defaultdict(set)
    whole: Places = defaultdict(set)
    for one in found:
        message = _message_of(one.what)
        if len(message) >= SHORTEST:
            place = one.event.file if _is_nameless(one) else None
            begins[message[:SHORTEST]].add(len(message[:COMPARED]))
            quoted[message[:COMPARED]].add(place)
            whole[message].add(place)

    def is_quoting(one: Failure) -> bool:
        told = _message_of(one.what)
        places = {None, one.event.file} if _is_nameless(one) else {None}
        starts = {told[:length] for length in range(SHORTEST, COMPARED + 1)}
        inside = (
            told[at : at + length]
            for at in range(1, len(told) - SHORTEST + 1)
            for length in begins.get(told[at : at + SHORTEST], ())
        )
        is_inside = any(
            not places.isdisjoint(quoted.get(text, ()))
            for text in inside
            if text not in starts
        )
        in_marks = (told[: mark.start()] for mark in re.finditer("'", told))
        return is_inside or any(
            not places.isdisjoint(whole.get(text, ())) for text in in_marks
        )

    return is_quoting


def names(one: Failure) -> set[str]:
    """Return the fields by which a line names its process, if it does."""
    return one.event.fields.keys() & _NAMES


def _is_nameless(one: Failure) -> bool:
    return one.rank is None and one.host is None and not names(one)


def _message_of(what: str) -> str:
    """Return the text of an error without its type."""
    begins = r"^(?:raised|reported:|ended:) (?:[\w.]+: )?(?:(?:CUDA|HIP) error: )?"
    return re.sub(begins, "", what)
