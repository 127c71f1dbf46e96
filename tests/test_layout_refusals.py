"""Layouts that libraries accept wrongly, or refuse without a reason, are refused."""

from __future__ import annotations

import json

import pytest

from ranktable.layout import LayoutError, ParallelLayout
from tests.file_cases import read_cases

REFUSED = read_cases("layouts")
"""What is said of each, and below its name, what a peer does with it."""


@pytest.mark.parametrize("sizes", REFUSED)
def test_layout_that_cannot_be_is_refused_in_one_sentence(sizes: str) -> None:
    (given,) = (line for line in sizes.splitlines() if not line.startswith("#"))
    with pytest.raises(LayoutError) as caught:
        ParallelLayout(**json.loads(given))

    assert str(caught.value) == REFUSED[sizes]


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
