"""What a rank is about to do, as the others compare it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a rank is about to do; all of it has to be the same on every rank.

    Attributes:
        operation: The collective.
        reduction: How it reduces.
        dtype: Type of the tensors.
        shape: Their shape, where it has to be the same.
        root: Global rank of the root.
        details: What else has to be the same, each in words.
        problem: Why this rank cannot do it.
    """

    operation: str
    reduction: str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    root: int | None = None
    details: Sequence[str] = ()
    problem: str | None = None

    def __str__(self) -> str:
        """Return it in words."""
        return self.words([])

    def words(self, details: Iterable[str]) -> str:
        """Return it in words.

        Args:
            details: Those to mention.
        """
        words = [self.operation]
        if self.shape is not None:
            words.append(f"of shape {tuple(self.shape)}")
        if self.dtype is not None:
            words.append(self.dtype)
        if self.reduction is not None:
            words.append(f"({self.reduction})")
        if self.root is not None:
            words.append(f"with root {self.root}")
        words += details
        if self.problem is not None:
            words.append(f"- refused: {self.problem}")
        return " ".join(words)

    @property
    def key(self) -> object:
        """All of it, as what can be looked up."""
        return str(self), *self.details

    def posted(self) -> dict[str, object]:
        """Return it as what JSON can hold, whatever was given as a reduction."""
        fields = ("operation", "dtype", "shape", "root", "problem")
        reduction = None if self.reduction is None else str(self.reduction)
        return {"reduction": reduction} | {each: getattr(self, each) for each in fields}


@dataclass(slots=True)  # one for each call: freezing it would cost more than the rest
class Turn:
    """A collective of a group.

    Attributes:
        number: How many there were, with this one.
        describe: Returns what this rank does.
        is_compared: Whether ranks compare what they do at all.
        is_agreed: Whether all ranks are known to do the same.
        is_posted: Whether this rank has written what it does.
    """

    number: int
    describe: Callable[[], Action]
    is_compared: bool
    is_agreed: bool = False
    is_posted: bool = False

    @property
    def action(self) -> Action:
        """What this rank does."""
        return self.describe()
