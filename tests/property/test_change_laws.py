"""Laws of changed tables: no rank moves without need, and every result is sound."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, ParallelLayout
from ranktable.layout.change import (
    difference,
    find_nodes,
    grow,
    node_names,
    renumber,
    replace_node,
    shrink,
    spares_of,
)
from ranktable.layout.parallel import roles
from ranktable.schema.check import check
from ranktable.schema.model import Node, RankTable
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

AXES = ("tp", "cp", "dp", "pp")
Name = tuple[str, int]


def table_of(sizes: Sequence[int]) -> RankTable:
    names = [f"n{place}" for place in range(len(sizes))]
    return make_table([range(size) for size in sizes], hosts=names)


def ranks_of(table: RankTable) -> dict[Name, int]:
    return {
        (name, device.device_id): device.rank
        for name, node in zip(node_names(table.nodes), table.nodes, strict=True)
        for device in node.devices
    }


def assert_sound(table: RankTable) -> None:
    report = check(dumps(table))

    assert report.ok
    assert report.table is not None
    assert report.table.digest() == table.digest()
    ranks = ranks_of(table)
    assert sorted(ranks.values()) == list(range(table.world_size))


@st.composite
def placed(draw: st.DrawFn, largest: int = 96) -> tuple[RankTable, ParallelLayout]:
    """Draw a layout and a table of equal nodes that it fits."""
    tp, cp, dp, pp = (draw(st.sampled_from([1, 2, 3, 4])) for _ in AXES)
    order = "-".join(draw(st.permutations(AXES)))
    layout = ParallelLayout(tp=tp, cp=cp, dp=dp, pp=pp, order=order)
    assume(2 <= layout.world_size <= largest)
    per_node = draw(
        st.sampled_from([n for n in range(1, 9) if layout.world_size % n == 0])
    )
    return table_of([per_node] * (layout.world_size // per_node)), layout


@given(st.lists(st.integers(1, 4), min_size=2, max_size=6), st.data())
@settings(max_examples=25, deadline=None)
def test_replacing_a_node_moves_no_other_rank(
    sizes: list[int], data: st.DataObject
) -> None:
    table = table_of(sizes)
    place = data.draw(st.integers(0, len(sizes) - 1))
    more = data.draw(st.integers(0, 3))
    (new,) = make_table([range(5, 5 + sizes[place] + more)], hosts=["new"]).nodes

    given_as: str | Node = "new" if data.draw(st.booleans()) else new
    changed = replace_node(table, f"n{place}", given_as)

    assert_sound(changed)
    found = difference(table, changed)
    assert found.moves == ()
    assert (found.nodes_out, found.nodes_in) == ((f"n{place}",), ("new",))
    assert list(found.chips_in) == list(found.chips_out)
    assert [n.host for n in changed.nodes] == [
        "new" if n == place else f"n{n}" for n in range(len(sizes))
    ]
    assert replace_node(changed, f"n{place}", "new") is changed
    back = replace_node(changed, "new", table.nodes[place])
    assert back.digest() == table.digest()


@given(placed(), st.data())
@settings(max_examples=40, deadline=None)
def test_shrinking_keeps_what_it_can(
    drawn: tuple[RankTable, ParallelLayout], data: st.DataObject
) -> None:
    table, layout = drawn
    nodes = len(table.nodes)
    assume(nodes > 1)
    lost = data.draw(st.sets(st.integers(0, nodes - 1), min_size=1, max_size=nodes - 1))
    try:
        found = shrink(table, layout, lost)
    except LayoutError as error:
        copy = layout.tp * layout.cp * layout.pp
        left = (nodes - len(lost)) * len(table.nodes[0].devices)
        assert left < copy
        assert "is kept" in str(error)  # noqa: PT017 - it may not raise
        return

    changed, after = found.table, found.layout
    assert_sound(changed)
    assert after.world_size == changed.world_size
    assert (after.tp, after.cp, after.pp) == (layout.tp, layout.cp, layout.pp)
    before, now = ranks_of(table), ranks_of(changed)
    alive = {
        name: rank for name, rank in before.items() if int(name[0][1:]) not in lost
    }
    assert now.keys() <= alive.keys()
    idle = {
        (node.host, d.device_id) for node in spares_of(changed) for d in node.devices
    }
    assert idle == alive.keys() - now.keys()
    assert after.dp == len(alive) // (layout.tp * layout.cp * layout.pp)
    assert shrink(changed, after, []).table is changed

    kinds = [roles(one) for one in (layout, after)]
    counts = Counter(kinds[0][rank] for rank in alive.values())
    needed = Counter(kinds[1])
    least = sum((needed - counts).values())
    moved = sum(kinds[0][alive[name]] != kinds[1][rank] for name, rank in now.items())
    assert moved >= least


@given(placed(), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_growing_at_the_end_moves_nobody(
    drawn: tuple[RankTable, ParallelLayout], more: int
) -> None:
    table, layout = drawn
    size = len(table.nodes[0].devices)
    copy = layout.tp * layout.cp * layout.pp
    new = make_table([range(size)] * more, hosts=[f"m{n}" for n in range(more)]).nodes
    try:
        found = grow(table, layout, new)
    except LayoutError:
        assert more * size < copy
        return

    changed = found.table
    assert_sound(changed)
    assert found.layout.world_size == changed.world_size
    assert found.layout.dp == (layout.world_size + more * size) // copy
    before, now = ranks_of(table), ranks_of(changed)
    # If chips are left over, others than the new ones may be better left out.
    is_whole = found.layout.world_size == layout.world_size + more * size
    if is_whole and layout.order.endswith("dp") and copy % size == 0:
        assert all(now[name] == rank for name, rank in before.items())


@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.data())
@settings(max_examples=40, deadline=None)
def test_resizing_uneven_nodes_is_sound(sizes: list[int], data: st.DataObject) -> None:
    table = table_of(sizes)
    world = table.world_size
    tp = data.draw(st.sampled_from([n for n in (1, 2, 3, 4) if world % n == 0]))
    order = data.draw(st.sampled_from(["tp-dp", "dp-tp"]))
    layout = ParallelLayout(tp=tp, dp=-1, order=order, world_size=world)
    place = data.draw(st.integers(0, len(sizes) - 1))
    new = make_table([range(data.draw(st.integers(1, 6)))], hosts=["m"]).nodes
    for is_less in (True, False):
        try:
            if is_less:
                found = shrink(table, layout, [place])
            else:
                found = grow(table, layout, new)
        except LayoutError:
            continue

        assert_sound(found.table)
        assert found.layout.world_size == found.table.world_size
        names = [
            (node.host, device.device_id)
            for node in (*found.table.nodes, *spares_of(found.table))
            for device in node.devices
        ]
        assert len(set(names)) == len(names)
        assert set(names) >= {
            name for name in ranks_of(table) if name[0] != f"n{place}"
        }


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
@settings(max_examples=40, deadline=None)
def test_renumbering_after_any_loss_is_sound(
    sizes: list[int], data: st.DataObject
) -> None:
    table = table_of(sizes)
    world = table.world_size
    lost = data.draw(st.sets(st.integers(0, world - 1), max_size=world - 1))

    changed = renumber(table, ranks=lost)

    assert_sound(changed)
    before, now = ranks_of(table), ranks_of(changed)
    assert now.keys() == {name for name, rank in before.items() if rank not in lost}
    assert sorted(now, key=now.__getitem__) == sorted(now, key=before.__getitem__)
    assert renumber(changed).digest() == changed.digest()


@given(placed(), st.data())
@settings(max_examples=25, deadline=None)
def test_difference_of_a_table_and_itself_is_nothing(
    drawn: tuple[RankTable, ParallelLayout], data: st.DataObject
) -> None:
    table, layout = drawn
    found = difference(table, table, (layout, layout))

    assert found.is_same
    assert found.moves == ()
    assert found.num_kept == table.world_size
    name = data.draw(st.sampled_from(node_names(table.nodes)))
    assert node_names(table.nodes)[find_nodes(table, [name])[0]] == name
    assert isinstance(table.nodes[0], Node)
