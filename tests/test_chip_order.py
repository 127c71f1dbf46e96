"""The order of a node's chips: rings for all of them, and for the groups inside."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from ranktable import check
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import grouped_ring_order, make_table
from ranktable.layout import (
    LayoutError,
    ParallelLayout,
    best_chip_order,
    ring_orders,
)
from ranktable.schema.topology import (
    SOPHGO_8,
    Budget,
    best_order,
    blocks,
    judge_order,
    linked,
)
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.conftest import Run

ALL = tuple(range(8))
DOCUMENTED = (0, 2, 6, 7, 3, 1, 5, 4)
TURNED = (2, 6, 7, 3, 1, 5, 4, 0)
PAIRS = [(rank, rank + 4) for rank in range(4)]


def hops(order: Sequence[int], groups: Sequence[Sequence[int]]) -> int:
    judged = judge_order(SOPHGO_8, order, groups)
    assert judged is not None
    return judged.hops


@pytest.mark.parametrize(
    ("order", "tp_4", "world", "tp_2", "dp"),
    [
        (DOCUMENTED, 12, 8, 8, 24),
        (TURNED, 8, 8, 8, 24),
        ((0, 1, 5, 4, 2, 3, 7, 6), 8, 10, 8, 16),
        (ALL, 16, 16, 8, 8),
    ],
)
def test_hops_around_the_groups_of_the_box_are_those_that_were_counted(
    order: tuple[int, ...], tp_4: int, world: int, tp_2: int, dp: int
) -> None:
    found = [hops(order, groups) for groups in (blocks(8, 4), [ALL], blocks(8, 2))]

    assert (*found, hops(order, PAIRS)) == (tp_4, world, tp_2, dp)


def test_128_of_all_orders_close_both_groups_of_four() -> None:
    closed = [o for o in permutations(ALL) if hops(o, blocks(8, 4)) == 8]

    assert len(closed) == 128


@pytest.mark.parametrize(
    ("tp", "order"), [(1, DOCUMENTED), (2, DOCUMENTED), (4, TURNED), (8, DOCUMENTED)]
)
def test_best_order_of_the_box_closes_the_groups(
    tp: int, order: tuple[int, ...]
) -> None:
    found = best_order(SOPHGO_8, ALL, blocks(8, tp))

    assert found is not None
    assert found.chips == order
    assert (found.is_ring, found.excess, found.is_proven) == (True, 0, True)


@pytest.mark.parametrize(
    ("chips", "tp"),
    [(ALL, 2), (ALL, 4), ((2, 3, 6, 7), 2), (range(6), 2), (range(6), 3)],
)
def test_no_order_that_is_a_ring_is_better_than_the_best(
    chips: Sequence[int], tp: int
) -> None:
    groups = blocks(len(chips), tp)
    found = best_order(SOPHGO_8, chips, groups)

    rings = [o for o in permutations(chips) if not SOPHGO_8.broken_links(o)]
    assert found is not None
    assert found.chips in rings
    assert found.hops == min(hops(order, groups) for order in rings)


def test_order_without_a_ring_has_the_fewest_hops_of_all() -> None:
    path = linked("path", 4, [(0, 1), (1, 2), (2, 3)])
    found = best_order(path, (0, 2, 1, 3), blocks(4, 2))

    assert found is not None
    assert (found.is_ring, found.hops, found.is_proven) == (False, 4, True)
    assert {frozenset(found.chips[:2]), frozenset(found.chips[2:])} == {
        frozenset({0, 1}), frozenset({2, 3}),
    }  # fmt: skip


def test_search_that_stops_early_says_so() -> None:
    ring = linked("ring", 64, [(chip, (chip + 1) % 64) for chip in range(64)])
    rails = [(chip, chip + 2) for chip in range(62)]
    ladder = linked("ladder", 64, [*((c, c + 1) for c in range(0, 64, 2)), *rails])
    around = [*range(0, 64, 2), *range(63, 0, -2)]

    proven = best_order(ring, range(64), blocks(64, 8))
    lucky = best_order(ladder, around, blocks(64, 16))
    lost = best_order(ladder, range(64), blocks(64, 16), Budget(200))

    assert proven is not None
    assert (proven.hops, proven.is_proven) == (8 * (7 + 7), True)
    assert lucky is not None
    assert (lucky.is_ring, lucky.is_proven) == (True, False)
    assert lost is not None
    assert (lost.chips, lost.is_proven) == (tuple(range(64)), False)


@pytest.mark.parametrize("chips", [(0, 1, 8), (0, -1)])
def test_chips_that_the_host_lacks_have_no_order(chips: tuple[int, ...]) -> None:
    assert best_order(SOPHGO_8, chips, blocks(len(chips), 1)) is None


def test_chips_without_a_way_between_them_have_no_order() -> None:
    apart = linked("apart", 4, [(0, 1), (2, 3)])

    assert best_order(apart, range(4), blocks(4, 2)) is None


def test_legal_rings_stand_for_their_turns() -> None:
    assert ring_orders(SOPHGO_8, ALL) == [DOCUMENTED]
    assert ring_orders(SOPHGO_8, (0, 1, 2)) == []


def test_order_for_a_layout_closes_its_groups() -> None:
    layout = ParallelLayout(tp=4, pp=2)
    tp, pp = (best_chip_order(SOPHGO_8, ALL, layout, axes=a) for a in ("tp", "pp"))

    assert tp is not None
    assert tp.chips == TURNED
    assert pp is not None
    assert pp.is_ring
    assert pp.hops == min(
        hops(o, PAIRS) for o in permutations(ALL) if not SOPHGO_8.broken_links(o)
    )


def test_groups_that_leave_the_node_are_refused() -> None:
    layout = ParallelLayout(tp=4, pp=2)

    with pytest.raises(LayoutError) as caught:
        best_chip_order(SOPHGO_8, (0, 1, 2, 3), layout, first_rank=2)

    assert str(caught.value) == (
        "group 0 of tp 4 leaves the node of 4 chips with ranks 2 to 5, so it can be no "
        "ring of its links"
    )


def test_gen_begins_the_ring_where_the_groups_close(run: Run) -> None:
    made = run(
        "ranktable", "gen", "--device-id", "[[0..7]]", "--ring", "sophgo-8",
        "--tp", "4", "-o", "-",
    )  # fmt: skip

    assert made.status == 0
    layout = "tp=4 dp=2 order=tp-cp-ep-dp-pp ep_style=megatron"
    table = make_table([TURNED])
    known = table.with_changes(extra={"layout": layout, "topology": "sophgo-8"})
    assert made.out.encode() == dumps(known)
    assert made.err == ""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--tp", "5"],
            (
                "tp 5 x cp 1 x pp 1 = 5 does not divide world_size 12, so dp cannot be "
                "inferred; nearest: tp=4, tp=6, world_size=10 or world_size=15"
            ),
        ),
        (
            ["--ring", "sophgo-8", "--tp", "4"],
            (
                "--ring sophgo-8 --tp 4: groups of 4 do not fill a node of 6 "
                "chips\nhelp: groups that do have 1, 2, 3, 6 ranks"
            ),
        ),
    ],
)
def test_gen_refuses_groups_that_it_cannot_make_rings_of(
    run: Run, options: list[str], text: str
) -> None:
    made = run("ranktable", "gen", "--device-id", "[[0..5],[0..5]]", *options)

    assert (made.status, made.err) == (2, f"ranktable: {text}\n")


def test_gen_says_when_the_search_was_given_up(run: Run, tmp_path: Path) -> None:
    rails = [(chip, chip + 2) for chip in range(62)]
    rungs = [(chip, chip + 1) for chip in range(0, 64, 2)]
    links = "".join(f"{a} {b}\n" for a, b in (*rails, *rungs))
    (tmp_path / "ladder.txt").write_text(links)
    around = ",".join(map(str, [*range(0, 64, 2), *range(63, 0, -2)]))

    made = run(
        "ranktable", "gen", "--device-id", f"[[{around}]]", "--ring", "ladder.txt",
        "--tp", "16", "-o", "-",
    )  # fmt: skip

    assert made.status == 0
    assert "round the groups of 16; a short search found none better\n" in made.err


def test_order_that_is_as_good_as_any_stays_as_it_is() -> None:
    given = (1, 5, 4, 0, 2, 6, 7, 3)

    assert grouped_ring_order(given, SOPHGO_8, 4).chips == given


def test_chips_without_a_ring_are_refused_with_groups_too() -> None:
    with pytest.raises(ArgumentError, match="the chips 0,1,2 do not form a ring"):
        grouped_ring_order((0, 1, 2), SOPHGO_8, 3)


def messages(chips: Sequence[Sequence[int]], **options: object) -> list[str]:
    report = check(dumps(make_table(chips)), **options)  # type: ignore[arg-type]
    return [d.message for d in report.diagnostics if d.code == "RT507"]


def test_open_groups_are_warned_of_on_the_published_box() -> None:
    assert messages([DOCUMENTED], tp=4) == [
        (
            "the chips 0,2,6,7,3,1,5,4 of node 0 take 12 hops around their tensor "
            "parallel groups of 4 on the published box, where another order takes 8"
        )
    ]
    assert messages([DOCUMENTED]) == []
    assert messages([TURNED], tp=4) == []
    assert messages([DOCUMENTED], tp=2) == []


def test_the_group_that_is_no_ring_is_the_one_that_is_pointed_at() -> None:
    ring = [(chip, (chip + 1) % 8) for chip in range(8)]
    box = linked("box", 8, [*ring, (0, 3), (2, 5), (6, 1)])
    report = check(dumps(make_table([range(8)])), tp=4, topology=box)
    (found,) = (one for one in report.diagnostics if one.code == "RT507")

    assert found.location.pointer == "/node_list/0/device_list/7/device_id"
    assert [one.pointer for one in found.related] == [
        "/node_list/0/device_list/4/device_id"
    ]


def test_nodes_that_are_alike_are_warned_of_once() -> None:
    found = messages([DOCUMENTED, TURNED, DOCUMENTED], tp=4, topology="sophgo-8")

    assert len(found) == 1


def test_order_that_is_no_ring_is_left_to_its_own_rule() -> None:
    report = check(dumps(make_table([ALL])), tp=4, topology="sophgo-8")

    assert list(report.totals) == ["RT501"]


@pytest.mark.parametrize(
    ("chips", "tp", "text"),
    [
        (
            [DOCUMENTED],
            16,
            ("the tensor parallel groups of 16 leave node 0, which has the ranks 0-7"),
        ),
        (
            [(0, 1), DOCUMENTED],
            4,
            ("the tensor parallel groups of 4 leave node 0, which has the ranks 0, 1"),
        ),
        (
            [TURNED, (0, 1)],
            4,
            ("the tensor parallel groups of 4 leave node 1, which has the ranks 8, 9"),
        ),
    ],
)
def test_groups_that_leave_a_node_are_warned_of(
    chips: list[tuple[int, ...]], tp: int, text: str
) -> None:
    assert messages(chips, tp=tp)[0] == text


def test_size_of_groups_that_is_none_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="tp must be at least 1"):
        check(b"{}", tp=0)
