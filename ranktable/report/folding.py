"""Show many nodes in few lines, and many lists of numbers as one formula.

``n[000-127]: chips 0-7 -> ranks 8i..8i+7`` shows 128 nodes; ``8i..8i+7`` is the list of
each i.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import prod
from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import fold_hosts
from ranktable.schema.diagnostic import fold_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.schema.model import Node, RankTable


@dataclass(frozen=True, slots=True)
class NodeFold:
    """Consecutive nodes with the same chips, whose ranks continue from node to node.

    Attributes:
        first: node_rank of the first node.
        last: node_rank of the last node.
        host: Their hosts, folded.
        chips: The chips of each, folded.
        ranks: The ranks of each; if there are several nodes, as a formula with i.
    """

    first: int
    last: int
    host: str
    chips: str
    ranks: str


def fold_nodes(table: RankTable) -> list[NodeFold]:
    """Return the nodes of a table in as few lines as possible."""
    folds: list[NodeFold] = []
    start = 0
    nodes = table.nodes
    with_ranks: Counter[str | None] = Counter()
    for at in range(1, len(nodes) + 1):
        if at < len(nodes) and _continues(nodes, start, at):
            continue
        group = nodes[start].group
        folds.append(_fold(nodes, start, at - 1, with_ranks[group]))
        with_ranks[group] += at - start if nodes[start].devices else 0
        start = at
    return folds


def _chips(node: Node) -> list[int]:
    return [device.device_id for device in node.devices]


def chips_label(chips: Sequence[int]) -> str:
    """Return chips as text for a line; a process without a chip is on the host."""
    if min(chips) >= 0:
        return fold_numbers(chips)
    runs = groupby(chips, lambda chip: chip >= 0)
    return ",".join(
        fold_numbers(run) if is_chip else ",".join("host" for _ in run)
        for is_chip, run in runs
    )


def _is_block(node: Node) -> bool:
    """Whether the ranks of a node are consecutive, which they are by default."""
    return node.devices[-1].rank - node.devices[0].rank < len(node.devices)


def _continues(nodes: Sequence[Node], start: int, at: int) -> bool:
    """Whether a node continues the line that begins at ``start``."""
    before, node = nodes[at - 1], nodes[at]
    if not before.devices or not node.devices or before.group != node.group:
        return False
    return (
        _is_block(before)
        and _is_block(node)
        and _chips(node) == _chips(nodes[start])
        and node.devices[0].rank == before.devices[-1].rank + 1
        and (node.host is None) == (before.host is None)
    )


def _fold(nodes: Sequence[Node], first: int, last: int, number: int) -> NodeFold:
    devices = nodes[first].devices
    if not devices:
        host = host_label(nodes[first : last + 1], first)
        return NodeFold(first=first, last=last, host=host, chips="", ranks="")
    size, lowest = len(devices), devices[0].rank
    if not _is_block(nodes[first]):
        ranks = fold_numbers([device.rank for device in devices])
    elif first == last:
        ranks = _span(lowest, lowest + size - 1)
    else:
        # The first i: spares have no ranks, and the ranks of each group begin at 0.
        shift = lowest - size * number
        index = "i" if size == 1 else f"{size}i"
        ranks = f"{index}{_plus(shift)}"
        if size > 1:
            ranks += f"..{index}{_plus(shift + size - 1)}"
    return NodeFold(
        first=first,
        last=last,
        host=host_label(nodes[first : last + 1], first),
        chips=chips_label(_chips(nodes[first])),
        ranks=ranks,
    )


def _plus(shift: int) -> str:
    return f"{shift:+d}" if shift else ""


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def host_label(nodes: Sequence[Node], first: int) -> str:
    """Return the name of consecutive nodes for a line: their hosts, or numbers."""
    group = nodes[0].group
    label = _hosts_label(nodes, first)
    return label if group is None else f"group {group}, {label}"


def _hosts_label(nodes: Sequence[Node], first: int) -> str:
    hosts = [node.host for node in nodes if node.host is not None]
    if hosts:
        # A host that cannot be written in this notation is shown as it is.
        try:
            return fold_hosts(hosts)
        except ValueError:
            return ",".join(hosts)
    last = first + len(nodes) - 1
    return f"node {first}" if first == last else f"nodes {first}-{last}"


SHOWN = 4
"""Most numbers that are shown of a list without a pattern."""

LETTERS = "ijklmn"


@dataclass(frozen=True, slots=True)
class Stride:
    """How items continue in one direction.

    Attributes:
        count: Number of items.
        growth: By how much their numbers grow from one item to the next.
    """

    count: int
    growth: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Progression:
    """Consecutive items with one pattern, in one direction or in several.

    Attributes:
        first: Index of the first item.
        firsts: The numbers of the first item.
        shape: What is the same in all of them.
        steps: How they continue, the fastest direction first; empty for a single item.
    """

    first: int
    firsts: tuple[int, ...]
    shape: object
    steps: tuple[Stride, ...] = ()

    @property
    def counts_items(self) -> bool:
        """Whether i may be the index of the item; its numbers are then above 0."""
        return len(self.steps) == 1 and all(
            first >= growth * self.first
            for first, growth in zip(self.firsts, self.steps[0].growth, strict=True)
        )

    @property
    def last(self) -> int:
        """Index of the last item."""
        return self.first + prod(step.count for step in self.steps) - 1


def fold_items(items: Iterable[tuple[object, tuple[int, ...]]]) -> list[Progression]:
    """Return items as few progressions.

    Args:
        items: For each item, what must be the same, and the numbers that may grow.
    """
    folds = [
        Progression(index, firsts, shape) for index, (shape, firsts) in enumerate(items)
    ]
    while len(folds[0].steps if folds else LETTERS) < len(LETTERS):
        fewer = list(_merged(folds))
        if len(fewer) == len(folds):
            break
        folds = fewer
    return folds


def _merged(folds: Sequence[Progression]) -> Iterator[Progression]:
    """Yield progressions in which equal neighbours are merged."""
    start = 0
    for at in range(1, len(folds) + 1):
        if at < len(folds) and _goes_on(folds, start, at):
            continue
        first, count = folds[start], at - start
        steps = first.steps
        if count > 1:
            steps = (*steps, Stride(count, _growth(first, folds[start + 1])))
        yield Progression(first.first, first.firsts, first.shape, steps)
        start = at


def _goes_on(folds: Sequence[Progression], start: int, at: int) -> bool:
    first, before, this = folds[start], folds[at - 1], folds[at]
    if (this.shape, this.steps) != (first.shape, first.steps):
        return False
    return at == start + 1 or _growth(before, this) == _growth(first, folds[start + 1])


def _growth(before: Progression, after: Progression) -> tuple[int, ...]:
    return tuple(b - a for a, b in zip(before.firsts, after.firsts, strict=True))


def spell_indices(fold: Progression) -> str:
    """Return the ranges of the letters, if there are several letters."""
    if fold.counts_items:
        return ""
    pairs = zip(LETTERS, fold.steps, strict=False)
    ranges = ", ".join(f"{letter} 0-{step.count - 1}" for letter, step in pairs)
    return f" ({ranges})" if ranges else ""


def spell(fold: Progression, which: int, offsets: Sequence[int]) -> str:
    """Return one list of a progression: one of its numbers, plus every offset.

    With one direction, i is the index of the item if this is easy to read. Otherwise
    each letter counts from 0, and ``spell_indices`` returns its range.
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
    """Return numbers as text; numbers at equal distances become a range.

    >>> spell_numbers([0, 1, 2, 3]), spell_numbers([0, 4]), spell_numbers([0, 1, 8, 9])
    ('0-3', '0,4', '0,1,8,9')
    >>> spell_numbers(range(0, 64, 8)), spell_numbers([5]), spell_numbers([1, 2, 4] * 2)
    ('0,8..56', '5', '1,2,4,1,...')
    """
    return _listed(numbers, 0)


def _listed(numbers: Sequence[int], growth: int) -> str:
    texts = [_number(growth, number) for number in numbers]
    gaps = {b - a for a, b in pairwise(numbers)}
    if gaps == {1} and len(texts) > 2:
        return f"{texts[0]}{'..' if growth else '-'}{texts[-1]}"
    if len(gaps) == 1 and len(texts) > SHOWN:
        return f"{texts[0]},{texts[1]}..{texts[-1]}"
    return ",".join(texts if len(texts) <= SHOWN else [*texts[:SHOWN], "..."])


def _number(growth: int, shift: int) -> str:
    if growth == 0:
        return str(shift)
    return _term(growth, LETTERS[0]) + (f"{shift:+d}" if shift else "")


def _terms(fold: Progression, which: int) -> str:
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
