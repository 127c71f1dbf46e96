"""Layouts against torch's own device mesh, for random sizes and orders.

The mesh is made by ``init_device_mesh`` in one process that plays any rank of a world
of a fake process group, whose communication does nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranktable.layout import ParallelLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.distributed.device_mesh import DeviceMesh

pytestmark = pytest.mark.torch

AXES = ("tp", "cp", "dp", "pp")
sizes = st.sampled_from([1, 2, 2, 3, 4])


@contextmanager
def device_mesh(shape: dict[str, int], rank: int, world: int) -> Iterator[DeviceMesh]:
    """Give the mesh of these axes, the slowest first, as one rank sees it."""
    import torch.distributed as dist  # noqa: PLC0415 - torch is an extra
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

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
@settings(max_examples=60, deadline=None)
def test_groups_and_coordinates_are_those_of_the_device_mesh(
    layout: ParallelLayout, data: st.DataObject
) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

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
@settings(max_examples=40, deadline=None)
def test_groups_along_several_axes_are_those_of_a_flattened_mesh(
    layout: ParallelLayout, data: st.DataObject
) -> None:
    import torch.distributed as dist  # noqa: PLC0415 - torch is an extra

    rank = data.draw(st.integers(0, layout.world_size - 1))
    shape = layout.mesh_shape
    chosen = data.draw(
        st.lists(st.sampled_from(AXES), min_size=2, max_size=3, unique=True)
    )
    in_order = tuple(axis for axis in shape if axis in chosen)
    with device_mesh(shape, rank, layout.world_size) as mesh:
        flat = mesh[in_order]._flatten("together")  # noqa: SLF001 - torch has no other
        group = dist.get_process_group_ranks(flat.get_group())

        assert layout.along("-".join(chosen)).of(rank) == group


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
