"""What colours the chips at first: a change, findings, or places in the layout."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any

from ranktable.report.page_data import axis_of, cost_model, worst_states
from ranktable.report.picture import PALETTE, STATES, Colouring, mixed
from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.report.page_data import ReportFacts
    from ranktable.report.picture import Cluster

_ERROR = Severity.ERROR.value
CHANGE = ("same", "moved", "new", "gone")
STATUS = ("sound", "note", "warning", "error", "gone")

_MARKS_OF_RAMP = 5


def first_colouring(
    facts: ReportFacts, cluster: Cluster, gone: Sequence[int]
) -> Colouring:
    """Return the colours that say most.

    They show a change, otherwise findings about chips and errors about none, otherwise
    the outermost axis of the layout, otherwise places in the node.
    """
    said = statuses(facts, cluster, gone)
    if facts.change is not None:
        changed = changes(facts, cluster, gone)
        errors = frozenset(at for at, one in enumerate(said) if one == _ERROR)
        return _by_state("change", changed, CHANGE, errors)
    if set(said) != {"sound"} or _ERROR in facts.severities:
        return _by_state("status", said, STATUS)
    return _by_axis(facts, cluster) or _by_local_rank(cluster)


def changes(facts: ReportFacts, cluster: Cluster, gone: Iterable[int]) -> list[str]:
    """Return what a change says about every chip."""
    if facts.change is None:
        return ["same"] * len(cluster.ranks)
    state = dict.fromkeys((move.after for move in facts.change.rank_moves), "moved")
    state |= dict.fromkeys(facts.change.chips_in, "new")
    return _with_gone([state.get(rank, "same") for rank in cluster.ranks], gone)


def statuses(facts: ReportFacts, cluster: Cluster, gone: Iterable[int]) -> list[str]:
    """Return the worst severity that was found about every chip."""
    states = worst_states(facts)
    found = [states.get(cell, "sound") for cell in range(len(cluster.ranks))]
    return _with_gone(found, [cell for cell in gone if cell not in states])


def _with_gone(states: list[str], gone: Iterable[int]) -> list[str]:
    for cell in gone:
        states[cell] = "gone"
    return states


def _by_state(
    name: str,
    states: Sequence[str],
    kinds: Iterable[str],
    framed: frozenset[int] = frozenset(),
) -> Colouring:
    numbers = Counter(states)
    legend = [(f"{kind} {numbers[kind]:,}", STATES[kind]) for kind in kinds]
    return Colouring(
        name=name,
        colours=[STATES[state] for state in states],
        legend=[one for one, kind in zip(legend, kinds, strict=True) if numbers[kind]],
        framed=framed,
    )


def _by_axis(facts: ReportFacts, cluster: Cluster) -> Colouring | None:
    """Return colours by the axis whose places lie farthest apart, None without one."""
    costs = cost_model(facts)
    if costs is None:
        return None
    axes = [axis_of(costs.layout, name) for name in costs.row_names]
    outer = max((one for one in axes if one["inside"]), key=_reach, default=None)
    if outer is None:
        return None
    count = prod(size for size, _ in outer["inside"])
    places = [_place(rank, outer["inside"]) for rank in cluster.ranks]
    return _by_number(outer["name"], places, count)


def _reach(axis: dict[str, Any]) -> tuple[int, bool]:
    """Return how far apart neighbours are; one axis is before several together."""
    return max(stride for _, stride in axis["inside"]), "-" not in axis["name"]


def _place(rank: int, steps: Iterable[Sequence[int]]) -> int:
    """Return the place of a rank along an axis, as the page's ``placeIn`` has it."""
    found, weight = 0, 1
    for size, stride in steps:
        found += rank // stride % size * weight
        weight *= size
    return found


def _by_local_rank(cluster: Cluster) -> Colouring:
    places = [at for size in cluster.sizes for at in range(size)]
    return _by_number("local rank", places, max(cluster.sizes, default=1))


def _by_number(name: str, places: Sequence[int], count: int) -> Colouring:
    shown = [*range(count)]
    if count > len(PALETTE):
        last = _MARKS_OF_RAMP - 1
        shown = sorted({(count - 1) * at // last for at in range(_MARKS_OF_RAMP)})
    colours = {at: mixed(at, count) for at in {*places, *shown}}
    texts = [f"{at}" if at else f"{name} 0" for at in shown]
    return Colouring(
        name=name,
        colours=[colours[at] for at in places],
        legend=[*zip(texts, map(colours.__getitem__, shown), strict=True)],
    )
