"""Groups on a rank table, and the worked example of 64 ranks on 8 nodes in 2 racks."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.layout import (
    Communicator,
    LayoutError,
    ParallelLayout,
    communicators,
    megatron_groups,
)
from ranktable.schema.model import Device, Node, RankTable
from tests.effort import within_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BOX = make_table([[2, 6, 7, 3, 1, 5, 4, 0]])


def test_communicator_says_who_and_where_it_is() -> None:
    table = make_table([[4, 5], [6, 7]], hosts=["a", "b"])
    layout = ParallelLayout(tp=2, pp=2)

    one = communicators(table, layout)["pp/1"]

    assert (one.name, one.kind, one.index) == ("pp/1", "pp", 1)
    assert (one.ranks, list(one.group_ranks)) == ((1, 3), [0, 1])
    assert one.coordinates == {"tp": 1, "cp": 0, "dp": 0}
    assert (one.node_ranks, one.nodes, one.chip_map) == ((0, 1), (0, 1), [5, 7])


def test_sub_group_has_a_chip_map_of_its_own() -> None:
    found = communicators(BOX, ParallelLayout(tp=4, dp=2))

    # The map of the world, begun at its start, would give tp/1 the chips of tp/0.
    assert [one.chip_map for one in found.of_kind("tp")] == [[2, 6, 7, 3], [1, 5, 4, 0]]


def test_every_axis_of_more_than_one_rank_has_communicators() -> None:
    found = communicators(BOX, ParallelLayout(tp=2, dp=4, ep=4, etp=1))

    assert found.kinds == ("tp", "dp", "ep", "edp")
    assert len(found) == len(list(found)) == 4 + 2 + 2 + 4
    assert [one.name for one in found.of_rank(5)] == ["tp/2", "dp/1", "ep/1", "edp/1"]


def test_groups_can_be_chosen_or_given() -> None:
    layout = ParallelLayout(tp=2, cp=2, dp=2)
    chosen = communicators(BOX, layout, ["dp-cp"])
    given = communicators(BOX, layout, megatron_groups(layout))

    single = communicators(BOX, layout, "dp-cp")

    assert [one.ranks for one in chosen] == [(0, 2, 4, 6), (1, 3, 5, 7)]
    assert list(single) == list(chosen)
    assert len(given.kinds) == 17
    assert given["position-embedding/3"].coordinates == {
        "tp": 1, "cp": 1, "dp": 0, "pp": 0,
    }  # fmt: skip
    assert [one.name for one in given.of_rank(7) if one.kind == "dp-cp"] == ["dp-cp/1"]


def test_rank_need_not_be_in_every_kind_of_group() -> None:
    layout = ParallelLayout(pp=8)
    found = communicators(BOX, layout, megatron_groups(layout))

    kinds = {one.kind for one in found.of_rank(3)}
    assert not kinds & {"embedding", "position-embedding"}


@pytest.mark.parametrize("name", ["tp/2", "tp/x", "xp/0", "tp", "tp/-1", ""])
def test_communicator_that_is_not_there_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        communicators(BOX, ParallelLayout(tp=4, dp=2))[name]


def test_rank_that_is_not_there_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="rank 8 is not among the 8 ranks"):
        communicators(BOX, ParallelLayout(tp=4, dp=2)).of_rank(8)


def test_layout_of_another_size_is_refused() -> None:
    with pytest.raises(LayoutError) as caught:
        communicators(BOX, ParallelLayout(tp=4, dp=4))

    assert str(caught.value) == (
        "the layout is pp 1 x dp 4 x cp 1 x tp 4 = 16, and the table has 8 ranks on 1 "
        "node; pass world_size=8 and -1 as one of the sizes to make a layout that fits"
    )


def test_hundred_thousand_ranks_cost_only_what_is_asked_for() -> None:
    table = make_table([range(8)] * 12_500)
    found = communicators(table, ParallelLayout(tp=8, pp=4, dp=3_125))

    within_cpu(2, lambda: found.of_rank(99_999))
    mine = found.of_rank(99_999)

    assert [one.name for one in mine] == ["tp/12499", "dp/31", "pp/24999"]
    assert mine[0].chip_map == list(range(8))
    assert mine[2].nodes == (3_124, 6_249, 9_374, 12_499)


# The worked example: tp 4, dp 4, pp 4. GiB a step over a boundary, of a group on k
# domains: tp (k - 1) * 32, dp (k - 1) * (1.5 + 0.75), pp 0.25 a stage that is left.
WEIGHTS = {"tp": Fraction(32), "dp": Fraction(9, 4), "pp": Fraction(1, 4)}
RANKS, NODE = 64, 8
INTERLEAVED = (0, 4, 1, 5, 2, 6, 3, 7)


def placed(slots: Sequence[int]) -> RankTable:
    """Return eight nodes of eight chips, on which a rank has slot node * 8 + chip."""
    nodes = [
        Node(
            devices=tuple(
                Device(rank=rank, device_id=slots[rank] % NODE)
                for rank in range(RANKS)
                if slots[rank] // NODE == node
            )
        )
        for node in range(NODE)
    ]
    return RankTable(nodes=tuple(nodes))


def shuffled() -> list[int]:
    slots = list(range(RANKS))
    random.Random(0).shuffle(slots)  # noqa: S311 - the example says seed 0
    return slots


IN_ORDER = list(range(RANKS))
CYCLIC = [rank % NODE * NODE + rank // NODE for rank in range(RANKS)]
MIXED_RACKS = [INTERLEAVED[rank // NODE] * NODE + rank % NODE for rank in range(RANKS)]


def domains(one: Communicator, domain_of: Callable[[int], int]) -> list[int]:
    return [domain_of(node) for node in one.node_ranks]


def crossing(one: Communicator, domain_of: Callable[[int], int]) -> Fraction:
    """Return the GiB that a group sends over a boundary, as few as can be."""
    places = domains(one, domain_of)
    if one.kind == "pp":
        return WEIGHTS["pp"] * sum(a != b for a, b in pairwise(places))
    return WEIGHTS[one.kind] * (len(set(places)) - 1)


def crossing_flat(one: Communicator) -> Fraction:
    """Return the GiB that a group sends between nodes by a flat ring."""
    places = list(one.node_ranks)
    if one.kind == "pp":
        return WEIGHTS["pp"] * sum(a != b for a, b in pairwise(places))
    edges = sum(a != b for a, b in zip(places, places[1:] + places[:1], strict=True))
    return WEIGHTS[one.kind] * edges * (len(places) - 1) / len(places)


@pytest.mark.parametrize(
    ("order", "slots", "row"),
    [
        ("tp-dp-pp", IN_ORDER, ((0, 36, 12), 48, 66, 4, (1, 2, 4))),
        ("tp-pp-dp", IN_ORDER, ((0, 108, 4), 112, 112, 36, (1, 4, 2))),
        ("dp-tp-pp", IN_ORDER, ((512, 0, 12), 524, 780, 4, (2, 1, 4))),
        ("pp-dp-tp", IN_ORDER, ((1536, 36, 0), 1572, 1590, 512, (4, 2, 1))),
        ("tp-dp-pp", CYCLIC, ((1536, 36, 0), 1572, 1644, 36, (4, 2, 1))),
        ("tp-dp-pp", MIXED_RACKS, ((0, 36, 12), 48, 66, 36, (1, 2, 4))),
        (
            "tp-dp-pp",
            shuffled(),
            ((1216, 74.25, 11), 1301.25, 1478.5625, 546.75, (4, 4, 4)),
        ),
    ],
    ids=["default", "scaletorch", "dp first", "pp first", "cyclic", "racks", "random"],
)  # fmt: skip
def test_worked_example_comes_out_digit_by_digit(
    order: str, slots: Sequence[int], row: tuple[object, ...]
) -> None:
    """A row: GiB between nodes by axis, all, by flat rings; between racks; spread."""
    layout = ParallelLayout(tp=4, dp=4, pp=4, order=order)
    found = communicators(placed(slots), layout)
    kinds = [list(found.of_kind(axis)) for axis in ("tp", "dp", "pp")]

    between_nodes = [sum(crossing(one, int) for one in groups) for groups in kinds]
    assert row == (
        tuple(between_nodes),
        sum(between_nodes),
        sum(map(crossing_flat, found)),
        sum(crossing(one, lambda node: node // 4) for one in found),
        tuple(max(len(one.nodes) for one in groups) for groups in kinds),
    )


def test_suggested_print_of_the_example_is_right_about_its_groups() -> None:
    found = communicators(placed(IN_ORDER), ParallelLayout(tp=4, dp=4, pp=4))

    inside = {
        kind: [sum(len(c.nodes) == 1 for c in groups),
               sum(len({n // 4 for n in c.nodes}) == 1 for c in groups)]
        for kind in found.kinds
        for groups in [list(found.of_kind(kind))]
    }  # fmt: skip
    assert inside == {"tp": [16, 16], "dp": [0, 16], "pp": [0, 0]}


@pytest.mark.parametrize(("per_node", "gib"), [(8, 2.0), (4, 3.0), (1, 3.75)])
def test_all_to_all_of_the_example_crosses_what_it_says(
    per_node: int, gib: float
) -> None:
    table = make_table([range(per_node)] * (16 // per_node))
    one = communicators(table, ParallelLayout(dp=16, ep=16))["ep/0"]

    members = [one.node_ranks.count(node) for node in one.nodes]
    sent = Fraction(1, 4) / 16 * (16**2 - sum(count**2 for count in members))
    assert sent == gib
