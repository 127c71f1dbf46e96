"""What the members of a new group hold, compared: maps, chips, nodes.

Real chips say nothing of this. With two different maps a job runs to a sum that looks
right, or hangs at the first collective; so the members of a simulated group show what
they hold before they communicate.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import msgspec

from ranktable.schema.topology import SOPHGO_8
from ranktable.simulate.simulated_run import RunFinding
from ranktable.simulate.simulation_error import rank_list

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from typing import TypeVar

    from torch._C._distributed_c10d import Store

    _Key = TypeVar("_Key", bound=Hashable)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What one member of a group holds.

    Attributes:
        rank: Its global rank.
        node: The node it is on.
        chip: The chip it has selected; None if it has selected none yet.
        chip_map: The chip of every member, by its rank in the group; empty if the
            backend has no such map.
    """

    rank: int
    node: int
    chip: int | None
    chip_map: tuple[int, ...]


class ShownClaims:
    """What the members of a new group show each other in the store.

    A chip map is as long as the group, so members that hold the same show it once.
    """

    def __init__(self, store: Store, member: int) -> None:
        """Begin with nothing shown."""
        self._store, self._member = store, member
        self._own: list[str] = []

    def show(self, claim: Claim) -> None:
        """Show what this member holds."""
        chip_map = msgspec.json.encode(claim.chip_map)
        name = f"map/{sha256(chip_map).hexdigest()}"
        if self._store.add(f"{name}/holders", 1) == 1:
            self.set(name, chip_map.decode())
            self._own.append(f"{name}/holders")
        short = msgspec.structs.replace(claim, chip_map=())
        self.set(f"claim/{self._member}", msgspec.json.encode([name, short]).decode())

    def set(self, key: str, value: str) -> None:
        """Show something that is erased in the end."""
        self._store.set(key, value)
        self._own.append(key)

    def claims(self, size: int) -> list[Claim]:
        """Return what each member holds, once all have shown it."""
        texts = self._store.multi_get([f"claim/{member}" for member in range(size)])
        decoded = [msgspec.json.decode(t, type=tuple[str, Claim]) for t in texts]
        names = list({name for name, _ in decoded})
        maps = {
            name: msgspec.json.decode(text, type=tuple[int, ...])
            for name, text in zip(names, self._store.multi_get(names), strict=True)
        }
        return [
            msgspec.structs.replace(claim, chip_map=maps[name])
            for name, claim in decoded
        ]

    def erase(self) -> None:
        """Erase what this member has shown, once all have seen it."""
        for key in self._own:
            self._store.delete_key(key)


def judge(
    claims: Sequence[Claim],
    *,
    chips: Sequence[Sequence[int]],
    right_map: Sequence[int] | None,
    wrong_map: Literal["error", "warning"] = "error",
) -> Iterator[RunFinding]:
    """Yield what is wrong with a group, the worst first.

    Args:
        claims: What each member holds, by its rank in the group.
        chips: The chips that exist on each node.
        right_map: For a sub-group, the chips that its members have in the world.
        wrong_map: How severe it is that a sub-group has other chips.
    """
    # What comes later would say the same again, in other words.
    for found in (
        _different_maps(claims),
        _chips_of_others(claims, right_map, wrong_map),
        (
            *_absent_chips(claims, chips),
            *_shared_chips(claims),
            *_selected_chips(claims),
        ),
        _broken_rings(claims, chips),
    ):
        findings = list(found)
        yield from findings
        if findings:
            return


def _chips_of_others(
    claims: Sequence[Claim],
    right_map: Sequence[int] | None,
    severity: Literal["error", "warning"],
) -> Iterator[RunFinding]:
    chip_map = list(claims[0].chip_map[: len(claims)])
    if right_map is None or chip_map in ([], list(right_map)):
        return
    ranks = [claim.rank for claim in claims]
    yield RunFinding(
        severity=severity,
        message=f"the group of {rank_list(ranks)} has the chip map {chip_map}, so SCCL "
        f"would use other chips than theirs, which are {list(right_map)}; give "
        "new_group() options with this map",
    )


