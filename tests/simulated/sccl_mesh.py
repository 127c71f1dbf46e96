"""A mesh on SOPHGO's chips: what each group is told, and that it adds up."""

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from ranktable.layout import ParallelLayout
from ranktable.runtime import init_process_group, make_mesh

calls: list[tuple[list[int], list[int]]] = []
new_group = dist.new_group


def noted(ranks: list[int], **options: Any) -> object:
    calls.append((list(ranks), list(options["pg_options"].chip_map)))
    return new_group(ranks, **options)


dist.new_group = noted  # type: ignore[assignment]  # fewer parameters are used
with init_process_group("sccl", timeout_s=60) as job:
    layout = ParallelLayout(tp=2, pp=2, dp=2)
    mesh = make_mesh(job, layout)
    sums = {}
    for axis in layout.mesh_shape:
        total = torch.tensor(float(job.rank), device=job.device)
        dist.all_reduce(total, group=mesh.get_group(axis))
        sums[axis] = int(total.item())
    made = list(calls)
    dist.new_group = new_group
    names = tuple(layout.mesh_shape)
    theirs = init_device_mesh(
        job.device.type, tuple(layout.mesh_shape.values()), mesh_dim_names=names
    )
    assert mesh == theirs
    assert mesh.mesh.equal(theirs.mesh)
    for name in names:
        groups = (one.get_group(name) for one in (mesh, theirs))
        first, second = (dist.get_process_group_ranks(group) for group in groups)
        assert first == second
        assert mesh.get_local_rank(name) == theirs.get_local_rank(name)
    sys.stdout.write(json.dumps([job.rank, made, sums]) + "\n")
