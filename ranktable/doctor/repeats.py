"""What is told twice: an error that another process quotes, an end with less names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.doctor.patterns import FATAL

if TYPE_CHECKING:
    from ranktable.doctor.failures import Failure

SHORTEST, COMPARED = 16, 60
"""Letters of an error by which another one is taken to quote it, and compared."""

_NAMES = {"pid", "pod", "task", "local_rank", "voice"}
"""What names a process of which neither rank nor host is known."""


def repeats(one: Failure, other: Failure) -> bool:
    """Whether an error quotes that of another process, or names less of the same end.

    Engines and drivers raise what a worker raised, in words of their own. Slurm names
    the node of the batch script where another was lost.
    """
    is_known = other.rank is not None or other.host or names(other)
    is_bare = one.rank is None and one.host is None and not names(one)
    if not is_known and not (is_bare and one.event.file == other.event.file):
        return False
    quoted = _message_of(other.what)[:COMPARED]
    if len(quoted) >= SHORTEST and one.event.kind in FATAL:
        told = _message_of(one.what)
        return told.find(quoted) > 0 or told.startswith(f"{_message_of(other.what)}'")
    is_same = one.rule is other.rule and one.event.file == other.event.file
    is_of_batch = one.event.pattern.name == "slurm-lost-a-node"
    return (
        bool(is_known)
        and is_bare
        and is_same
        and (one.what == other.what or is_of_batch)
    )


def names(one: Failure) -> set[str]:
    """Return the fields by which a line names its process, if it does."""
    return one.event.fields.keys() & _NAMES


def _message_of(what: str) -> str:
    """Return the text of an error without its type."""
    begins = r"^(?:raised|reported:|ended:) (?:[\w.]+: )?(?:(?:CUDA|HIP) error: )?"
    return re.sub(begins, "", what)
