"""Compare the chips of the members of a new group: maps, chips, nodes.

Real chips do not report this. With two different maps, a job ends with a sum that looks
right, or hangs at the first collective. So the members of a simulated group exchange
their chips before they communicate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.schema.topology import SOPHGO_8
from ranktable.simulate.simulated_run import RunFinding
from ranktable.simulate.simulation_error import rank_list

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from typing import TypeVar

    _Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipAssignment:
    """The chips of one member of a group.

    Attributes:
        rank: Its global rank.
        node: Its node.
        chip: The chip that it has selected; None if none yet.
        chip_map: The chip of every member, by its rank in the group.
    """

    rank: int
    node: int
    chip: int | None
    chip_map: tuple[int, ...]


def judge(
    assignments: Sequence[ChipAssignment],
    *,
    chips: Sequence[Sequence[int]],
    right_map: Sequence[int] | None,
) -> Iterator[RunFinding]:
    """Yield what is wrong with a group, the worst first.

    Args:
        assignments: The chips of each member, by its rank in the group.
        chips: The chips that exist on each node.
        right_map: For a sub-group, the chips that its members have in the job.
    """
    # A later finding would only repeat an earlier one in other words.
    for found in (
        _different_maps(assignments),
        _chips_of_others(assignments, right_map),
        (
            *_absent_chips(assignments, chips),
            *_shared_chips(assignments),
            *_selected_chips(assignments),
        ),
        _broken_rings(assignments, chips),
    ):
        findings = list(found)
        yield from findings
        if findings:
            return


def _chips_of_others(
    assignments: Sequence[ChipAssignment], right_map: Sequence[int] | None
) -> Iterator[RunFinding]:
    chip_map = list(assignments[0].chip_map[: len(assignments)])
    if right_map is None or chip_map == list(right_map):
        return
    ranks = [assignment.rank for assignment in assignments]
    yield RunFinding(
        severity="error",
        message=f"the group of {rank_list(ranks)} has the chip map {chip_map}, so SCCL "
        f"would use the wrong chips; theirs are {list(right_map)}: pass options with "
        "this map to new_group()",
    )


def _different_maps(assignments: Sequence[ChipAssignment]) -> Iterator[RunFinding]:
    holders = _grouped(assignments, lambda assignment: assignment.chip_map)
    if len(holders) == 1:
        return
    # The smallest group comes first, because it is probably the wrong one.
    maps = sorted(holders.items(), key=lambda item: len(item[1]))
    said = ", ".join(
        f"{rank_list(ranks)} {'holds' if len(ranks) == 1 else 'hold'} {list(chip_map)}"
        for chip_map, ranks in maps
    )
    odd = maps[0][1]
    yield RunFinding(
        severity="error",
        rank=odd[0] if len(odd) == 1 and len(assignments) > 2 else None,
        message=f"the chip maps differ: {said}",
    )


def _chip_of(assignments: Sequence[ChipAssignment], group_rank: int) -> int:
    """Return the chip of a member by its map."""
    return assignments[group_rank].chip_map[group_rank]


def _absent_chips(
    assignments: Sequence[ChipAssignment], chips: Sequence[Sequence[int]]
) -> Iterator[RunFinding]:
    for group_rank, assignment in enumerate(assignments):
        chip, there = _chip_of(assignments, group_rank), chips[assignment.node]
        if chip not in there:
            yield RunFinding(
                severity="error",
                rank=assignment.rank,
                message=f"rank {assignment.rank} uses chip {chip}, which node "
                f"{assignment.node} does not have; it has {', '.join(map(str, there))}",
            )


def _shared_chips(assignments: Sequence[ChipAssignment]) -> Iterator[RunFinding]:
    users: dict[tuple[int, int], list[int]] = {}
    for group_rank, assignment in enumerate(assignments):
        chip = _chip_of(assignments, group_rank)
        users.setdefault((assignment.node, chip), []).append(assignment.rank)
    for (node, chip), ranks in users.items():
        if len(ranks) > 1:
            yield RunFinding(
                severity="error",
                message=f"{rank_list(ranks)} use the same chip, {chip} of node {node}",
            )


def _selected_chips(assignments: Sequence[ChipAssignment]) -> Iterator[RunFinding]:
    for group_rank, assignment in enumerate(assignments):
        chip = _chip_of(assignments, group_rank)
        if assignment.chip not in (None, chip):
            yield RunFinding(
                severity="error",
                rank=assignment.rank,
                message=f"rank {assignment.rank} selected chip "
                f"{assignment.chip}, but the chip map gives it chip {chip}",
            )


def _broken_rings(
    assignments: Sequence[ChipAssignment], chips: Sequence[Sequence[int]]
) -> Iterator[RunFinding]:
    """Yield a warning for each node whose chips are not in the order of a ring."""
    by_node = _grouped(assignments, lambda assignment: assignment.node)
    group_rank_of = {
        assignment.rank: group_rank for group_rank, assignment in enumerate(assignments)
    }
    for node, ranks in by_node.items():
        order = [assignments[0].chip_map[group_rank_of[rank]] for rank in ranks]
        if any(not 0 <= chip < SOPHGO_8.num_chips for chip in chips[node]):
            continue  # another box, whose links are not published
        if broken := SOPHGO_8.broken_links(order):
            gaps = ", ".join(f"{a} and {b}" for a, b in broken)
            yield RunFinding(
                severity="warning",
                message=f"the chips {', '.join(map(str, order))} of node {node} are "
                f"not in the order of a ring, which SCCL needs: on the published box "
                f"there is no link between {gaps}",
            )


def _grouped(
    assignments: Sequence[ChipAssignment], key: Callable[[ChipAssignment], _Key]
) -> dict[_Key, list[int]]:
    """Return the ranks of the assignments that have the same key."""
    groups: dict[_Key, list[int]] = {}
    for assignment in assignments:
        groups.setdefault(key(assignment), []).append(assignment.rank)
    return groups
