"""Layouts against torch's own device mesh, for random sizes and orders.

The mesh is made by ``init_device_mesh`` in one process that plays any rank of a world
of a fake process group, whose communication does nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.layout import ParallelLayout
from ranktable.runtime import device_mesh as mesh_module
from ranktable.runtime.backends.backend import Placement
from ranktable.runtime.environment import Environment
from ranktable.runtime.job import Job
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch
    from torch.distributed.device_mesh import DeviceMesh

pytestmark = pytest.mark.torch

AXES = ("tp", "cp", "dp", "pp")
sizes = st.sampled_from([1, 2, 2, 3, 4])


@dataclass(frozen=True)
class FakeBackend:
    """A backend that communicates nothing."""

    name: str = "fake"
    config: str = "fake"

    def why_not(self) -> None:
        return None

    def select_device(self, _placement: Placement) -> torch.device:
        import torch

        return torch.device("cpu")

    def group_options(self, _chip_map: Sequence[int] | None) -> None:
        return None


@contextmanager
def made_mesh(
    layout: ParallelLayout, rank: int
) -> Iterator[tuple[DeviceMesh, list[list[int]]]]:
    """Give our mesh and torch's process group, and the calls that made its groups."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    world = layout.world_size
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    placement = Placement(
        rank=rank, world_size=world, local_rank=0, device_id=0, local_chip_map=()
    )
    backend = FakeBackend()
    job = Job(
        Environment(rank=rank, world_size=world),
        None,
        placement,
        backend,  # type: ignore[arg-type]  # enough of one
        backend.select_device(placement),
    )
    calls: list[list[int]] = []
    new_group = dist.new_group

    def counted(ranks: list[int], **options: Any) -> object:
        calls.append(list(ranks))
        return new_group(ranks, **options)

    with pytest.MonkeyPatch.context() as patch:
        # There is nobody to compare with: one process plays one rank after another.
        patch.setattr(Job, "refuse_other_specs", lambda *_, **__: None)
        patch.setattr(dist, "new_group", counted)
        mesh = mesh_module.make_mesh(job, layout)
    try:
        yield mesh, calls
    finally:
        job.close()


@contextmanager
def device_mesh(shape: dict[str, int], rank: int, world: int) -> Iterator[DeviceMesh]:
    """Give the mesh of these axes, the slowest first, as one rank sees it."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        names = tuple(shape)
        yield init_device_mesh("cpu", tuple(shape.values()), mesh_dim_names=names)
    finally:
        dist.destroy_process_group()


@st.composite
def layouts(draw: st.DrawFn) -> ParallelLayout:
    """Draw a layout in any order of its axes."""
    return ParallelLayout(
        tp=draw(sizes),
        cp=draw(sizes),
        dp=draw(sizes),
        pp=draw(sizes),
        order="-".join(draw(st.permutations(AXES))),
    )


@given(layouts(), st.data())
@law(60)
def test_groups_and_coordinates_are_those_of_the_device_mesh(
    layout: ParallelLayout, data: st.DataObject
) -> None:
    import torch.distributed as dist

    rank = data.draw(st.integers(0, layout.world_size - 1))
    shape = {axis: layout.mesh_shape[axis] for axis in layout.mesh_shape}
    with device_mesh(shape, rank, layout.world_size) as mesh:
        here = layout.coordinates(rank)
        point = mesh.get_coordinate()  # a list or a tuple, by the version
        assert list(point or ()) == [here[axis] for axis in shape]
        for place, axis in enumerate(shape):
            group = dist.get_process_group_ranks(mesh.get_group(axis))
            assert layout.along(axis).of(rank) == group
            assert layout.along(axis).place_of(rank) == mesh.get_local_rank(axis)
            along = mesh.mesh.movedim(place, -1).reshape(-1, shape[axis])
            assert layout.groups(axis) == along.tolist()


@given(layouts(), st.data())
@law(40)
def test_groups_along_several_axes_are_those_of_a_flattened_mesh(
    layout: ParallelLayout, data: st.DataObject
) -> None:
    import torch.distributed as dist

    rank = data.draw(st.integers(0, layout.world_size - 1))
    shape = layout.mesh_shape
    chosen = data.draw(
        st.lists(st.sampled_from(AXES), min_size=2, max_size=3, unique=True)
    )
    in_order = tuple(axis for axis in shape if axis in chosen)
    with device_mesh(shape, rank, layout.world_size) as mesh:
        flat = mesh[in_order]._flatten("together")
        group = dist.get_process_group_ranks(flat.get_group())

        assert layout.along("-".join(chosen)).of(rank) == group


@given(layouts(), st.data())
@law(30)
def test_mesh_that_is_made_is_that_of_torch(
    layout: ParallelLayout, data: st.DataObject
) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    rank, other = (data.draw(st.integers(0, layout.world_size - 1)) for _ in "ab")
    names = tuple(layout.mesh_shape)
    sizes = tuple(layout.mesh_shape.values())
    with made_mesh(layout, rank) as (ours, calls):
        theirs = init_device_mesh("cpu", sizes, mesh_dim_names=names)

        assert ours == theirs
        assert ours.mesh.dtype == theirs.mesh.dtype
        assert ours.mesh.equal(theirs.mesh)
        assert ours.mesh_dim_names == theirs.mesh_dim_names
        assert ours.get_coordinate() == theirs.get_coordinate()
        for name in names:
            groups = ours.get_group(name), theirs.get_group(name)
            ranks = [dist.get_process_group_ranks(group) for group in groups]
            assert ranks[0] == ranks[1]
            assert ours.get_local_rank(name) == theirs.get_local_rank(name)
        for count in range(1, len(names) + 1):
            for chosen in combinations(names, count):
                assert ours[chosen] == theirs[chosen]
                assert ours[chosen].mesh.equal(theirs[chosen].mesh)
    with made_mesh(layout, other) as (_, calls_elsewhere):
        assert calls == calls_elsewhere  # torch's new_group is called by every rank
    assert len({tuple(ranks) for ranks in calls}) == len(calls)


def test_views_of_torchtitan_are_groups_of_its_preset() -> None:
    """Its sparse mesh is another factorisation of the same ranks."""
    layout = ParallelLayout.preset(
        "torchtitan", pp=2, dp_replicate=2, dp=4, cp=2, tp=2, ep=4
    )
    sparse = {"pp": 2, "dp_replicate": 2, "efsdp": 2, "ep": 4}
    names = {"efsdp": "edp"}
    with device_mesh(sparse, 0, layout.world_size) as mesh:
        for place, axis in enumerate(sparse):
            along = mesh.mesh.movedim(place, -1).reshape(-1, sparse[axis])
            assert layout.groups(names.get(axis, axis)) == along.tolist()
