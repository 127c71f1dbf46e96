"""Errors and warnings of a simulated run: one sentence that names the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ranktable._error import Error
from ranktable.simulate.simulated_run import RunFinding, report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class SimulationError(Error, RuntimeError):
    """A mistake that would make real chips hang or give a wrong result.

    Attributes:
        ranks: The global ranks that have the problem, as far as they are known.
    """

    def __init__(self, message: str, ranks: Sequence[int] = ()) -> None:
        """Store the parts."""
        super().__init__(message)
        self.ranks = tuple(ranks)


def reported(folder: Path, message: str, ranks: Sequence[int] = ()) -> SimulationError:
    """Return an error and report it, so the run fails even if a script catches it."""
    rank = ranks[0] if len(ranks) == 1 else None
    report(folder, RunFinding(severity="error", rank=rank, message=message))
    return SimulationError(message, ranks)


_warned: set[str] = set()
"""The warnings that this process has already reported."""


def warn_once(folder: Path, message: str) -> None:
    """Report a warning, unless this process has reported it."""
    if message not in _warned:
        _warned.add(message)
        report(folder, RunFinding(severity="warning", message=message))


def repaired(folder: Path, what: str, vendors: str) -> None:
    """Warn about something that the vendor's code refuses and the simulation repairs.

    Args:
        folder: The folder of the run.
        what: What the script does, in words.
        vendors: The vendor's exception.
    """
    warn_once(folder, f"{what}: torch_tpu raises {vendors}; here it is repaired")


def rank_list(ranks: Sequence[int]) -> str:
    """Return ranks as text.

    >>> rank_list([3]), rank_list([0, 3]), rank_list([0, 1, 3])
    ('rank 3', 'ranks 0 and 3', 'ranks 0, 1 and 3')
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


class NeedsChip:
    """A part of a vendor's package that a simulated chip does not have."""

    def __init__(self, name: str, what: str) -> None:
        """Name it, and say what it does."""
        self._message = f"{name} {what}, and this chip is simulated: there is none"

    def __getattr__(self, name: str) -> NeedsChip:
        """Return itself for a part of it: ``LLamaMlpFunc.apply``."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Raise.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(self._message)
