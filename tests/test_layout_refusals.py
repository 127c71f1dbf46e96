"""Layouts that libraries accept wrongly, or refuse without a reason, are refused."""

from __future__ import annotations

import pytest

from ranktable.layout import LayoutError, ParallelLayout

# What a peer does with it stands beside each: mesh.md, section 1.
REFUSED: dict[str, tuple[dict[str, object], str]] = {
    # Megatron takes it; its pp groups then have the ranks 8 to 11 of a world of 8.
    "token given twice": (
        {"tp": 2, "dp": 2, "pp": 2, "order": "tp-dp-pp-dp"},
        (
            "the order 'tp-dp-pp-dp' names dp twice; each of tp, cp, ep, dp, pp may "
            "stand in it once"
        ),
    ),
    # Megatron: KeyError of the bare token.
    "unknown token": (
        {"tp": 2, "order": "tp-sp-dp"},
        (
            "the order 'tp-sp-dp' has 'sp', which is not one of tp, cp, ep, dp, pp; "
            "did you mean tp or pp?"
        ),
    ),
    # Megatron looks for the letters anywhere in the order, so that cp is found here.
    "token that is part of another": (
        {"cp": 2, "tp": 2, "order": "tp-ccp-dp"},
        (
            "the order 'tp-ccp-dp' has 'ccp', which is not one of tp, cp, ep, dp, pp; "
            "did you mean cp?"
        ),
    ),
    # Megatron ignores the case.
    "token in capitals": (
        {"tp": 2, "order": "TP-DP"},
        (
            "the order 'TP-DP' has 'TP', which is not one of tp, cp, ep, dp, pp; "
            "did you mean tp?"
        ),
    ),
    # Megatron: RuntimeError.
    "axis that the order lacks": (
        {"tp": 2, "pp": 2, "order": "tp-dp"},
        (
            "pp is 2 and the order 'tp-dp' has no pp; tp-dp-pp would have it as the "
            "slowest"
        ),
    ),
    # Megatron and torch: ZeroDivisionError. DeepSpeed: an empty topology, silently.
    "size of zero": (
        {"tp": 0, "world_size": 8},
        "tp is 0; a size is an integer of at least 1, or -1 for one of them",
    ),
    "negative size": (
        {"tp": -2},
        "tp is -2; a size is an integer of at least 1, or -1 for one of them",
    ),
    "size that is not an integer": (
        {"tp": 2.0},
        "tp is 2.0; a size is an integer of at least 1, or -1 for one of them",
    ),
    "size that is a truth value": (
        {"tp": True},
        "tp is True; a size is an integer of at least 1, or -1 for one of them",
    ),
    # torch leaves the other ranks without a coordinate; MPI gives them no communicator.
    "layout smaller than the world": (
        {"tp": 4, "dp": 3, "world_size": 16},
        (
            "tp 4 x cp 1 x dp 3 x pp 1 = 12, but world_size is 16; nearest: dp=4 or "
            "world_size=12"
        ),
    ),
    "layout larger than the world": (
        {"tp": 4, "dp": 4, "pp": 2, "world_size": 16},
        (
            "tp 4 x cp 1 x dp 4 x pp 2 = 32, but world_size is 16; nearest: tp=2, "
            "dp=2, pp=1 or world_size=32"
        ),
    ),
    # Megatron: RuntimeError naming the product. DeepSpeed: "16 is not divisible by 3".
    # torchtitan infers 2 and then says that 12 is not 16.
    "size that cannot be inferred": (
        {"tp": 4, "pp": 3, "dp": -1, "world_size": 32},
        (
            "tp 4 x cp 1 x pp 3 = 12 does not divide world_size 32, so dp cannot be "
            "inferred; nearest: pp=2, pp=4, world_size=24 or world_size=36"
        ),
    ),
    "two sizes to be inferred": (
        {"tp": -1, "dp": -1, "pp": 2, "world_size": 8},
        "tp and dp are -1 beside cp 1 x pp 2 = 2; only one size can be inferred",
    ),
    "size to be inferred from nothing": (
        {"tp": 2, "pp": 2, "dp": -1},
        (
            "dp is -1 beside tp 2 x cp 1 x pp 2 = 4; it can be inferred when "
            "world_size is given, a multiple of that"
        ),
    ),
    "world of zero": (
        {"world_size": 0},
        "world_size is 0; a size is an integer of at least 1",
    ),
    "copies that do not divide dp": (
        {"dp": 6, "dp_replicate": 4},
        "dp_replicate 4 does not divide dp 6; nearest: dp_replicate=3 or 6",
    ),
    "etp to be inferred": (
        {"tp": 2, "etp": -1},
        "etp is -1; a size is an integer of at least 1",
    ),
    "empty order": (
        {"order": ""},
        "the order '' has '', which is not one of tp, cp, ep, dp, pp",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_layout_that_cannot_be_is_refused_in_one_sentence(name: str) -> None:
    sizes, text = REFUSED[name]

    with pytest.raises(LayoutError) as caught:
        ParallelLayout(**sizes)  # type: ignore[arg-type]

    assert str(caught.value) == text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        # DeepSpeed: an empty list.
        ("xp", "there is no axis 'xp'; the axes are tp, cp, dp, pp, .*did you mean"),
        # torch: KeyError.
        ("dp_cp", "there is no axis 'dp_cp'; .*did you mean"),
        ("tp-tp", "the axes 'tp-tp' name tp twice"),
        ("", "there is no axis ''"),
    ],
)
def test_groups_along_no_axis_are_refused(axes: str, text: str) -> None:
    with pytest.raises(LayoutError, match=text):
        ParallelLayout(tp=2, dp=2).groups(axes)


@pytest.mark.parametrize("axis", ["tp", "cp", "dp", "pp"])
def test_nearest_choices_are_valid(axis: str) -> None:
    sizes = {"tp": 4, "cp": 3, "dp": 5, "pp": 2}
    refused = {**sizes, axis: sizes[axis] * 7}

    with pytest.raises(LayoutError) as caught:
        ParallelLayout.preset("megatron", **refused, world_size=120)

    assert f"{axis}={sizes[axis]}" in str(caught.value)
    ParallelLayout.preset("megatron", **sizes, world_size=120)  # is one
