"""RT201 to RT206 and RT118: ranks from 0 to world_size - 1, each once."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.declare import KeyRole
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import ON_LINE, Rule, Severity
from ranktable.schema.text import counted, folded, named_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.options import Options


class _Census(NamedTuple):
    """How often every rank occurs in a table.

    Attributes:
        first_use: The first device of every rank that is not negative.
        repeated: Devices whose rank an earlier device already has.
        negative: Devices with a negative rank.
        free: Ranks below the number of devices that no device has.
        offered: A free rank for each of those devices, as long as there are free ranks.
        lowest: The lowest rank, if the ranks have no gaps but do not begin at 0.
    """

    first_use: Mapping[int, int] = {}
    repeated: Sequence[int] = ()
    negative: Sequence[int] = ()
    free: Sequence[int] = ()
    offered: Mapping[int, int] = {}
    lowest: int | None = None


def _census(columns: Columns) -> _Census:
    """Return the census of a table, an empty one if every rank occurs once."""
    world_size = columns.num_devices
    if columns.once(is_permutation):
        return _Census()
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
    is_dense = (
        lowest > 0
        and len(first_use) == world_size
        and max(first_use) == lowest + world_size - 1
    )
    return _Census(
        first_use,
        repeated,
        negative,
        free,
        dict(zip(sorted(repeated + negative), free, strict=False)),
        lowest if is_dense else None,
    )


def is_permutation(columns: Columns) -> bool:
    """Whether the ranks are 0 .. world_size - 1 in any order, each once."""
    ranks = columns.ranks
    return columns.are_ranks_in_file_order() or (
        None not in ranks and sorted(ranks) == list(range(len(ranks)))  # type: ignore[type-var]
    )


def _hint(columns: Columns, index: int) -> str | None:
    offered = columns.once(_census).offered
    if index not in offered:
        return None
    chip, node = columns.device_ids[index], columns.node_of(index)[0]
    # A file has a device_id too: the index of a device is easily taken for it.
    is_known = chip is not None and columns.device_paths is None
    name = f"chip {chip} of node {node}" if is_known else columns.name(index)
    return f"give {name}{ON_LINE} rank {offered[index]}, which is free"


def _duplicates(columns: Columns, _: Options) -> Iterable[int]:
    return columns.once(_census).repeated


def _duplicate(columns: Columns, index: int) -> Finding:
    rank = columns.ranks[index]
    assert rank is not None
    first = columns.once(_census).first_use[rank]
    return DUPLICATE_RANK.finding(
        columns.rank_span(index),
        f'rank "{rank}" is assigned to {columns.name(first)} and to '
        f"{columns.name(index)}",
        hint=_hint(columns, index),
        related=(columns.rank_span(first, label="first use"),),
    )


def _negatives(columns: Columns, _: Options) -> Iterable[int]:
    return columns.once(_census).negative


def _negative(columns: Columns, index: int) -> Finding:
    return NEGATIVE_RANK.finding(
        columns.rank_span(index),
        f"rank {columns.ranks[index]} of {columns.name(index)} is negative",
        hint=_hint(columns, index),
    )


def _shifted(columns: Columns, _: Options) -> Iterable[int]:
    lowest = columns.once(_census).lowest
    return () if lowest is None or columns.has_unread else (lowest,)


def _shift(columns: Columns, lowest: int) -> Finding:
    return NOT_FROM_ZERO.finding(
        columns.rank_span(columns.once(_census).first_use[lowest]),
        f"the ranks run from {lowest} to {lowest + columns.num_devices - 1}, not from "
        "0",
        hint=f"subtract {lowest} from every rank",
    )


def _gaps(columns: Columns, _: Options) -> Iterable[range]:
    """Yield the missing ranks that no other finding explains, in runs.

    Source: the rank table description in SOPHGO's manual, field ``rank``, range
    [0, devices - 1].
    """
    census = columns.once(_census)
    if census.lowest is not None or columns.has_unread:
        return
    unreadable = columns.ranks.count(None) if census.free else 0
    if len(census.free) <= len(census.repeated) + len(census.negative) + unreadable:
        return
    start = 0
    for at, rank in enumerate(census.free, 1):
        if at == len(census.free) or census.free[at] != rank + 1:
            yield range(census.free[start], rank + 1)
            start = at


def _gap(columns: Columns, ranks: range) -> Finding:
    first_use, world_size = columns.once(_census).first_use, columns.num_devices
    beyond = sorted(rank for rank in first_use if rank >= world_size)
    place = first_use.get(min(filter(ranks[0].__lt__, first_use), default=-1))
    if place is None and first_use:
        place = first_use[max(first_use)]
    verb = "is" if len(ranks) == 1 else "are"
    return RANK_GAP.finding(
        columns.devices_span(0) if place is None else columns.rank_span(place),
        f"{named_ranks([*ranks])} {verb} missing: {counted(world_size, 'device')} need "
        f"the ranks 0 to {world_size - 1}",
        hint=_hint_of_gap(columns, ranks, beyond),
    )


def _hint_of_gap(columns: Columns, ranks: range, beyond: list[int]) -> str | None:
    if not beyond:
        return None
    if len(beyond) == len(columns.once(_census).free) == len(ranks) > 1:
        return (
            "nodes may have been removed here: add them again, or close the gap with "
            "ranktable fit"
        )
    return f"ranks beyond the end: {folded(beyond)}"


def _conflicts(columns: Columns, _: Options) -> Iterable[int]:
    return columns.conflicts


def _conflict(columns: Columns, index: int) -> Finding:
    spans = [
        span
        for key in columns.format.rank_keys
        if (span := columns.span(index, (key,))).path[-1] == key
    ]
    return CONFLICTING_RANKS.finding(
        spans[1],
        f"{columns.name(index)} has different values of "
        + " and ".join(str(span.path[-1]) for span in spans),
        hint="give them the same value",
        related=tuple(spans[:1]),
    )


def _wrong_local_ranks(columns: Columns, _: Options) -> Iterable[tuple[int, int]]:
    """Yield each device with a wrong local rank, and its place in its node."""
    found = columns.local_ranks
    if found.count(None) == len(found):
        return
    sizes = columns.sizes
    places = [*range(max(sizes))] * len(sizes)  # equal nodes, fast
    if len(set(sizes)) > 1:
        places = [*chain.from_iterable(map(range, sizes))]
    if found != places:
        for index, (local_rank, place) in enumerate(zip(found, places, strict=True)):
            if local_rank not in (None, place):
                yield index, place


def _wrong_local_rank(columns: Columns, wrong: tuple[int, int]) -> Finding:
    index, place = wrong
    return WRONG_LOCAL_RANK.finding(
        columns.span(index, columns.format.device_keys_of(KeyRole.LOCAL_RANK)),
        f"local_rank is {columns.local_ranks[index]}, but this is "
        f"{columns.name(index)}",
        hint=f"write {place}, or leave local_rank out",
    )


def _one_reader_only(
    columns: Columns, options: Options
) -> Iterable[tuple[tuple[str, ...], int]]:
    """Yield each set of keys that a reader needs, and the first device without it."""
    needed = options.reader.rank_key if options.reader else None
    if not options.may_use_sccl:
        return  # both readers of the vendor are SOPHGO's
    for lacking, index in columns.lacking.items():
        if needed is None or needed in lacking:
            yield lacking, index


def _one_reader(columns: Columns, place: tuple[tuple[str, ...], int]) -> Finding:
    lacking, index = place
    present = str(columns.rank_span(index).path[-1])
    return ONE_READER_ONLY.finding(
        SourceSpan(columns.device_path(index)),
        f"{columns.name(index)} has {present} but no {' and no '.join(lacking)}, "
        "which a reader of the vendor needs",
        hint="ranktable gen writes both",
    )


RANK_GAP = Rule(
    code="RT201",
    name="rank-gap",
    summary="a rank between 0 and world_size - 1 is missing",
    fix="Number the devices without a gap.",
    find=_gaps,
    tell=_gap,
)
DUPLICATE_RANK = Rule(
    code="RT202",
    name="duplicate-rank",
    summary="two devices have the same rank",
    fix="Give one of the two devices the rank that is free.",
    find=_duplicates,
    tell=_duplicate,
)
NEGATIVE_RANK = Rule(
    code="RT203",
    name="negative-rank",
    summary="a rank is negative",
    fix="Give the device the rank that is free.",
    find=_negatives,
    tell=_negative,
)
NOT_FROM_ZERO = Rule(
    code="RT204",
    name="ranks-not-from-zero",
    summary="the ranks are dense but do not begin at 0",
    fix="Subtract the smallest rank from every one.",
    find=_shifted,
    tell=_shift,
)
CONFLICTING_RANKS = Rule(
    code="RT205",
    name="conflicting-ranks",
    summary="rank and world_rank of one device differ",
    fix="Give both the same value.",
    find=_conflicts,
    tell=_conflict,
)
WRONG_LOCAL_RANK = Rule(
    code="RT206",
    name="wrong-local-rank",
    summary="a local_rank is not the device's place within its node",
    fix="Write the index of the device within its node, or leave local_rank out.",
    find=_wrong_local_ranks,
    tell=_wrong_local_rank,
)

ONE_READER_ONLY = Rule(
    code="RT118",
    name="one-reader-only",
    severity=Severity.NOTE,
    summary="devices have rank or world_rank, not both",
    fix="Write both, as ranktable gen and our tpu_gen_sccl_rank_table do.",
    find=_one_reader_only,
    tell=_one_reader,
)

EACH_RANK_ONCE = (RANK_GAP, DUPLICATE_RANK, NEGATIVE_RANK, NOT_FROM_ZERO)
"""The rules of a format with one key of the rank: 0 to world_size - 1, each once."""

RULES = (
    *EACH_RANK_ONCE,
    CONFLICTING_RANKS,
    WRONG_LOCAL_RANK,
    ONE_READER_ONLY,
)
