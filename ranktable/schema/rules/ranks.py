"""RT201 to RT206: every rank from 0 to world_size - 1, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.messages import counted, folded
from ranktable.schema.rules.rule import PAIR, Rule, device, nodes, one_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding

RANK_GAP = Rule(
    code="RT201",
    name="rank-gap",
    summary="a rank between 0 and world_size - 1 is missing",
    why=(
        "The manual gives the range of rank as 0 to the number of devices - 1. The "
        "process with the missing rank finds no chip; the one beyond the end never "
        "exists, and everybody waits for it."
    ),
    fix="Number the devices without a gap.",
    readers={
        "torch_tpu": "returns [] to the process with the missing rank",
        "SCCL": "answers chip -1 for it, silently",
    },
    seen_as=("EI0014",),
    bad=one_node(device(0, 0), device(1, 2)),
    good=PAIR,
)
DUPLICATE_RANK = Rule(
    code="RT202",
    name="duplicate-rank",
    summary="two devices have the same rank",
    why=(
        "Two processes claim one rank, and another rank is nobody's: the group waits "
        "for it until the time-out, 30 minutes by default, and names nobody."
    ),
    fix="Give one of the two the rank that is free.",
    readers={
        "torch_tpu": "takes the last node that has it; the rank that nobody has gets "
        "[] and an IndexError",
        "SCCL": "takes the first device that has it; the rank that nobody has gets "
        "chip -1, silently",
    },
    seen_as=("EI0014", "EI0004", "rank_id is repeat", "wait timeout"),
    bad=one_node(device(0, 0), device(1, 0)),
    good=PAIR,
)
NEGATIVE_RANK = Rule(
    code="RT203",
    name="negative-rank",
    summary="a rank is negative",
    why="Ranks count from 0.",
    fix="Give the device the rank that is free.",
    readers={
        "torch_tpu": "no process has it; its chip is never used",
        "SCCL": "the same",
    },
    bad=one_node(device(0, 0), device(1, -1)),
    good=PAIR,
)
NOT_FROM_ZERO = Rule(
    code="RT204",
    name="ranks-not-from-zero",
    summary="the ranks are dense but do not begin at 0",
    why="Launchers number processes from 0, so rank 0 finds no chip.",
    fix="Subtract the smallest rank from every one.",
    readers={
        "torch_tpu": "returns [] to rank 0",
        "SCCL": "answers chip -1 for rank 0, silently",
    },
    seen_as=("EI0014",),
    bad=one_node(device(0, 1), device(1, 2)),
    good=PAIR,
)
CONFLICTING_RANKS = Rule(
    code="RT205",
    name="conflicting-ranks",
    summary="rank and world_rank of one device differ",
    why=(
        "SCCL's C++ reader takes rank, torch_tpu's Python reader takes world_rank: "
        "the process would select one chip and communicate with another."
    ),
    fix="Give both the same value.",
    readers={"torch_tpu": "takes world_rank", "SCCL": "takes rank"},
    bad=one_node(
        '{"device_id":"0","rank":"0","world_rank":"0"}',
        '{"device_id":"1","rank":"1","world_rank":"2"}',
    ),
    good=one_node(
        '{"device_id":"0","rank":"0","world_rank":"0"}',
        '{"device_id":"1","rank":"1","world_rank":"1"}',
    ),
)
WRONG_LOCAL_RANK = Rule(
    code="RT206",
    name="wrong-local-rank",
    summary="a local_rank is not the device's place within its node",
    why=(
        "The generator counts local_rank from 0 within each node, in the order of "
        "the devices. No reader of the vendor uses it, so a wrong one goes unnoticed "
        "until a script trusts it."
    ),
    fix="Write the place of the device within its node, or leave local_rank out.",
    readers={"torch_tpu": "does not look at it", "SCCL": "does not look at it"},
    bad=nodes(
        (
            '{"device_id":"0","local_rank":"0","rank":"0"}',
            '{"device_id":"1","local_rank":"0","rank":"1"}',
        )
    ),
    good=nodes(
        (
            '{"device_id":"0","local_rank":"0","rank":"0"}',
            '{"device_id":"1","local_rank":"1","rank":"1"}',
        )
    ),
)

RULES = (
    RANK_GAP,
    DUPLICATE_RANK,
    NEGATIVE_RANK,
    NOT_FROM_ZERO,
    CONFLICTING_RANKS,
    WRONG_LOCAL_RANK,
)


def check_ranks(columns: Columns) -> Iterator[Finding]:
    """Yield what keeps the ranks from being 0 .. world_size - 1, each once.

    Source: the rank table description in SOPHGO's manual, field ``rank``, range
    [0, devices - 1].
    """
    ranks, world_size = columns.ranks, columns.num_devices
    if ranks != list(range(world_size)) and not is_permutation(ranks):
        yield from _unsound_ranks(columns)
    yield from _conflicts(columns)


def is_permutation(ranks: list[int | None]) -> bool:
    """Whether these are the ranks 0 .. world_size - 1, each once, in any order."""
    return None not in ranks and sorted(ranks) == list(range(len(ranks)))  # type: ignore[type-var]


def _unsound_ranks(columns: Columns) -> Iterator[Finding]:
    world_size = columns.num_devices
    first_use: dict[int, int] = {}
    repeated: list[int] = []
    negative: list[int] = []
    for index, rank in enumerate(columns.ranks):
        if rank is None:
            continue
        if rank < 0:
            negative.append(index)
        elif rank in first_use:
            repeated.append(index)
        else:
            first_use[rank] = index
    free = [rank for rank in range(world_size) if rank not in first_use]
    lowest = min(first_use, default=0)
    if not (repeated or negative) and _is_dense(first_use, world_size, lowest):
        yield NOT_FROM_ZERO.finding(
            columns.rank_spot(first_use[lowest]),
            f"the ranks run from {lowest} to {lowest + world_size - 1}, not from 0",
            hint=f"subtract {lowest} from every rank",
        )
        return
    yield from _misused(columns, sorted(repeated + negative), first_use, free)
    unreadable = columns.ranks.count(None)
    if len(free) > len(repeated) + len(negative) + unreadable:
        yield from _gaps(columns, free, first_use)


def _misused(
    columns: Columns, indices: list[int], first_use: dict[int, int], free: list[int]
) -> Iterator[Finding]:
    """Yield the devices whose rank is taken or negative."""
    spare = iter(free)
    for index in indices:
        take = next(spare, None)
        is_repeated = columns.ranks[index] in first_use
        if columns.quota.is_spent(DUPLICATE_RANK if is_repeated else NEGATIVE_RANK):
            continue
        hint = None
        if take is not None:
            hint = f"give {columns.name(index)} rank {take}, which is free"
        if is_repeated:
            yield _duplicate(columns, index, first_use, hint)
        else:
            yield _negative(columns, index, hint)


def _is_dense(first_use: dict[int, int], world_size: int, lowest: int) -> bool:
    return (
        lowest > 0
        and len(first_use) == world_size
        and max(first_use) == lowest + world_size - 1
    )


def _duplicate(
    columns: Columns, index: int, first_use: dict[int, int], hint: str | None
) -> Finding:
    rank = columns.ranks[index]
    assert rank is not None  # noqa: S101 - only readable ranks are compared
    first = first_use[rank]
    return DUPLICATE_RANK.finding(
        columns.rank_spot(index),
        f'rank "{rank}" is assigned to {columns.name(first)} and to '
        f"{columns.name(index)}",
        hint=hint,
        related=(columns.rank_spot(first, label="first use"),),
    )


def _negative(columns: Columns, index: int, hint: str | None) -> Finding:
    return NEGATIVE_RANK.finding(
        columns.rank_spot(index),
        f"rank {columns.ranks[index]} of {columns.name(index)} is negative",
        hint=hint,
    )


def _gaps(
    columns: Columns, free: list[int], first_use: dict[int, int]
) -> Iterator[Finding]:
    world_size = columns.num_devices
    beyond = sorted(rank for rank in first_use if rank >= world_size)
    places = sorted((rank, index) for rank, index in first_use.items())
    hint = f"beyond the end are: {folded(beyond)}" if beyond else None
    at = 0
    for rank in free:
        if columns.quota.is_spent(RANK_GAP):
            continue
        while at < len(places) - 1 and places[at][0] < rank:
            at += 1
        yield RANK_GAP.finding(
            columns.rank_spot(places[at][1]) if places else columns.devices_spot(0),
            f"rank {rank} is missing: {counted(world_size, 'device')} need the ranks "
            f"0 to {world_size - 1}",
            hint=hint,
        )


def _conflicts(columns: Columns) -> Iterator[Finding]:
    for index in columns.conflicts:
        if columns.quota.is_spent(CONFLICTING_RANKS):
            continue
        spots = [
            spot
            for key in columns.format.rank_keys
            if (spot := columns.span(index, (key,))).path[-1] == key
        ]
        yield CONFLICTING_RANKS.finding(
            spots[1],
            f"{columns.name(index)} has different values of "
            + " and ".join(str(spot.path[-1]) for spot in spots),
            hint="give them the same value",
            related=tuple(spots[:1]),
        )


def check_local_ranks(columns: Columns) -> Iterator[Finding]:
    """Yield RT206 for each local_rank that is not its place within the node."""
    local_ranks = columns.local_ranks
    if local_ranks.count(None) == len(local_ranks):
        return
    for node, start, end in columns.nodes():
        found = local_ranks[start:end]
        if found == list(range(end - start)):
            continue
        for place, local_rank in enumerate(found):
            if local_rank in (None, place) or columns.quota.is_spent(WRONG_LOCAL_RANK):
                continue
            yield WRONG_LOCAL_RANK.finding(
                columns.span(start + place, ("local_rank",)),
                f"local_rank is {local_rank}, but this is device {place} of node "
                f"{node}",
                hint=f"write {place}, or leave local_rank out",
            )
