"""Laws of fitted tables: no rank moves without need, and every result is sound."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import assume, example, given
from hypothesis import strategies as st

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.layout import LayoutError, ParallelLayout, fit
from ranktable.layout.change import difference, node_names
from ranktable.layout.parallel import roles
from ranktable.schema.check import check
from ranktable.schema.formats import FORMATS
from ranktable.schema.writing import dumps
from tests.drawn_files import sound, texts
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable

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


def spare_chips(table: RankTable) -> set[Name]:
    return {(str(one.host), d.device_id) for one in table.spares for d in one.devices}


def assert_sound(table: RankTable) -> None:
    report = check(dumps(table))

    assert report.ok
    assert report.table is not None
    assert report.table.digest() == table.digest()
    ranks = ranks_of(table)
    assert sorted(ranks.values()) == list(range(table.world_size))
    assert not spare_chips(table) & ranks.keys()


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
@law(25)
def test_replacing_a_node_moves_no_other_rank(
    sizes: list[int], data: st.DataObject
) -> None:
    table = table_of(sizes)
    place = data.draw(st.integers(0, len(sizes) - 1))
    more = data.draw(st.integers(0, 3))
    (new,) = make_table([range(5, 5 + sizes[place] + more)], hosts=["new"]).nodes
    using = ["new"] if data.draw(st.booleans()) else [new]
    size = table.world_size

    found = fit(table, lost=[f"n{place}"], using=using, world_size=size)

    assert_sound(found.table)
    assert found.moves == ()
    assert (found.diff.nodes_out, found.diff.nodes_in) == ((f"n{place}",), ("new",))
    assert list(found.diff.chips_in) == list(found.diff.chips_out)
    assert [n.host for n in found.table.nodes] == [
        "new" if n == place else f"n{n}" for n in range(len(sizes))
    ]
    again = fit(found.table, lost=[f"n{place}"], using=using, world_size=size)
    assert again.diff.is_same
    old = table.nodes[place]
    back = fit(found.table, lost=["new"], using=[old], world_size=size)
    assert back.table.digest() == table.digest()


@given(placed(), st.data())
@law(40)
def test_shrinking_keeps_what_it_can(
    drawn: tuple[RankTable, ParallelLayout], data: st.DataObject
) -> None:
    table, layout = drawn
    nodes, copy = len(table.nodes), layout.tp * layout.cp * layout.pp
    lost = data.draw(st.sets(st.integers(0, nodes - 1), max_size=nodes // 2))
    left = (nodes - len(lost)) * len(table.nodes[0].devices)
    hosts = [f"n{at}" for at in range(nodes) if at not in lost]
    assume(hosts)
    try:
        found = fit(table, layout, hosts=hosts)
    except LayoutError as error:
        assert left < copy
        assert "is kept" in str(error)  # noqa: PT017 - it may not raise
        return

    assert found.layouts is not None
    changed, after = found.table, found.layouts[1]
    assert_sound(changed)
    assert after.world_size == changed.world_size
    assert (after.tp, after.cp, after.pp) == (layout.tp, layout.cp, layout.pp)
    before, now = ranks_of(table), ranks_of(changed)
    alive = {name: rank for name, rank in before.items() if name[0] in hosts}
    assert now.keys() <= alive.keys()
    assert spare_chips(changed) == alive.keys() - now.keys()
    assert after.dp == len(alive) // copy
    assert fit(changed, hosts=hosts).diff.is_same

    kinds = [roles(one) for one in (layout, after)]
    counts = Counter(kinds[0][rank] for rank in alive.values())
    needed = Counter(kinds[1])
    least = sum((needed - counts).values())
    moved = sum(kinds[0][alive[name]] != kinds[1][rank] for name, rank in now.items())
    assert moved >= least


@given(placed(), st.integers(1, 5))
@law(60)
def test_growing_at_the_end_moves_nobody(
    drawn: tuple[RankTable, ParallelLayout], more: int
) -> None:
    table, layout = drawn
    size = len(table.nodes[0].devices)
    copy = layout.tp * layout.cp * layout.pp
    new = make_table([range(size)] * more, hosts=[f"m{n}" for n in range(more)]).nodes

    same = fit(table, layout, using=new)
    found = fit(table, layout, using=new, grow=True)

    assert (same.table.nodes, same.table.num_nodes) == (table.nodes, table.num_nodes)
    assert {one.host for one in same.table.spares} == {one.host for one in new}
    assert_sound(found.table)
    assert found.layouts is not None
    after = found.layouts[1]
    assert after.dp == (layout.world_size + more * size) // copy
    before, now = ranks_of(table), ranks_of(found.table)
    # If chips are left over, others than the new ones may be better left out.
    is_whole = after.world_size == layout.world_size + more * size
    if is_whole and layout.order.endswith("dp") and copy % size == 0:
        assert all(now[name] == rank for name, rank in before.items())


@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.data())
@law(60)
def test_no_chip_is_forgotten_and_none_is_used_twice(
    sizes: list[int], data: st.DataObject
) -> None:
    table = table_of(sizes)
    spare = make_table([range(data.draw(st.integers(1, 6)))], hosts=["s"]).nodes
    new = make_table([range(data.draw(st.integers(1, 6)))], hosts=["m"]).nodes
    table = table.with_changes(spares=spare[: data.draw(st.integers(0, 1))])
    world = table.world_size
    tp = data.draw(st.sampled_from([n for n in (1, 2, 3, 4) if world % n == 0]))
    order = data.draw(st.sampled_from(["tp-dp", "dp-tp"]))
    layout = ParallelLayout(tp=tp, dp=-1, order=order, world_size=world)
    place = data.draw(st.integers(0, len(sizes) - 1))
    chips = data.draw(st.sets(st.integers(0, sizes[place] - 1)))
    grow = data.draw(st.booleans())
    is_whole = data.draw(st.booleans())
    try:
        found = fit(
            table,
            layout,
            lost=[f"n{place}"] if is_whole else (),
            lost_chips={} if is_whole else {f"n{place}": chips},
            using=new[: data.draw(st.integers(0, 1))],
            grow=grow,
        )
    except LayoutError:
        return

    assert_sound(found.table)
    assert grow or found.table.world_size <= world
    every = [*ranks_of(found.table), *spare_chips(found.table)]
    dead = {
        name
        for name in ranks_of(table)
        if name[0] == f"n{place}" and (is_whole or name[1] in chips)
    }
    assert len(set(every)) == len(every)
    assert set(every) >= ({*ranks_of(table)} | spare_chips(table)) - dead
    assert not dead & set(every)


@given(placed(), st.data())
@law(25)
def test_nothing_changes_where_all_hosts_are_there(
    drawn: tuple[RankTable, ParallelLayout], data: st.DataObject
) -> None:
    table, layout = drawn
    hosts = data.draw(st.permutations(node_names(table.nodes)))

    found = fit(table, layout, hosts=hosts)

    assert found.table.nodes == table.nodes
    assert fit(table, hosts=hosts).diff.is_same
    assert difference(table, table, (layout, layout)).num_kept == table.world_size


@given(texts(st.sampled_from([one.name for one in FORMATS]).flatmap(sound)))
@example(
    b'{"status": "completed", "version": "1.0", "server_list": [{"server_id": "n1", '
    b'"device": [{"device_id": "0", "rank_id": "0"}]}], "server_count": "1", '
    b'"super_pod_list": [{"super_pod_id": "0", "server_list": [{"server_id": "n0"}]}]}'
)
@law(60)
def test_table_of_the_same_nodes_is_written_the_same(text: bytes) -> None:
    report = check(text)
    assume(report.ok and report.table is not None)
    table = ranktable.loads(text)

    again = table.with_changes(nodes=table.nodes, spares=table.spares)

    assert again.digest() == table.digest()
    assert dumps(again) == dumps(table)
