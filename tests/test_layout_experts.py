"""Five meanings of ep: the groups of each, for the sizes where they can be compared."""

from __future__ import annotations

import pytest

from ranktable.layout import ParallelLayout
from ranktable.layout.parallel import roles

# World 16, tp 2, ep 4, pp 1: the first group of each style, and its next of kin.
FIRST_GROUPS = {
    "megatron, etp 1": ({"etp": 1}, [0, 1, 2, 3], [0, 4, 8, 12]),
    "megatron, etp 2": ({"etp": 2}, [0, 2, 4, 6], [0, 8]),
    "torchtitan": ({"ep_style": "torchtitan"}, [0, 1, 2, 3], [0, 4, 8, 12]),
    "deepspeed, E+D": ({"ep_style": "deepspeed"}, [0, 2, 4, 6], [0, 8]),
    "deepspeed, D+E": (
        {"ep_style": "deepspeed", "order": "tp-dp-ep-pp"}, [0, 4, 8, 12], [0, 2],
    ),
    "scaletorch": ({"ep_style": "scaletorch", "dp": 2}, [0, 2, 4, 6], [0, 8]),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_GROUPS)
def test_expert_groups_are_those_of_the_style(name: str) -> None:
    options, ep, edp = FIRST_GROUPS[name]
    assert isinstance(options, dict)
    layout = ParallelLayout(**{"tp": 2, "ep": 4, "dp": 8, **options})

    assert layout.world_size == 16
    assert (layout.groups("ep")[0], layout.groups("edp")[0]) == (ep, edp)


def test_all_ranks_of_a_stage_are_one_group_with_vllm() -> None:
    one = ParallelLayout.preset("vllm", tp=2, dp=8)
    two = ParallelLayout.preset("vllm", tp=2, dp=2, pp=2, ep=-1)

    assert (one.ep, one.groups("ep")) == (16, [list(range(16))])
    # dp is slower than pp, so that a stage is no run of ranks.
    assert two.groups("ep") == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert two.coordinates(5)["ep"] == 3
    assert two.rank(ep=3, pp=0) == 5


def test_copies_of_vllms_engine_have_experts_of_their_own() -> None:
    layout = ParallelLayout.preset("vllm", tp=2, dp=4, dp_replicate=2)

    assert layout.groups("ep") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert layout.groups("edp")[0] == [0, 4]


@pytest.mark.parametrize(
    ("style", "etp"),
    [("megatron", 2), ("deepspeed", 2), ("scaletorch", 2), ("torchtitan", 1),
     ("vllm", 1)],
)  # fmt: skip
def test_etp_is_what_the_style_has(style: str, etp: int) -> None:
    assert ParallelLayout(tp=2, dp=2, ep_style=style).etp == etp


def test_experts_of_torchtitan_stay_within_a_copy() -> None:
    # Sparse mesh: pp 2, dp_replicate 2, efsdp 2, ep 4.
    layout = ParallelLayout.preset(
        "torchtitan", tp=2, cp=2, dp=4, pp=2, dp_replicate=2, ep=4
    )

    assert layout.groups("ep")[:2] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert layout.groups("edp")[:2] == [[0, 4], [1, 5]]
    assert layout.groups("ep-edp-dp_replicate")[0] == list(range(16))
    assert layout.rank(ep=1, edp=1, dp_replicate=1, pp=1) == 16 + 8 + 4 + 1


def test_experts_of_megatron_take_cp_too() -> None:
    layout = ParallelLayout(tp=2, cp=2, dp=2, ep=8, etp=1, pp=2)

    assert layout.groups("ep") == [list(range(8)), list(range(8, 16))]
    assert layout.groups("edp")[0] == [0]


def test_experts_of_deepspeed_leave_cp_alone() -> None:
    layout = ParallelLayout.preset("deepspeed", tp=2, cp=2, dp=2, ep=2)

    assert layout.groups("ep")[0] == [0, 4]


def test_layout_without_experts_has_whole_ones_everywhere() -> None:
    # Megatron refuses this order with cp, though there is nothing to disagree about.
    layout = ParallelLayout(tp=2, cp=2, dp=2, pp=2, order="tp-cp-pp-dp")

    assert layout.groups("ep") == [[rank] for rank in range(16)]
    assert layout.groups("etp") == layout.groups("tp")
    assert layout.groups("edp") == layout.groups("dp-cp")
    assert "ep" not in layout.axes


def test_stages_before_dp_are_allowed_where_they_agree() -> None:
    layout = ParallelLayout(tp=2, dp=2, pp=2, ep=2, etp=1, order="tp-ep-pp-dp")

    assert layout.groups("pp")[0] == [0, 2]
    assert layout.groups("ep") == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_ranks_that_hold_other_parts_of_an_expert_have_other_roles() -> None:
    layout = ParallelLayout(tp=2, dp=2, etp=4)

    assert layout.groups("etp") == [[0, 1, 2, 3]]
    assert len({*roles(layout)}) == 4
