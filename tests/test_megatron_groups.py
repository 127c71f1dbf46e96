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
