"""Every kind of group that Megatron makes; its counts were measured with its code."""

from __future__ import annotations

import pytest

from ranktable.layout import LayoutError, ParallelLayout, megatron_groups

LARGE = ParallelLayout(tp=8, cp=4, pp=16, ep=8, etp=1, dp=-1, world_size=4096)


def test_large_layout_has_as_many_groups_as_megatron_makes() -> None:
    found = megatron_groups(LARGE)
    groups = [ranks for lists in found.values() for ranks in lists]
    shared = [ranks for ranks in groups if len(ranks) > 1]

    assert len(found) == 17
    assert (len(groups), len(shared)) == (8_465, 4_113)
    assert len({frozenset(ranks) for ranks in shared}) == 2_929


def test_node_of_eight_is_in_as_many_groups_as_was_measured() -> None:
    node = set(range(8))
    groups = [ranks for lists in megatron_groups(LARGE).values() for ranks in lists]
    touched = [ranks for ranks in groups if node.intersection(ranks)]
    shared = [ranks for ranks in touched if len(ranks) > 1]

    assert (len(touched), len(shared)) == (73, 57)
    assert len({frozenset(ranks) for ranks in shared}) == 46
    smaller = [ranks for ranks in touched if len(ranks) < 4096]
    assert len(set().union(*smaller)) == 376


def test_kinds_come_in_the_order_in_which_megatron_makes_them() -> None:
    assert list(megatron_groups(ParallelLayout(tp=2, dp=2))) == [
        "dp-cp", "dp", "cp", "tp-pp", "tp", "pp", "embedding", "position-embedding",
        "tp-dp-cp", "tp-dp", "tp-cp", "ep", "etp", "etp-ep", "etp-ep-pp", "edp",
        "optimizer-instance",
    ]  # fmt: skip


def test_embedding_is_on_the_first_and_the_last_stage() -> None:
    found = megatron_groups(ParallelLayout(tp=2, pp=4))
    single = megatron_groups(ParallelLayout(tp=2))

    assert found["embedding"] == [[0, 6], [1, 7]]
    assert found["position-embedding"] == [[0], [1]]
    assert single["embedding"] == [[0], [1]]


def test_levels_of_cp_are_those_of_megatrons_own_example() -> None:
    # The documentation of create_hierarchical_groups: 16 ranks, sizes 2, 2, 4.
    found = megatron_groups(ParallelLayout(cp=16), hierarchical_cp=[2, 2, 4])

    assert found["cp-level-0"][:2] == [[0, 1], [2, 3]]
    assert found["cp-level-1"][:4] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert found["cp-level-2"] == [
        [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
    ]  # fmt: skip


def test_levels_of_cp_are_made_for_every_group() -> None:
    found = megatron_groups(ParallelLayout(tp=2, cp=4), hierarchical_cp=[2, 2])

    assert found["cp-level-0"] == [[0, 2], [4, 6], [1, 3], [5, 7]]
    assert found["cp-level-1"] == [[0, 4], [2, 6], [1, 5], [3, 7]]


def test_hybrid_cp_has_slices_for_every_power_of_two_below_the_size() -> None:
    found = megatron_groups(ParallelLayout(tp=2, cp=2, dp=4), hybrid_cp=True)

    assert found["dp-cp-2"][:4] == [[0, 2], [4, 6], [8, 10], [12, 14]]
    assert found["dp-cp-4"][:2] == [[0, 2, 4, 6], [8, 10, 12, 14]]
    assert "dp-cp-8" not in found


def test_hybrid_cp_of_three_times_a_power_of_two_comes_out_even_too() -> None:
    found = megatron_groups(ParallelLayout(cp=4, dp=6), hybrid_cp=True)

    widths = [name for name in found if name.startswith("dp-cp-")]
    assert widths == ["dp-cp-2", "dp-cp-4", "dp-cp-8"]
    assert found["dp-cp-8"] == [list(range(at, at + 8)) for at in (0, 8, 16)]


@pytest.mark.parametrize(
    ("cp", "dp", "nearest"), [(2, 5, "8 or 12"), (1, 1, "2"), (3, 1, "2 or 4"),
                              (2, 10, "16 or 24")]
)  # fmt: skip
def test_hybrid_cp_that_megatron_cuts_short_is_refused(
    cp: int, dp: int, nearest: str
) -> None:
    text = f"hybrid cp cuts cp {cp} x dp {dp} = {cp * dp} into .* nearest: {nearest}$"

    with pytest.raises(LayoutError, match=text):
        megatron_groups(ParallelLayout(cp=cp, dp=dp), hybrid_cp=True)


def test_instances_of_the_optimizer_are_slices_and_what_joins_them() -> None:
    layout = ParallelLayout(tp=2, dp=4, pp=2)

    found = megatron_groups(layout, optimizer_instances=2)

    assert found["dp-cp-intra"][:2] == [[0, 2], [4, 6]]
    assert "dp-cp-inter" not in found  # Megatron joins them along edp alone
    assert found["edp-intra"] == found["dp-cp-intra"]
    assert found["edp-inter"][:2] == [[0, 4], [2, 6]]
    # Model by model, so that the second stage of the first comes before the second.
    assert found["optimizer-instance"] == [
        [0, 1, 8, 9, 2, 3, 10, 11], [4, 5, 12, 13, 6, 7, 14, 15],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "text"),
    [
        # Megatron: an AssertionError without a text.
        (
            {"hierarchical_cp": [2, 4]},
            (
                "the levels of cp are level 0 2 x level 1 4 = 8, and cp is 4; nearest: "
                "2 x 2"
            ),
        ),
        ({"hierarchical_cp": [3, 2]}, "nearest: 4$"),
        ({"hierarchical_cp": [0, 2]}, "nearest: 4$"),
        (
            {"optimizer_instances": 5},
            (
                "5 instances of the optimizer do not divide the 24 ranks of a dp-cp "
                "group; nearest: 4 or 6"
            ),
        ),
        ({"optimizer_instances": 0}, "nearest: 1$"),
    ],
)
def test_extra_groups_that_cannot_be_are_refused(
    options: dict[str, object], text: str
) -> None:
    with pytest.raises(LayoutError, match=text):
        megatron_groups(ParallelLayout(cp=4, dp=6), **options)  # type: ignore[arg-type]


def test_groups_of_another_style_are_not_megatrons() -> None:
    with pytest.raises(LayoutError, match="ep_style vllm has other groups"):
        megatron_groups(ParallelLayout.preset("vllm", tp=2))


@pytest.mark.parametrize(
    ("layout", "is_refused"),
    [
        (ParallelLayout(tp=2, cp=2, pp=2, order="tp-pp-cp-dp"), True),
        (ParallelLayout(tp=2, cp=2, pp=2, dp=2, ep=4, order="tp-pp-cp-dp-ep"), True),
        (ParallelLayout(tp=2, cp=2, pp=2, order="tp-cp-dp-pp"), False),
        (ParallelLayout(tp=2, pp=2, dp=2, order="tp-pp-dp"), False),
        (ParallelLayout(tp=2, cp=2, dp=2, order="tp-pp-cp-dp"), False),
        (ParallelLayout.preset("vllm", tp=2, cp=2, pp=2), False),
    ],
)
def test_order_that_megatron_refuses_is_told(
    layout: ParallelLayout, *, is_refused: bool
) -> None:
    refusal = layout.refusal

    assert (refusal is not None) == is_refused
    if refusal is not None:
        assert "Megatron refuses the order tp-pp-cp-dp" in refusal
        with pytest.warns(UserWarning, match="Megatron refuses"):
            megatron_groups(layout)
