"""Laws that hold for every layout."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, ParallelLayout, communicators
from ranktable.layout.parallel import NOT_GIVEN, STYLE_NAMES
from ranktable.schema.remembered_layout import (
    parse_layout,
    world_size_of,
)
from tests.effort import law

TOKENS = ("tp", "cp", "ep", "dp", "pp")
LARGEST = 512

sizes = st.sampled_from([1, 1, 2, 3, 4, 6])


@st.composite
def layouts(draw: st.DrawFn, *styles: str) -> ParallelLayout:
    """Draw a layout in any order, with experts in any style that fit it."""
    style = draw(st.sampled_from(styles or STYLE_NAMES))
    wanted = {name: draw(sizes) for name in ("tp", "cp", "dp", "pp")}
    order = "-".join(draw(st.permutations(TOKENS)))
    if draw(st.booleans()):
        wanted["ep"] = draw(sizes)
    if draw(st.booleans()):
        wanted["etp"] = draw(sizes)
    if draw(st.booleans()):
        wanted["dp_replicate"] = draw(st.sampled_from([2, 3]))
    plain = {name: wanted[name] for name in ("tp", "cp", "dp", "pp")}
    try:
        return _made(wanted, order, style)
    except LayoutError:  # the experts do not fit
        return _made(plain, order, style)


def _made(wanted: dict[str, int], order: str, style: str) -> ParallelLayout:
    return ParallelLayout(
        tp=wanted["tp"],
        cp=wanted["cp"],
        dp=wanted["dp"],
        pp=wanted["pp"],
        ep=wanted.get("ep", NOT_GIVEN),
        etp=wanted.get("etp", NOT_GIVEN),
        dp_replicate=wanted.get("dp_replicate", 1),
        order=order,
        ep_style=style,
    )


@given(layouts())
@law(150)
def test_groups_of_every_axis_divide_the_world(layout: ParallelLayout) -> None:
    if layout.world_size > LARGEST:
        return
    for axis in layout.axes:
        groups = layout.along(axis)
        lists = list(groups)

        assert sorted(r for ranks in lists for r in ranks) == list(
            range(layout.world_size)
        )
        assert len(lists) == len(groups)
        assert all(len(ranks) == groups.group_size for ranks in lists)
        for rank in range(layout.world_size):
            index = groups.index_of(rank)
            assert groups.of(rank) == lists[index] == groups[index]
            assert lists[index][groups.place_of(rank)] == rank


@given(layouts())
@law(150)
def test_coordinates_and_rank_are_each_others_inverse(layout: ParallelLayout) -> None:
    for rank in range(min(layout.world_size, LARGEST)):
        assert layout.rank(**layout.coordinates(rank)) == rank


@given(layouts(), st.data())
@law(150)
def test_ranks_of_a_group_differ_along_its_axes_only(
    layout: ParallelLayout, data: st.DataObject
) -> None:
    grid = [axis for axis in ("tp", "cp", "dp", "pp") if axis in layout.mesh_shape]
    if not grid:
        return
    chosen = data.draw(st.lists(st.sampled_from(grid), min_size=1, unique=True))
    rank = data.draw(st.integers(0, layout.world_size - 1))
    here = layout.coordinates(rank)

    others = [axis for axis in layout.mesh_shape if axis not in chosen]
    for member in layout.along("-".join(chosen)).of(rank):
        there = layout.coordinates(member)
        assert all(there[axis] == here[axis] for axis in others)


@given(layouts("megatron"))
@law(150)
def test_groups_are_those_of_plain_counting(layout: ParallelLayout) -> None:
    """A second way to the same lists: all points in order, sorted into groups."""
    slowest_first = layout.mesh_shape
    points = list(product(*(range(size) for size in slowest_first.values())))
    if len(points) > LARGEST:
        return
    for place, axis in enumerate(slowest_first):
        by_others: dict[tuple[int, ...], list[int]] = {}
        for rank, point in enumerate(points):
            key = (*point[:place], *point[place + 1 :])
            by_others.setdefault(key, []).append(rank)

        assert layout.groups(axis) == [by_others[key] for key in sorted(by_others)]


@given(layouts(), st.sampled_from(["tp", "cp", "dp", "pp"]))
@law(100)
def test_size_that_is_inferred_is_the_one_that_was_there(
    layout: ParallelLayout, name: str
) -> None:
    wanted = {axis: getattr(layout, axis) for axis in ("tp", "cp", "dp", "pp")}
    options = {"dp_replicate": layout.dp_replicate, "ep": layout.ep, "etp": layout.etp}

    again = ParallelLayout(
        **{**wanted, **options, name: -1},
        order=layout.order,
        ep_style=layout.ep_style,
        world_size=layout.world_size,
    )

    assert again == layout


@given(layouts("megatron"), st.integers(1, 4))
@law(50)
def test_communicators_lose_no_rank_and_no_chip(
    layout: ParallelLayout, per_node: int
) -> None:
    if layout.world_size > LARGEST:
        return
    ranks = range(layout.world_size)
    nodes = [ranks[at : at + per_node] for at in ranks[::per_node]]
    found = communicators(make_table(nodes), layout)

    for one in found:
        assert one.chip_map == list(one.ranks)
        assert one.node_ranks == tuple(rank // per_node for rank in one.ranks)
        shared = one.coordinates
        for rank in one.ranks:
            here = layout.coordinates(rank)
            assert shared.items() <= here.items()
        mine = found.of_rank(one.ranks[-1])
        assert one.name in {other.name for other in mine}


@st.composite
def layout_keywords(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a layout may be asked for, possible or not."""
    few = st.integers(1, 4)
    given: dict[str, Any] = {name: draw(few) for name in ("tp", "cp", "pp", "dp")}
    for name in ("ep", "etp", "dp_replicate"):
        if draw(st.booleans()):
            given[name] = draw(st.sampled_from((1, 2, 3, 4, 8, 16)))
    if draw(st.booleans()):
        tokens = draw(st.permutations(TOKENS))
        given["order"] = "-".join(tokens[: draw(st.integers(3, 5))])
    if draw(st.booleans()):
        given["ep_style"] = draw(st.sampled_from(STYLE_NAMES))
    return given


@given(layout_keywords())
@law(1000)
def test_remembered_layout_that_is_one_is_never_warned_of(
    given: dict[str, Any],
) -> None:
    with suppress(LayoutError):
        world_size = ParallelLayout(**given).world_size
        text = " ".join(f"{name}={value}" for name, value in given.items())

        assert world_size_of(parse_layout(text)) == world_size
