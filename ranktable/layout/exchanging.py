"""Exchanging ranks between nodes as long as fewer bytes cross."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.layout.crossings import Owners, Scene

MAX_WORK = 1_500_000
"""Members of groups that are looked at, about a second; then the search is given up."""

_GAIN = 1e-9
"""Of what crosses; a smaller gain may be the rounding of a sum."""


def exchange(
    scene: Scene,
    owners: Owners,
    units: Sequence[Sequence[int]],
    ceiling: Sequence[float],
    *,
    work: int = MAX_WORK,
) -> Owners:
    """Return a placement that no exchange of two units makes better.

    Args:
        scene: Groups, flows and boundaries.
        owners: The placement to begin with.
        units: Ranks that stay together, all of them on one node: its block, or one
            rank. Two units of one size may change places.
        ceiling: Bytes that may cross every boundary at most, or as many as cross it
            in the beginning.
        work: Members of groups to look at before giving up.
    """
    search = _Exchange(scene, owners, ceiling, work)
    while search.goes_round(units):
        pass
    return search.owners


class _Exchange:
    """A placement that is being improved."""

    def __init__(
        self, scene: Scene, owners: Owners, ceiling: Sequence[float], work: int
    ) -> None:
        self.scene = scene
        self.owners = list(owners)
        self.ceiling = ceiling
        self.totals = list(scene.totals(owners))
        self.work = work
        self.along = [scene.layout.along(flow.axes) for flow in scene.flows]
        # Nodes in the same domains everywhere are alike but for themselves.
        self.domains = [one.domains for one in scene.boundaries]

    def goes_round(self, units: Sequence[Sequence[int]]) -> bool:
        """Try every exchange once; return whether to try again."""
        is_better = False
        for at, one in enumerate(units):
            for other in units[:at]:
                self.work -= 1
                if self.work <= 0:
                    return False
                if (
                    len(one) == len(other)
                    and self.owners[one[0]] != self.owners[other[0]]
                ):
                    is_better |= self.improves(one, other)
        return is_better

    def improves(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Exchange two units if that is better."""
        touched = {
            (at, groups.index_of(rank))
            for at, groups in enumerate(self.along)
            for rank in (*one, *other)
        }
        before = self.crossing(touched)
        self.swap(one, other)
        after = self.crossing(touched)
        totals = [
            total - old + new
            for total, old, new in zip(self.totals, before, after, strict=True)
        ]
        is_allowed = all(
            total <= max(most, now) * (1 + _GAIN)
            for total, most, now in zip(totals, self.ceiling, self.totals, strict=True)
        )
        if is_allowed and sum(totals) < sum(self.totals) * (1 - _GAIN):
            self.totals = totals
            return True
        self.swap(one, other)
        return False

    def swap(self, one: Sequence[int], other: Sequence[int]) -> None:
        owners = self.owners
        for rank, partner in zip(one, other, strict=True):
            owners[rank], owners[partner] = owners[partner], owners[rank]

    def crossing(self, touched: set[tuple[int, int]]) -> list[float]:
        """Return the bytes of some groups that cross every boundary."""
        found = [0.0] * len(self.domains)
        for at, index in touched:
            ranks = self.scene.groups[at][index]
            self.work -= len(ranks)
            held = [self.owners[rank] for rank in ranks]
            flow = self.scene.flows[at]
            for which, domain_of in enumerate(self.domains):
                found[which] += flow.crossing([domain_of[node] for node in held]).least
        return found
