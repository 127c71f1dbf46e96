"""Groups, coordinates and neighbours of a layout; sources in ranktable/layout."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from itertools import product
from typing import Any

import pytest

from ranktable.layout import PRESETS, LayoutError, Neighbours, ParallelLayout
from tests.effort import within_cpu

# World 16, tp 2, pp 4: the example in the documentation of Megatron's
# initialize_model_parallel.
MEGATRON_16 = {
    "dp": [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]],
    "tp": [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]],
    "pp": [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]],
}


@pytest.mark.parametrize("axis", MEGATRON_16)
def test_groups_are_those_of_megatrons_own_example(axis: str) -> None:
    layout = ParallelLayout(tp=2, pp=4, dp=-1, world_size=16)

    assert layout.groups(axis) == MEGATRON_16[axis]


def test_groups_along_cp_are_those_of_megatrons_own_example() -> None:
    assert ParallelLayout(tp=4, cp=2).groups("cp") == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize(
    ("peer", "pp", "dp"),
    [
        ("megatron", [0, 4], [0, 2]),
        ("deepspeed", [0, 4], [0, 2]),
        ("torchtitan", [0, 4], [0, 2]),
        ("scaletorch", [0, 2], [0, 4]),
        ("vllm", [0, 2], [0, 4]),
        ("jax", [0, 2], [0, 4]),
    ],
)
def test_preset_has_the_order_of_its_library(
    peer: str, pp: list[int], dp: list[int]
) -> None:
    layout = ParallelLayout.preset(peer, tp=2, dp=2, pp=2)

    assert [layout.groups(axis)[0] for axis in ("tp", "pp", "dp")] == [[0, 1], pp, dp]


def test_every_preset_is_the_one_that_its_name_says() -> None:
    assert tuple(PRESETS) == (
        "megatron", "deepspeed", "torchtitan", "scaletorch", "vllm", "jax",
    )  # fmt: skip


def test_groups_along_several_axes_count_with_the_faster_axis_fastest() -> None:
    layout = ParallelLayout(tp=2, cp=2, dp=2, pp=2)

    assert layout.groups("dp-cp")[:2] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert layout.groups("cp-dp") == layout.groups("dp-cp")
    assert layout.groups("tp-pp")[0] == [0, 1, 8, 9]
    assert layout.groups("tp-cp-dp-pp") == [list(range(16))]


def test_groups_of_another_order_are_found_by_hand() -> None:
    layout = ParallelLayout(tp=2, dp=2, pp=2, order="dp-pp-tp")

    assert layout.groups("tp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert layout.groups("tp-dp") == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_groups_are_a_sequence_that_makes_them_when_asked() -> None:
    groups = ParallelLayout(tp=2, cp=2, dp=2).along("dp-cp")

    assert (len(groups), groups.group_size) == (2, 4)
    assert (groups[1], groups[-1], groups[:1]) == (
        [1, 3, 5, 7], [1, 3, 5, 7], [[0, 2, 4, 6]],
    )  # fmt: skip
    assert (groups.of(5), groups.index_of(5), groups.place_of(5)) == (
        [1, 3, 5, 7],
        1,
        2,
    )
    with pytest.raises(IndexError):
        groups[2]
    for ask in (groups.of, groups.index_of, groups.place_of):
        with pytest.raises(IndexError, match="rank 8 is not among the 8 ranks"):
            ask(8)


def test_one_size_is_inferred() -> None:
    sizes = {"tp": 2, "cp": 2, "dp": 2}
    by_name = {
        name: ParallelLayout.preset("megatron", **{**sizes, name: -1}, world_size=24)
        for name in ("tp", "cp", "dp", "pp")
    }

    assert {name: layout.sizes[name] for name, layout in by_name.items()} == {
        "tp": 6, "cp": 6, "dp": 6, "pp": 3,
    }  # fmt: skip
    assert by_name["pp"] == ParallelLayout(tp=2, cp=2, dp=2, pp=3)


def test_world_size_is_the_product_where_it_is_not_given() -> None:
    assert ParallelLayout(tp=2, pp=3).world_size == 6
    assert ParallelLayout().groups("tp") == [[0]]


def test_order_may_leave_out_axes_of_size_1() -> None:
    assert ParallelLayout(tp=2, dp=2, order="dp-tp").groups("tp") == [[0, 2], [1, 3]]
    assert ParallelLayout(tp=2, order="tp").groups("pp") == [[0], [1]]


def test_layout_cannot_be_changed_and_takes_names_only() -> None:
    layout = ParallelLayout(tp=2)

    with pytest.raises(FrozenInstanceError):
        layout.tp = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        ParallelLayout(2)  # type: ignore[call-arg]
    assert len({layout, ParallelLayout(tp=2, world_size=2)}) == 1


def test_layout_can_be_copied_changed_and_sent_to_another_process() -> None:
    layout = ParallelLayout(tp=2, dp=4, ep=2)

    changed = replace(layout, order="dp-ep-tp")
    sent = pickle.loads(pickle.dumps(layout))  # noqa: S301 - made here

    assert changed.groups("dp")[0] == [0, 1, 2, 3]
    assert sent == layout
    assert sent.groups("ep") == layout.groups("ep")


def test_coordinates_count_over_every_axis() -> None:
    layout = ParallelLayout(tp=2, dp=2, pp=2)

    assert layout.coordinates(5) == {"tp": 1, "cp": 0, "dp": 0, "pp": 1}
    assert [layout.coordinates(rank)["dp"] for rank in range(8)] == [0, 0, 1, 1] * 2


def test_coordinates_name_where_the_experts_are() -> None:
    layout = ParallelLayout(tp=2, dp=8, ep=4, etp=1)

    assert layout.coordinates(13) == {
        "tp": 1, "cp": 0, "dp": 6, "pp": 0, "etp": 0, "ep": 1, "edp": 3,
    }  # fmt: skip


@pytest.mark.parametrize("rank", [-1, 8])
def test_rank_that_is_not_there_has_no_coordinates(rank: int) -> None:
    layout = ParallelLayout(tp=8)

    with pytest.raises(IndexError, match=f"rank {rank} is not among the 8 ranks"):
        layout.coordinates(rank)
    with pytest.raises(IndexError):
        layout.neighbours(rank, "tp")


def test_rank_is_found_by_either_grid() -> None:
    layout = ParallelLayout(tp=2, dp=8, ep=4, etp=1)

    assert layout.rank(tp=1, dp=6) == 13
    assert layout.rank(ep=1, edp=3) == 13
    assert layout.rank(tp=1, dp=6, ep=1, edp=3, pp=0) == 13


@pytest.mark.parametrize(
    ("coordinates", "text"),
    [
        ({"tp": 1}, "say nothing about dp"),
        ({"tp": 2, "dp": 0}, "tp 2 is not among 0 to 1"),
        ({"tp": 0, "dp": -1}, "dp -1 is not among 0 to 7"),
        ({"tp": 1, "dp": 6, "ep": 2}, "ep 2 contradicts .* rank 13, whose ep is 1"),
        ({"tp": 1, "dq": 6}, "no axis 'dq'.*did you mean dp"),
    ],
)
def test_coordinates_of_no_rank_are_refused(
    coordinates: dict[str, int], text: str
) -> None:
    layout = ParallelLayout(tp=2, dp=8, ep=4, etp=1)

    with pytest.raises(LayoutError, match=text):
        layout.rank(**coordinates)


def test_stages_are_a_chain_and_other_axes_a_ring() -> None:
    layout = ParallelLayout(tp=2, cp=3, pp=3)

    assert [layout.neighbours(rank, "pp") for rank in (0, 6, 12)] == [
        (None, 6), (0, 12), (6, None),
    ]  # fmt: skip
    assert layout.neighbours(0, "cp") == Neighbours(previous=4, next=2)
    assert layout.neighbours(12, "pp", is_ring=True) == Neighbours(6, 0)
    assert layout.neighbours(4, "cp", is_ring=False) == Neighbours(2, None)
    assert layout.neighbours(4, "dp") == Neighbours(None, None)
    assert layout.neighbours(2, "tp-cp").next == 3


def test_mesh_shape_has_the_slowest_axis_first() -> None:
    layout = ParallelLayout.preset("torchtitan", tp=2, dp=8, pp=2, dp_replicate=4)

    assert list(layout.mesh_shape.items()) == [
        ("pp", 2), ("dp_replicate", 4), ("dp_shard", 2), ("cp", 1), ("tp", 2),
    ]  # fmt: skip


def test_copies_within_dp_are_axes_of_their_own() -> None:
    layout = ParallelLayout.preset("torchtitan", tp=2, dp=4, cp=2, dp_replicate=2)

    assert layout.groups("dp")[0] == [0, 4, 8, 12]
    assert layout.groups("dp_shard-cp")[0] == [0, 2, 4, 6]  # torchtitan's fsdp
    assert layout.groups("dp_replicate")[0] == [0, 8]
    assert layout.coordinates(12) == {
        "tp": 0, "cp": 0, "dp": 3, "dp_shard": 1, "dp_replicate": 1, "pp": 0,
    }  # fmt: skip
    assert layout.rank(dp_shard=1, dp_replicate=1, tp=0, cp=0) == 12
    assert layout.rank(dp=3, dp_shard=1, tp=0, cp=0) == 12


def test_all_groups_of_131072_ranks_are_made() -> None:
    layout = ParallelLayout(tp=8, cp=4, pp=16, ep=8, etp=1, dp=-1, world_size=131_072)

    def look_at_all() -> None:
        for axis in layout.kinds:
            ranks = [rank for group in layout.groups(axis) for rank in group]
            assert sorted(ranks) == list(range(131_072))
        assert layout.rank(**layout.coordinates(131_071)) == 131_071

    within_cpu(10, look_at_all)


def test_axes_of_different_grids_are_not_mixed() -> None:
    layout = ParallelLayout(tp=2, dp=8, ep=4)

    assert layout.groups("etp-ep")[0] == list(range(8))
    with pytest.raises(LayoutError, match="tp-ep lie in different grids; tp, cp, dp"):
        layout.groups("tp-ep")


def test_every_coordinate_is_that_of_one_rank() -> None:
    layout = ParallelLayout(tp=2, cp=3, dp=2, pp=2, order="cp-pp-tp-dp")
    points = product(range(2), range(3), range(2), range(2))

    ranks = [layout.rank(tp=t, cp=c, dp=d, pp=p) for t, c, d, p in points]

    assert sorted(ranks) == list(range(24))


@pytest.mark.parametrize("order", ["tp-cp-ep-dp-pp", "pp-dp-tp-cp-ep"])
def test_what_is_looked_up_at_once_is_what_every_rank_has(order: str) -> None:
    layout = ParallelLayout(tp=2, cp=3, dp=4, pp=2, ep=2, etp=1, order=order)
    ranks = range(layout.world_size)

    for axis in (*layout.axes, "dp-cp"):
        groups = layout.along(axis)
        assert groups.places() == [groups.place_of(rank) for rank in ranks]
        assert layout.all_neighbours(axis) == [
            layout.neighbours(rank, axis) for rank in ranks
        ]


@pytest.mark.parametrize("rank", [1.0, True, "1", None])
def test_a_rank_and_a_coordinate_are_integers(rank: Any) -> None:
    layout = ParallelLayout(tp=2, dp=2)

    for ask in (
        layout.coordinates,
        lambda one: layout.neighbours(one, "tp"),
        lambda one: layout.rank(tp=one, dp=0),
        layout.along("tp").of,
        layout.along("tp").index_of,
    ):
        with pytest.raises(TypeError, match="which is not an integer"):
            ask(rank)
