"""The chips of every node of a cluster spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.specs import spec_rules as rules
from ranktable.cluster.specs.groups import read_groups
from ranktable.cluster.specs.shape import Place
from ranktable.cluster.specs.spec import MAX_CHIP, MAX_CHIPS, MAX_RANKS
from ranktable.schema.messages import quoted
from ranktable.schema.rules.syntax import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.specs.nodes import Nodes
    from ranktable.cluster.specs.shape import Shape

Chips = tuple[int, ...]

_PLACE = Place(("chips",))
_WANTED = "a number of chips or a list of them"


def read_chips(
    shape: Shape, nodes: Nodes | None
) -> tuple[list[tuple[Place, Chips]], list[int]] | None:
    """Return the sets of chips with their places, and the set of every node.

    Returns:
        Both; None after saying what is wrong, or where nodes is not known.
    """
    if "chips" not in shape.members:
        return None
    value = shape.members["chips"]
    if isinstance(value, dict):
        return _grouped(shape, value, nodes)
    chips = _chips(shape, _PLACE, value, f"{_WANTED}, for all nodes or by hosts")
    if chips is None or nodes is None:
        return None
    return _bounded(shape, [(_PLACE, chips)], [0] * nodes.count)


def _grouped(
    shape: Shape, value: dict[str, object], nodes: Nodes | None
) -> tuple[list[tuple[Place, Chips]], list[int]] | None:
    if not value:
        shape.report(rules.WRONG_TYPE, _PLACE, "chips names no hosts")
        return None
    sets = [
        (_PLACE.item(key), _chips(shape, _PLACE.item(key), chips, _WANTED))
        for key, chips in value.items()
    ]
    lists = [(Place(("chips", key), is_key=True), key) for key in value]
    set_of = read_groups(shape, "chips", lists, nodes)
    known = [(place, chips) for place, chips in sets if chips is not None]
    if set_of is None or len(known) < len(sets):
        return None
    return _bounded(shape, known, set_of)


def _bounded(
    shape: Shape, sets: list[tuple[Place, Chips]], set_of: list[int]
) -> tuple[list[tuple[Place, Chips]], list[int]] | None:
    """Return both unless there are too many chips."""
    sizes = [len(chips) for _, chips in sets]
    if sum(sizes[index] for index in set_of) <= MAX_RANKS:
        return sets, set_of
    shape.report(TOO_MANY, _PLACE, f"these are more than {MAX_RANKS} chips in all")
    return None


def _chips(shape: Shape, place: Place, value: object, wanted: str) -> Chips | None:
    """Return the chips of a node, None after saying what is wrong with them."""
    if type(value) is int:
        count = shape.number(place, value, 1, MAX_CHIPS)
        return None if count is None else tuple(range(count))
    if not isinstance(value, list):
        shape.wrong_type(place, value, wanted)
        return None
    if not 1 <= len(value) <= MAX_CHIPS:
        message = f"{place} has {len(value)} chips; it has 1 to {MAX_CHIPS}"
        shape.report(rules.BAD_NUMBER, place, message)
        return None
    return _listed(shape, place, value)


def _listed(shape: Shape, place: Place, value: Sequence[object]) -> Chips | None:
    chips: dict[int, int] = {}
    is_sound = True
    for index, chip in enumerate(value):
        at = place.item(index)
        if type(chip) is not int:
            hint = "for the chips 0 to 7 write 8, or every number"
            ranged = isinstance(chip, str) and (".." in chip or "-" in chip)
            shape.wrong_type(at, chip, "a chip", hint=hint if ranged else None)
        elif shape.number(at, chip, 0, MAX_CHIP) is not None:
            if chips.setdefault(chip, index) == index:
                continue
            message = f"chip {quoted(chip)} stands twice in {place}"
            shape.report(rules.CHIP_TWICE, at, message)
        is_sound = False
    return tuple(chips) if is_sound else None
