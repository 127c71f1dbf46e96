"""Five meanings of ep: the groups of each, for the sizes where they can be compared."""

from __future__ import annotations

import pytest

from ranktable.layout import LayoutError, ParallelLayout

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


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (
            {"tp": 2, "dp": 8, "ep": 3},
            ("etp 2 x ep 3 = 6 does not divide tp 2 x cp 1 x dp 8 = 16, the ranks of a "
            "stage; nearest: ep=2 or ep=4"),
        ),
        (
            {"tp": 2, "dp": 8, "pp": 2, "ep": 4, "order": "tp-cp-ep-pp-dp"},
            ("etp 2 x ep 4 = 8 beside tp 2 x cp 1 x dp 8 x pp 2 = 32 and the order "
            "tp-cp-ep-pp-dp gives the experts other stages than the rest: a step of pp "
            "is 8 ranks for them, not 2; put pp last, tp-cp-ep-dp-pp, or choose sizes "
            "that agree"),
        ),
        (
            {"tp": 2, "dp": 8, "ep": 3, "ep_style": "torchtitan"},
            ("ep 3 does not divide tp 2 x cp 1 x dp 8 = 16, as ep_style torchtitan "
            "needs; nearest: ep=2 or ep=4"),
        ),
        (
            {"tp": 2, "dp": 2, "pp": 2, "ep": 2, "order": "tp-pp-dp",
             "ep_style": "torchtitan"},
            ("ep 2 with ep_style torchtitan folds tp 2 x cp 1 x dp 2 = 4 into one run "
            "of ranks, and the order tp-pp-dp has pp in between; tp-cp-ep-dp-pp has "
            "not"),
        ),
        (
            {"tp": 2, "dp": 8, "ep": 3, "ep_style": "deepspeed"},
            ("ep 3 does not divide dp 8, as ep_style deepspeed needs; nearest: ep=2 or "
            "ep=4"),
        ),
        (
            {"tp": 2, "dp": 8, "ep": 4, "etp": 1, "ep_style": "deepspeed"},
            ("etp 1 beside tp 2 x cp 1 x dp 8 = 16 is not free: DeepSpeed splits an "
            "expert as tp; nearest: etp=2, or ep_style megatron"),
        ),
        (
            {"tp": 2, "dp": 8, "ep": 4, "ep_style": "vllm"},
            ("ep 4 is not free with ep_style vllm, where the tp 2 x cp 1 x dp 8 = 16 "
            "ranks of a stage are one expert group; nearest: ep=16"),
        ),
        (
            {"tp": 2, "dp": 8, "ep": -1},
            ("ep is -1 and cannot be inferred with ep_style megatron, where every ep "
            "that divides tp 2 x cp 1 x dp 8 = 16 would do; nearest: ep=1 or ep=16"),
        ),
        (
            {"tp": 2, "dp": 8, "ep": 4, "ep_style": "scaletorch", "world_size": 16},
            ("tp 2 x cp 1 x ep 4 x dp 8 x pp 1 = 64, but world_size is 16; nearest: "
            "ep=1, dp=2 or world_size=64"),
        ),
        (
            {"dp": 8, "ep": 4, "order": "tp-dp"},
            ("ep is 4 and the order 'tp-dp' has no ep; tp-dp-ep would have it as the "
            "slowest"),
        ),
        (
            {"dp": 8, "ep_style": "deepsped"},
            ("'deepsped' is not an ep_style; they are megatron, torchtitan, deepspeed, "
            "scaletorch, vllm; did you mean deepspeed?"),
        ),
    ],
)  # fmt: skip
def test_experts_that_fit_nowhere_are_refused_in_one_sentence(
    sizes: dict[str, int | str], text: str
) -> None:
    with pytest.raises(LayoutError) as caught:
        ParallelLayout(**sizes)  # type: ignore[arg-type]

    assert str(caught.value) == text
