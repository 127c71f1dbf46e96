"""``make_mesh`` in real processes of gloo, and on simulated chips."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest

from ranktable.layout import LayoutError, ParallelLayout, megatron_groups
from ranktable.runtime import make_mesh
from ranktable.simulate.simulated_run import Run
from tests.ranks import SCRIPTS, run_code, simulate, write_table

if TYPE_CHECKING:
    from pathlib import Path

    Said = tuple[int, list[tuple[list[int], list[int]]], dict[str, int]]

pytestmark = pytest.mark.torch

HEAD = """
from ranktable.layout import ParallelLayout, megatron_groups
made = []
whole = dist.new_group
def counted(ranks=None, *args, **options):
    made.append(list(ranks))
    return whole(ranks, *args, **options)
dist.new_group = counted
"""
COMPARE = (
    HEAD
    + """
from torch.distributed.device_mesh import init_device_mesh

with init_process_group("gloo", timeout_s=60) as job:
    layout = ParallelLayout(SIZES, world_size=job.world_size)
    ours = make_mesh(job, layout)
    calls = list(made)
    shape = layout.mesh_shape
    names = tuple(shape)
    theirs = init_device_mesh("cpu", tuple(shape.values()), mesh_dim_names=names)

    assert ours == theirs and hash(ours) == hash(theirs)
    assert ours.mesh.dtype == theirs.mesh.dtype and ours.mesh.equal(theirs.mesh)
    assert ours.mesh_dim_names == theirs.mesh_dim_names
    assert ours.shape == theirs.shape and ours.device_type == theirs.device_type
    assert list(ours.get_coordinate()) == list(theirs.get_coordinate())
    for place, name in enumerate(names):
        for which in (place, name):
            group, peer = ours.get_group(which), theirs.get_group(which)
            ranks = dist.get_process_group_ranks(group)
            assert ranks == dist.get_process_group_ranks(peer)
            assert ours.get_local_rank(which) == theirs.get_local_rank(which)
            assert ours.size(place) == theirs.size(place)
        assert ours[name] == theirs[name]
        assert ours[name].mesh.equal(theirs[name].mesh)
        assert ours[name].get_local_rank() == theirs[name].get_local_rank()
        total = torch.tensor(job.rank)
        dist.all_reduce(total, group=ours[name].get_group())
        assert int(total) == sum(ranks)
    for first in range(len(names)):
        for last in range(first + 1, len(names)):
            pair = names[first], names[last]
            assert ours[pair] == theirs[pair]
            assert ours[pair].mesh.equal(theirs[pair].mesh)
    pair = names[1:3]
    flat, peer = ours[pair]._flatten("both"), theirs[pair]._flatten("both")
    assert flat.mesh.equal(peer.mesh)
    say(job.rank, calls)
    # Torch makes a group of one rank in the store, which ends with rank 0.
    dist.barrier()
"""
)


def compared(folder: Path, sizes: str, world_size: int) -> list[list[list[int]]]:
    """Return the calls of new_group of every rank."""
    env = {"RANK_TABLE_FILE": write_table(folder, [range(world_size)])}
    done = run_code(COMPARE.replace("SIZES", sizes), world_size, env=env)

    assert [status for status, _, _ in done] == [0] * world_size, done
    said = [json.loads(out.splitlines()[-1]) for _, out, _ in done]
    assert sorted(rank for rank, _ in said) == list(range(world_size))
    every: list[list[list[int]]] = [calls for _, calls in sorted(said)]
    for calls in every:
        assert calls == every[0]  # all ranks make all groups in one order
        assert len({tuple(ranks) for ranks in calls}) == len(calls)
    return every


@pytest.mark.parametrize(
    ("world_size", "sizes", "num_calls"),
    [
        (1, "dp=1", 0),
        (2, "tp=2", 2),  # each rank alone, once for three axes
        (4, "tp=2, pp=-1, order='pp-tp-dp-cp'", 8),
    ],
)
def test_mesh_is_that_of_torch(
    world_size: int, sizes: str, num_calls: int, tmp_path: Path
) -> None:
    found = compared(tmp_path, sizes, world_size)

    assert [len(calls) for calls in found] == [num_calls] * world_size


def test_groups_over_the_same_ranks_are_one(tmp_path: Path) -> None:
    code = (
        HEAD
        + """
with init_process_group("gloo", timeout_s=60) as job:
    layout = ParallelLayout(tp=2, pp=2)
    kinds = megatron_groups(layout)
    groups = make_groups(job, layout, kinds)
    before = len(made)
    mesh = make_mesh(job, layout)
    again = make_groups(job, layout, ["tp", "tp-pp"])
    ranks = {kind: dist.get_process_group_ranks(groups[kind]) for kind in groups}
    are_one = mesh.get_group("tp") is again["tp"] is groups["tp"]
    say(before, len(made) - before, ranks, are_one, again["tp-pp"] is dist.group.WORLD)
