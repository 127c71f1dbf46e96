"""Torch's process groups and device mesh for a parallel layout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ranktable.layout.grid import factors
from ranktable.layout.layout_errors import LayoutError
from ranktable.runtime.consensus import Spec
from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.job import as_timeout
from ranktable.runtime.torch_versions import why_no_mesh
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

    from ranktable.layout.parallel import ParallelLayout
    from ranktable.runtime.job import Job


_SHOWN = 12
"""Characters of a digest that a message shows, to distinguish lists of ranks."""


def make_mesh(
    job: Job, layout: ParallelLayout, *, timeout_s: float | None = None
) -> DeviceMesh:
    """Return torch's device mesh of a layout, with a process group for every axis.

    Its axes are those of ``layout.mesh_shape``, the slowest first, also those of one
    rank. It equals the result of ``init_device_mesh`` for that shape: the same tensor,
    names and ranks, and the same slices. In addition, every group has the chip_map of
    its own members, and axes over the same ranks share one group.

    Every rank of the job must call this with the same layout. The layouts are compared
    before the first group is made.

    Args:
        job: The job that this process has joined.
        layout: The layout, for as many ranks as the job has.
        timeout_s: Time-out of the groups' collectives; by default the backend's.

    Raises:
        BootstrapError: Another rank has another layout, or is missing; or torch is too
            old for meshes of groups.
        LayoutError: The layout has another number of ranks.
        ValueError: The time-out is not a usable number of seconds.
    """
    reason = why_no_mesh()
    if reason is not None:
        raise BootstrapError("RT401", reason)
    shape = layout.mesh_shape
    groups = make_groups(job, layout, list(shape), timeout_s=timeout_s)
    import torch
    from torch.distributed.device_mesh import DeviceMesh

    ranks = torch.arange(layout.world_size, dtype=torch.int)
    return DeviceMesh.from_group(
        [groups[axis] for axis in shape],
        job.device.type,
        mesh=ranks.view(tuple(shape.values())),
        mesh_dim_names=tuple(shape),
    )


def make_groups(
    job: Job,
    layout: ParallelLayout,
    groups: Iterable[str] | Mapping[str, Sequence[Sequence[int]]] | None = None,
    *,
    timeout_s: float | None = None,
) -> dict[str, ProcessGroup]:
    """Return the process group of this rank for every kind of group.

    Each distinct set of ranks is made once, with the chip_map of its members, in the
    same order on every rank. Torch numbers the ranks within a group in the order of the
    global ranks.

    Args:
        job: The job that this process has joined.
        layout: The layout, for as many ranks as the job has.
        groups: The axes of each kind, such as ``["tp", "dp-cp"]``, by default every
            axis of more than one rank; or lists of ranks by kind, such as those of
            ``megatron_groups``.
        timeout_s: Time-out of the groups' collectives; by default the backend's.

    Returns:
        The groups by kind, without the kinds that have no group with this rank.

    Raises:
        BootstrapError: Another rank asks for other groups, or is missing.
        LayoutError: The layout has another number of ranks, or no such axes.
        ValueError: The time-out is not a usable number of seconds.
    """
    as_timeout(timeout_s)  # raises for a wrong value
    _refuse_size(job, layout)
    if isinstance(groups, str):
        groups = [groups]
    if isinstance(groups, Mapping):
        kinds: Mapping[str, Sequence[Sequence[int]]] = groups
    else:
        wanted = layout.kinds if groups is None else groups
        kinds = {axes: layout.along(axes) for axes in wanted}
    spec = Spec(
        text=_words(layout, kinds, timeout_s),
        advice="give every rank the same layout",
        noun="layout",
    )
    job.refuse_other_specs("layout", spec, time_s=timeout_s)
    found: dict[str, ProcessGroup] = {}
    for kind, lists in kinds.items():
        for ranks in lists:
            group = job.shared_group(ranks, timeout_s=timeout_s)
            if job.rank in ranks:
                found.setdefault(kind, group)
    return found


def _refuse_size(job: Job, layout: ParallelLayout) -> None:
    if layout.world_size != job.world_size:
        sizes = {name: layout.sizes[name] for name in layout.mesh_shape}
        raise LayoutError(
            f"the layout is {factors(sizes)}, and the job has "
            f"{counted(job.world_size, 'rank')}; pass world_size={job.world_size} and "
            "-1 as one of the sizes to make a layout that fits"
        )


def _words(
    layout: ParallelLayout,
    kinds: Mapping[str, Sequence[Sequence[int]]],
    timeout_s: float | None,
) -> str:
    """Return the request of a rank as text, the same for the same groups.

    Lists of ranks are long, so the text has their digest.
    """
    lists = {kind: [list(ranks) for ranks in lists] for kind, lists in kinds.items()}
    digest = hashlib.sha256(json.dumps(lists).encode()).hexdigest()[:_SHOWN]
    sizes = factors({name: layout.sizes[name] for name in layout.mesh_shape})
    limit = "" if timeout_s is None else f" and timeout_s {timeout_s:g}"
    return f"{sizes}, the slowest first, groups {','.join(kinds)} ({digest}){limit}"
