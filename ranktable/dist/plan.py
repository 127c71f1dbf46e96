"""How a collective is done on a backend, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ranktable.dist.carriers import Carrier

Recipe = Literal[
    "native",
    "pad and trim",
    "gather and drop",
    "gather and cut",
    "gather and fold",
    "exchange and fold",
    "broadcast and cut",
    "store",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that every rank does.

    Attributes:
        action: What, in words.
        volume: Bytes that a rank sends in an ideal ring, by N, the number of ranks,
            and n, the bytes of the tensor of one rank; None if it sends nothing.
    """

    action: str
    volume: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a collective is done.

    Attributes:
        operation: The collective.
        backend: Name of the backend's table.
        dtype: Type of the tensors.
        reduction: How they are reduced, None if they are not.
        is_even: Whether all parts are of the same size.
        recipe: Which composition it is.
        carrier: As what values travel, or are folded, while they are reduced.
        as_bytes: Whether they move as bytes, since the backend does not know the type.
        steps: What happens, in order.
        sources: Where it is written that the backend can do this.
    """

    operation: str
    backend: str
    dtype: str
    reduction: str | None = None
    is_even: bool = True
    recipe: Recipe
    carrier: Carrier | None = None
    as_bytes: bool = False
    steps: tuple[Step, ...]
    sources: tuple[str, ...]

    def __str__(self) -> str:
        """Return it in lines."""
        how = f" ({self.reduction})" if self.reduction else ""
        uneven = "" if self.is_even else ", parts of any size"
        title = (
            f"{self.operation} of {self.dtype}{how}{uneven} on {self.backend}: "
            f"{self.recipe}"
        )
        width = max(len(step.action) for step in self.steps if step.volume) + 2
        lines = [
            f"  {number}. {step.action:<{width}}sends {step.volume}"
            if step.volume
            else f"  {number}. {step.action}"
            for number, step in enumerate(self.steps, 1)
        ]
        return "\n".join([title, *lines])
