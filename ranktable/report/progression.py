"""Many lists of numbers in one line: ``8i..8i+7`` stands for the list of every i."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SHOWN = 4
"""Numbers of a list without a rule that are shown."""

LETTERS = "ijklmn"


@dataclass(frozen=True, slots=True)
class Step:
    """How items go on in one direction.

    Attributes:
        count: Number of items.
        growth: How much each of their numbers grows from one to the next.
    """

    count: int
    growth: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Consecutive items that are alike, in one direction or in several at once.

    Attributes:
        first: Index of the first item.
        firsts: The numbers of the first item.
        shape: What all of them have in common.
        steps: How they go on, the fastest direction first; none for a single item.
    """

    first: int
    firsts: tuple[int, ...]
    shape: object
    steps: tuple[Step, ...] = ()

    @property
    def counts_items(self) -> bool:
        """Whether i may be the index of the item: its numbers are above 0 then."""
        return len(self.steps) == 1 and all(
            first >= growth * self.first
            for first, growth in zip(self.firsts, self.steps[0].growth, strict=True)
        )

    @property
    def last(self) -> int:
        """Index of the last item."""
        return self.first + prod(step.count for step in self.steps) - 1


def fold_items(items: Iterable[tuple[object, tuple[int, ...]]]) -> list[Fold]:
    """Return items in as few folds as their likeness allows.

    Args:
        items: Of each, what has to be the same and the numbers that may grow.
    """
    folds = [Fold(index, firsts, shape) for index, (shape, firsts) in enumerate(items)]
    while len(folds[0].steps if folds else LETTERS) < len(LETTERS):
        fewer = list(_merged(folds))
        if len(fewer) == len(folds):
            break
        folds = fewer
    return folds


def _merged(folds: Sequence[Fold]) -> Iterator[Fold]:
    """Yield folds that go on evenly as one."""
    start = 0
    for at in range(1, len(folds) + 1):
        if at < len(folds) and _goes_on(folds, start, at):
            continue
        first, count = folds[start], at - start
        steps = first.steps
        if count > 1:
            steps = (*steps, Step(count, _growth(first, folds[start + 1])))
        yield Fold(first.first, first.firsts, first.shape, steps)
        start = at


def _goes_on(folds: Sequence[Fold], start: int, at: int) -> bool:
    first, before, this = folds[start], folds[at - 1], folds[at]
    if (this.shape, this.steps) != (first.shape, first.steps):
        return False
    return at == start + 1 or _growth(before, this) == _growth(first, folds[start + 1])


def _growth(before: Fold, after: Fold) -> tuple[int, ...]:
    return tuple(b - a for a, b in zip(before.firsts, after.firsts, strict=True))


def spell_indices(fold: Fold) -> str:
    """Return what the letters stand for, where they need to be told apart."""
    if fold.counts_items:
        return ""
    pairs = zip(LETTERS, fold.steps, strict=False)
    ranges = ", ".join(f"{letter} 0-{step.count - 1}" for letter, step in pairs)
    return f" ({ranges})" if ranges else ""


def spell(fold: Fold, which: int, offsets: Sequence[int]) -> str:
    """Return one of the lists of a fold: a number of it, plus every offset.

    With one direction, i is the index of the item where that is easily read; else each
    letter counts from 0, and ``spell_indices`` says how far.
    """
    if not fold.counts_items:
        terms = _terms(fold, which)
        start = fold.firsts[which]
        if not terms:
            return spell_numbers([start + offset for offset in offsets])
        base = terms + (f"{start:+d}" if start else "")
        return base if len(offsets) == 1 else f"{base} + {spell_numbers(offsets)}"
    growth = fold.steps[0].growth[which]
    shift = fold.firsts[which] - growth * fold.first
    return _listed([shift + offset for offset in offsets], growth)


def spell_numbers(numbers: Sequence[int]) -> str:
    """Return numbers as text, those at equal distances as a range.

    >>> spell_numbers([0, 1, 2, 3]), spell_numbers([0, 4]), spell_numbers([0, 1, 8, 9])
    ('0-3', '0,4', '0,1,8,9')
    >>> spell_numbers(range(0, 64, 8)), spell_numbers([5]), spell_numbers([1, 2, 4] * 2)
    ('0,8..56', '5', '1,2,4,1,...')
    """
    return _listed(numbers, 0)


def _listed(numbers: Sequence[int], growth: int) -> str:
    texts = [_number(growth, number) for number in numbers]
    gaps = {b - a for a, b in pairwise(numbers)}
    if gaps == {1} and len(texts) > 2:  # noqa: PLR2004 - both ends and between
        return f"{texts[0]}{'..' if growth else '-'}{texts[-1]}"
    if len(gaps) == 1 and len(texts) > SHOWN:
        return f"{texts[0]},{texts[1]}..{texts[-1]}"
    return ",".join(texts if len(texts) <= SHOWN else [*texts[:SHOWN], "..."])


def _number(growth: int, shift: int) -> str:
    if growth == 0:
        return str(shift)
    return _term(growth, LETTERS[0]) + (f"{shift:+d}" if shift else "")


def _terms(fold: Fold, which: int) -> str:
    """Return the part of a formula that grows: ``32j+i``."""
    pairs = zip(fold.steps, LETTERS, strict=False)
    terms = [
        _term(step.growth[which], letter)
        for step, letter in reversed(list(pairs))
        if step.growth[which]
    ]
    terms.sort(key=lambda term: term.startswith("-"))
    return "+".join(terms).replace("+-", "-")


def _term(growth: int, letter: str) -> str:
    return {1: letter, -1: f"-{letter}"}.get(growth, f"{growth}{letter}")
