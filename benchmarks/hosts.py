"""Host lists: the worst shape of a hundred thousand hosts, both ways."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.results import best, in_ms
from ranktable.cluster import expand_hosts, fold_hosts
from ranktable.cluster.hostfiles.launcher_formats import detect_formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.budgets import Result, Scale
    from benchmarks.measure import Bench

REPEATS = 3


def _shapes(hosts: int) -> dict[str, str]:
    """Return lists of this many hosts that fold well, badly and not at all."""
    racks = hosts // 100
    return {
        "one range": ",".join(
            f"n[{start:06}-{min(start + 50_000, hosts) - 1:06}]"
            for start in range(0, hosts, 50_000)
        ),
        "racks": f"rack[1-{racks}]n[1-100]",
        "a bracket a host": ",".join(f"n[{host}]-ib" for host in range(hosts)),
        "a bracket a pair": ",".join(f"r{rack}n[1-2]" for rack in range(hosts // 2)),
        "brackets a pair": ",".join(
            f"r[{2 * rack}-{2 * rack + 1}]n[7]-x" for rack in range(hosts // 2)
        ),
        "brackets a host": ",".join(
            f"r[{host % 97}]n[{host}]-ib[0]" for host in range(hosts)
        ),
        "scattered": "n[" + ",".join(f"{7 * host:07}" for host in range(hosts)) + "]-x",
        "many numbers": ",".join("-".join([str(host)] * 9) for host in range(hosts)),
        "every second": ",".join(f"n{2 * host}" for host in range(hosts)),
        "no two alike": ",".join(f"n{host}-ib{host % 7}" for host in range(hosts)),
    }


def measure_hosts(_bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the slowest shape of expanding, of folding, and of telling a format."""
    yield _detection(scale)
    lists = _shapes(scale.large)
    expanded = {name: expand_hosts(text) for name, text in lists.items()}
    calls: dict[str, dict[str, Callable[[], object]]] = {
        "expand": {name: partial(expand_hosts, text) for name, text in lists.items()},
        "fold": {name: partial(fold_hosts, hosts) for name, hosts in expanded.items()},
    }
    for key, by_shape in calls.items():
        costs = {name: best(call, REPEATS) for name, call in by_shape.items()}
        worst = max(costs, key=lambda name: costs[name])
        yield in_ms(f"hosts {key}", costs[worst], note=f" ({worst})")


FILLERS = ("\n", ",", "[", "{", "0", "7", " ")


def _detection(scale: Scale) -> Result:
    """Return the slowest text of one character after a host line."""
    costs = {}
    for filler in FILLERS:
        text = "n1 slots=4\n" + filler * (scale.fill_mib << 20)
        costs[filler] = best(partial(detect_formats, text), 1)
    worst = max(costs, key=lambda filler: costs[filler])
    return in_ms("detect", costs[worst], note=f" ({worst!r})")
