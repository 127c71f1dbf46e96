"""Parallel layouts: groups, coordinates, communicators and the order of chips.

Beside them what a user would run instead: lists made index by index, as the generators
of ranks of the training libraries make them, a topology that finds a coordinate by
looking through all points, and torch's own device mesh of a fake process group.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from benchmarks.budgets import LOSS_JOBS, Result
from benchmarks.measure import ROOT
from benchmarks.results import best, in_ms, per_item, seconds
from ranktable.cluster.generate import make_table
from ranktable.layout import (
    Model,
    ParallelLayout,
    communicators,
    make_boundary,
    make_plan,
    megatron_groups,
    model_flows,
)
from ranktable.layout.boundaries import counted_levels
from ranktable.layout.change import CostFacts, fit
from ranktable.schema.topology import best_order, blocks, linked
from ranktable.schema.writing import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench
    from ranktable.layout import Plan
    from ranktable.schema.model import RankTable

REPEATS = 5
NODE = 8
CHIPS = 64
NODES_OF_A_RACK = 32
MODEL = Model(layers=96, hidden=12288, sequence=4096, microbatches=64)
KINDS = ("tp", "cp", "dp", "pp", "dp-cp", "tp-pp", "tp-dp-cp", "tp-dp", "tp-cp")
"""The groups along axes that Megatron makes for everything but the experts."""


def measure_layouts(_bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results of layouts."""
    small, large = _layout(scale.layout), _layout(scale.layouts)
    every = best(lambda: megatron_groups(small))
    yield in_ms("layout groups", every, _meshes())
    ours = best(lambda: [small.groups(axes) for axes in KINDS])
    theirs = best(lambda: _indexed(small))
    yield Result(
        key="layout lists",
        figure=ours / theirs,
        ours=seconds(ours),
        rival=f"index by index {seconds(theirs)}",
    )
    yield _coordinates(small)
    per_rank = [every / small.world_size, best(lambda: megatron_groups(large))]
    per_rank[1] /= large.world_size
    yield per_item("layout linear", per_rank[1], per_rank[0])
    yield _communicators(scale.large // NODE)
    yield from _plans(scale)
    yield from _changes(scale.changed)
    yield from _losses()
    yield _chip_order()


def _layout(ranks: int) -> ParallelLayout:
    return ParallelLayout(tp=8, cp=4, pp=16, ep=8, etp=1, dp=-1, world_size=ranks)


def _indexed(layout: ParallelLayout) -> list[list[list[int]]]:
    """Return the same lists, every rank worked out from its two indices."""
    names = tuple(reversed(layout.mesh_shape))
    sizes = [layout.mesh_shape[name] for name in names]
    strides = [prod(sizes[:place]) for place in range(len(sizes))]
    found = []
    for axes in KINDS:
        inside = [p for p, name in enumerate(names) if name in axes.split("-")]
        outside = [p for p in range(len(names)) if p not in inside]
        width = prod(sizes[p] for p in inside)
        found.append(
            [
                [
                    _rank(index, outside, sizes, strides)
                    + _rank(place, inside, sizes, strides)
                    for place in range(width)
                ]
                for index in range(layout.world_size // width)
            ]
        )
    return found


def _rank(
    index: int, places: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> int:
    rank = 0
    for place in places:
        index, coordinate = divmod(index, sizes[place])
        rank += coordinate * strides[place]
    return rank


def _coordinates(layout: ParallelLayout) -> Result:
    """Compare the coordinates of some ranks with looking through all points."""
    names, sizes = zip(*layout.mesh_shape.items(), strict=True)
    points = dict(
        zip(product(*map(range, sizes)), range(layout.world_size), strict=True)
    )
    ranks = range(0, layout.world_size, layout.world_size // 64)

    def search() -> None:
        for rank in ranks:
            point = next(point for point, owner in points.items() if owner == rank)
            dict(zip(names, point, strict=True))

    ours = best(lambda: [layout.coordinates(rank) for rank in ranks]) / len(ranks)
    theirs = best(search) / len(ranks)
    return per_item("layout coordinates", ours, theirs, " for looking through all")


def _communicators(nodes: int) -> Result:
    """Time what one process asks: its groups, with their chips and nodes."""
    layout = ParallelLayout(tp=NODE, dp=-1, world_size=nodes * NODE)
    times = []
    for _ in range(REPEATS):
        table = make_table([range(NODE)] * nodes)  # one that has looked up nothing yet
        start = time.process_time()
        for one in communicators(table, layout).of_rank(layout.world_size - 1):
            _ = one.chip_map, one.nodes, one.coordinates
        times.append(time.process_time() - start)
    return in_ms("communicators", min(times))


def _plans(scale: Scale) -> Iterator[Result]:
    """Time placing anew, and what is shown of a placement that stays."""

    def placed() -> None:
        plan = _plan(scale.plan, scattered=True)
        assert plan.is_better
        plan.costs.summary(plan.after)

    yield in_ms("plan", best(placed, repeats=1))
    per_rank = [
        best(partial(_shown, ranks), repeats=2) / ranks
        for ranks in (scale.plan, scale.layouts)
    ]
    yield per_item("plan linear", per_rank[1], per_rank[0])


def _shown(ranks: int) -> None:
    plan = _plan(ranks, scattered=False)
    plan.costs.summary(plan.before)
    plan.costs.totals(plan.before)


def _plan(ranks: int, *, scattered: bool) -> Plan:
    """Return the plan of nodes that are dealt to racks one by one, or rack by rack."""
    nodes = ranks // NODE
    racks = max(nodes // NODES_OF_A_RACK, 2)
    layout = ParallelLayout(tp=NODE, cp=2, pp=4, dp=-1, world_size=ranks)
    places = (
        node % racks if scattered else node * racks // nodes for node in range(nodes)
    )
    rack = make_boundary("rack", [str(place) for place in places])
    table = make_table([range(NODE)] * nodes)
    flows = model_flows(MODEL, layout)
    return make_plan(table, layout, flows=flows, boundaries=[rack])


def _changes(ranks: int) -> Iterator[Result]:
    """Time what comes of the loss of a sixteenth, up to the bytes of the file.

    Nvidia's resiliency extension allows its own reassignment of as many ranks 1 s.
    """
    hosts = [f"n{place}" for place in range(ranks // NODE)]
    table = make_table([range(NODE)] * len(hosts), hosts=hosts)
    layout = ParallelLayout(tp=NODE, pp=16, dp=-1, world_size=ranks)
    lost = hosts[::16]
    # Nodes of every size: after their loss, no node of one size fits where another was.
    dead: dict[str, list[int]] = {}
    for chip in random.Random(0).sample(range(ranks), ranks // 16):  # noqa: S311 - no secret
        dead.setdefault(hosts[chip // NODE], []).append(chip % NODE)
    alone_dp = ParallelLayout(dp=ranks)
    calls: dict[str, Callable[[], RankTable]] = {
        "dp only, sixteenth node": lambda: fit(table, alone_dp, lost=lost).table,
        "dp only, sixteenth chip or so": lambda: (
            fit(table, alone_dp, lost_chips=dead).table
        ),
        "tp and pp, sixteenth node": lambda: fit(table, layout, lost=lost).table,
    }
    for name, call in calls.items():
        whole = best(lambda call=call: dumps(call()))  # type: ignore[misc]  # a default
        alone = f"without judging and encoding {seconds(best(call))}"
        yield in_ms(f"change {name}", whole, alone)


def _losses() -> Iterator[Result]:
    """Yield what realistic jobs move when they lose nodes, and the time of that."""
    for name, job in LOSS_JOBS.items():
        hosts = [f"n{place}" for place in range(len(job.nodes))]
        table = make_table(list(map(range, job.nodes)), hosts=hosts)
        size = sum(job.nodes)
        layout = ParallelLayout(**{**job.sizes, "dp": -1, "world_size": size})  # type: ignore[arg-type]  # by name
        racks = counted_levels(f"rack={job.rack}", hosts) if job.rack else None
        facts = CostFacts(racks=racks)
        lost = [hosts[at] for at in job.lost]
        call = partial(fit, table, layout, lost=lost, facts=facts)
        yield in_ms(f"lost {name} time", best(call, repeats=2))
        changed = call().diff
        for what, figure in (
            ("loads", len(changed.role_moves)),
            ("moves", len(changed.rank_moves)),
        ):
            yield Result(
                key=f"lost {name} {what}", figure=figure, ours=str(figure), rival="-"
            )


def _chip_order() -> Result:
    """Search what is not there: rings of sixteen on the way around a long ladder."""
    rails = [(chip, chip + 2) for chip in range(CHIPS - 2)]
    rungs = [(chip, chip + 1) for chip in range(0, CHIPS, 2)]
    ladder = linked("ladder", CHIPS, [*rails, *rungs])
    ring = [*range(0, CHIPS, 2), *range(CHIPS - 1, 0, -2)]
    groups = blocks(CHIPS, 16)
    cost = best(lambda: best_order(ladder, ring, groups), repeats=1)
    return in_ms("chip order", cost)


def _meshes() -> str:
    """Return what torch's device mesh costs, which makes the groups of one rank."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.device_mesh"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return "-"  # torch is not installed
    return f"torch DeviceMesh, 4 kinds of one rank {seconds(float(done.stdout))}"