def _different_maps(claims: Sequence[Claim]) -> Iterator[RunFinding]:
    holders = _grouped(claims, lambda claim: claim.chip_map)
    if len(holders) == 1:
        return
    # What the fewest hold comes first: it is they who are odd.
    maps = sorted(holders.items(), key=lambda item: len(item[1]))
    said = ", ".join(
        f"{rank_list(ranks)} {'holds' if len(ranks) == 1 else 'hold'} {list(chip_map)}"
        for chip_map, ranks in maps
    )
    odd = maps[0][1]
    yield RunFinding(
        severity="error",
        rank=odd[0] if len(odd) == 1 and len(claims) > 2 else None,  # noqa: PLR2004 - of two, either may be wrong
        message=f"the chip maps differ: {said}",
    )


def _chip_of(claims: Sequence[Claim], member: int) -> int | None:
    """Return the chip that a member uses, by the map or else by what it selected."""
    claim = claims[member]
    return claim.chip_map[member] if claim.chip_map else claim.chip


def _absent_chips(
    claims: Sequence[Claim], chips: Sequence[Sequence[int]]
) -> Iterator[RunFinding]:
    for member, claim in enumerate(claims):
        chip, there = _chip_of(claims, member), chips[claim.node]
        if chip is not None and chip not in there:
            yield RunFinding(
                severity="error",
                rank=claim.rank,
                message=f"rank {claim.rank} is to use chip {chip}, which node "
                f"{claim.node} does not have; it has {', '.join(map(str, there))}",
            )


def _shared_chips(claims: Sequence[Claim]) -> Iterator[RunFinding]:
    users: dict[tuple[int, int], list[int]] = {}
    for member, claim in enumerate(claims):
        chip = _chip_of(claims, member)
        if chip is not None:
            users.setdefault((claim.node, chip), []).append(claim.rank)
    for (node, chip), ranks in users.items():
        if len(ranks) > 1:
            yield RunFinding(
                severity="error",
                message=f"{rank_list(ranks)} are to use the same chip, {chip} of node "
                f"{node}",
            )


def _selected_chips(claims: Sequence[Claim]) -> Iterator[RunFinding]:
    for member, claim in enumerate(claims):
        chip = _chip_of(claims, member)
        if claim.chip not in (None, chip):
            yield RunFinding(
                severity="error",
                rank=claim.rank,
                message=f"rank {claim.rank} has selected chip {claim.chip}, but the "
                f"chip map gives it chip {chip}",
            )


def _broken_rings(
    claims: Sequence[Claim], chips: Sequence[Sequence[int]]
) -> Iterator[RunFinding]:
    """Yield a warning for each node whose chips are not in the order of a ring."""
    if not claims[0].chip_map:
        return
    by_node = _grouped(claims, lambda claim: claim.node)
    member_of = {claim.rank: member for member, claim in enumerate(claims)}
    for node, ranks in by_node.items():
        order = [claims[0].chip_map[member_of[rank]] for rank in ranks]
        if any(not 0 <= chip < SOPHGO_8.num_chips for chip in chips[node]):
            continue  # another box, of which nobody has published the links
        if broken := SOPHGO_8.broken_links(order):
            gaps = ", ".join(f"{a} and {b}" for a, b in broken)
            yield RunFinding(
                severity="warning",
                message=f"the chips {', '.join(map(str, order))} of node {node} are "
                f"not in the order of a ring, which SCCL needs: on the published box "
                f"there is no link between {gaps}",
            )


def _grouped(
    claims: Sequence[Claim], key: Callable[[Claim], _Key]
) -> dict[_Key, list[int]]:
    """Return the ranks of the claims that have the same key."""
    groups: dict[_Key, list[int]] = {}
    for claim in claims:
        groups.setdefault(key(claim), []).append(claim.rank)
    return groups