"""
    )
    env = {"RANK_TABLE_FILE": write_table(tmp_path, [range(4)])}
    done = run_code(code, 4, env=env)
    kinds = megatron_groups(ParallelLayout(tp=2, pp=2))
    lists = {tuple(sorted(ranks)) for groups in kinds.values() for ranks in groups}
    lists.discard((0, 1, 2, 3))

    assert [status for status, _, _ in done] == [0] * 4, done
    for rank, (_, out, _) in enumerate(done):
        before, after, groups, are_one, is_world = json.loads(out)
        assert (before, after) == (len(lists), 0)
        assert (are_one, is_world) == (True, True)
        assert groups == {
            kind: sorted(ranks)
            for kind, every in kinds.items()
            for ranks in every
            if rank in ranks
        }


def test_ranks_may_be_in_different_numbers_of_groups(tmp_path: Path) -> None:
    code = """
from ranktable.layout import ParallelLayout
with init_process_group("gloo", timeout_s=30) as job:
    lists = {"a": [[0, 1]], "b": [[1, 2], [0, 3]]}
    found = {}
    for kind, group in make_groups(job, ParallelLayout(dp=4), lists).items():
        data = torch.tensor([float(job.rank)])
        dist.all_reduce(data, group=group)
        found[kind] = data.item()
    say(found)
    # Torch makes a group in the store, which ends with rank 0.
    dist.barrier()
"""
    env = {"RANK_TABLE_FILE": write_table(tmp_path, [range(4)])}
    done = run_code(code, 4, env=env)

    assert [status for status, _, _ in done] == [0] * 4, done
    assert [json.loads(out)[0] for _, out, _ in done] == [
        {"a": 1.0, "b": 3.0},
        {"a": 1.0, "b": 3.0},
        {"b": 3.0},
        {"b": 3.0},
    ]


def test_ranks_with_other_layouts_get_an_error_at_once(tmp_path: Path) -> None:
    code = """
from ranktable.layout import ParallelLayout
with init_process_group("gloo", timeout_s=60) as job:
    try:
        make_mesh(job, ParallelLayout(tp=2 if job.rank < 2 else 4, dp=-1, world_size=4))
    except BootstrapError as error:
        say(str(error), error.ranks)
"""
    env = {"RANK_TABLE_FILE": write_table(tmp_path, [range(4)])}
    done = run_code(code, 4, env=env)

    said = {out for _, out, _ in done}
    assert len(said) == 1, done
    text, ranks = json.loads(said.pop())
    assert ranks == [2, 3]
    assert "rank 2 asks for pp 1 x dp 1 x cp 1 x tp 4 = 4" in text
    assert "rank 0 for pp 1 x dp 2 x cp 1 x tp 2 = 4" in text
    assert "give every rank the same layout (2 ranks differ from rank 0)" in text


def test_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    code = """
from ranktable.layout import ParallelLayout
with init_process_group("gloo", timeout_s=60) as job:
    if job.rank:
        try:
            make_mesh(job, ParallelLayout(tp=2), timeout_s=1)
        except BootstrapError as error:
            say(str(error))
    dist.barrier()
"""
    env = {"RANK_TABLE_FILE": write_table(tmp_path, [range(2)])}
    done = run_code(code, 2, env=env)

    assert json.loads(done[1][1]) == [
        (
            "RT404 ranks 0 did not ask for their layout within 1 s; every rank has to "
            "make the same calls in the same order"
        )
    ], done


def test_rank_0_does_not_end_before_the_others_have_read_the_verdict(
    tmp_path: Path,
) -> None:
    # Rank 0 asks last and ends at once; the others look for its answer once a second.
    code = """
from ranktable.layout import ParallelLayout
with init_process_group("gloo", timeout_s=60) as job:
    time.sleep(1.5 * (job.rank == 0))
    make_groups(job, ParallelLayout(tp=2), ["tp"])
"""
    env = {"RANK_TABLE_FILE": write_table(tmp_path, [range(2)])}
    done = run_code(code, 2, env=env)

    assert [status for status, _, _ in done] == [0, 0], done


def test_layout_of_another_size_is_refused() -> None:
    class Job:
        world_size = 8

    with pytest.raises(LayoutError) as caught:
        make_mesh(Job(), ParallelLayout(tp=4))  # type: ignore[arg-type]  # enough of it
    assert str(caught.value) == (
        "the layout is pp 1 x dp 1 x cp 1 x tp 4 = 4, and the job has 8 ranks; "
        "pass world_size=8 and -1 as one of the sizes to make a layout that fits"
    )


def test_every_group_on_chips_has_a_chip_map_of_its_own(tmp_path: Path) -> None:
    chips = ((2, 6, 7, 3), (1, 5, 4, 0))
    ended = simulate(tmp_path, SCRIPTS / "sccl_mesh.py", Run(chips=chips))
    order = [chip for node in chips for chip in node]

    assert ended.status == 0, ended.err
    assert ended.errors == []
    layout = ParallelLayout(tp=2, pp=2, dp=2)
    wanted = [*layout.groups("pp"), *layout.groups("dp"), *layout.groups("tp")]
    for said in ended.said:
        rank, calls, sums = cast("Said", said)
        maps = {tuple(ranks): chip_map for ranks, chip_map in calls}
        # The single ranks of cp come between dp and tp, the slowest axis first.
        every = [*wanted[:8], *([r] for r in range(8)), *wanted[8:]]
        assert list(map(list, maps)) == every
        assert all(maps[ranks] == [order[r] for r in ranks] for ranks in maps)
        assert sums == {axis: sum(layout.along(axis).of(rank)) for axis in sums}
