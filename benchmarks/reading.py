"""Reading a table in a training process, beside what scripts do today."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.budgets import LAYOUTS, Result
from benchmarks.measure import in_turn
from benchmarks.results import beside, in_ms
from benchmarks.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench, Cost

RIVALS = {"loop": "json.load + loop", "orjson": "orjson.loads"}


def measure_reading(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results of ``read_rank_table``."""
    for size, ranks in (("medium", scale.medium), ("large", scale.large)):
        for layout in LAYOUTS:
            path = bench.folder / f"{size}-{layout}.json"
            write_table(path, ranks, layout=layout)
            costs = in_turn(
                {name: partial(bench.call, name, path) for name in ("read", *RIVALS)},
                scale.reads,
            )
            for rival, name in RIVALS.items():
                key = f"read {size} {layout} {rival}"
                yield beside(key, costs["read"], costs[rival], name, has_first=True)
            if size == "large":
                yield _remembered(
                    f"read {size} {layout} memory", costs, path.stat().st_size
                )

            if (size, layout) == ("large", "hosts"):
                cost = bench.call("bring-up", path, scale.reads)
                first = cost.first_s * 1e3
                yield replace(in_ms("bring-up", cost.cpu_s), first=first)


def _remembered(key: str, costs: dict[str, Cost], size_bytes: int) -> Result:
    ours, theirs = costs["read"], costs["loop"]
    return Result(
        key=key,
        figure=ours.peak_bytes / size_bytes,
        ours=f"{ours.peak_bytes / 1e6:.1f} MB",
        rival=f"the file {size_bytes / 1e6:.1f} MB; {RIVALS['loop']} "
        f"{theirs.peak_bytes / 1e6:.1f} MB",
    )
