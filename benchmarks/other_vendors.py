"""Tables of Ascend: judged and merged, beside SCCL's and what they may cost."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.budgets import Result
from benchmarks.measure import command, in_turn
from benchmarks.results import beside, growth_of_merge, in_ms
from benchmarks.tables import RING, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from benchmarks.budgets import Scale
    from benchmarks.measure import Bench, Cost

CHIPS = len(RING)
FEWER = 10
"""How many times fewer files there are, to see what one more costs."""


def measure_other_vendors(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield what judging and merging tables of HCCL costs."""
    yield _checked(bench, scale)
    yield _super_pods(bench, scale)
    for is_odd in (False, True):
        yield from _rank_list(bench, scale, is_odd=is_odd)
    folder = bench.folder / "one-node-files"
    folder.mkdir()
    files = list(_one_node_files(folder, scale.nodes))
    yield growth_of_merge(bench, "merge hccl linear", files, FEWER, scale.commands)


def _checked(bench: Bench, scale: Scale) -> Result:
    """Return ``check`` of 1.0 beside that of the same table as SCCL has it."""
    jobs = {}
    for layout in ("hccl", "addresses"):
        path = bench.folder / f"check-{layout}.json"
        write_table(path, scale.large, layout=layout)
        jobs[layout] = partial(bench.call, "check", path)
    costs = in_turn(jobs, scale.reads)
    ours, other = costs["hccl"], costs["addresses"]
    return beside("check hccl 1.0", ours, other, "SCCL's table", has_first=True)


def _super_pods(bench: Bench, scale: Scale) -> Result:
    path = bench.folder / "super-pods.json"
    path.write_text(json.dumps(super_pods(scale.pods), indent=1), encoding="utf-8")
    return in_ms("validate hccl 1.2", _validated(bench, path, scale).cpu_s)


def _rank_list(bench: Bench, scale: Scale, *, is_odd: bool) -> Iterator[Result]:
    """Yield the time and the memory of a table 2.0, which may be wrong at its end."""
    key = "validate hccl 2.0" + " odd" * is_odd
    path = bench.folder / "rank-list.json"
    write_rank_list(path, scale.rank_list, is_odd=is_odd)
    size_bytes = path.stat().st_size
    cost = _validated(bench, path, scale, status=int(is_odd))
    size = f"the file {size_bytes / 1e6:.1f} MB"
    yield in_ms(key, cost.cpu_s, size)
    nothing = in_turn({"": lambda: bench.command(command("--version"))}, 1)[""]
    peak_bytes = cost.peak_bytes - nothing.peak_bytes
    yield Result(
        key=f"{key} memory",
        figure=peak_bytes / size_bytes,
        ours=f"{peak_bytes / 1e6:.1f} MB",
        rival=size,
    )


def _one_node_files(folder: Path, nodes: int) -> Iterator[str]:
    for node in range(nodes):
        path = folder / f"{node:06}.json"
        path.write_text(json.dumps(_table([_server(node)]), indent=1), "utf-8")
        yield str(path)


def _validated(bench: Bench, path: Path, scale: Scale, *, status: int = 0) -> Cost:
    job = partial(bench.command, command("validate", str(path)), status=status)
    return in_turn({"": job}, scale.commands)[""]


def _table(servers: list[Any], **more: object) -> dict[str, object]:
    return {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": servers,
        **more,
    }


def _server(node: int) -> dict[str, Any]:
    """Return a server of version 1.0 with ranks that count on."""
    first = node * CHIPS
    devices = [
        {
            "device_id": str(chip),
            "device_ip": f"10.{node >> 13}.{node >> 5 & 255}.{(first + chip) % 256}",
            "rank_id": str(first + chip),
        }
        for chip in range(CHIPS)
    ]
    return {"server_id": f"n{node:06}", "device": devices}


def super_pods(ranks: int) -> dict[str, object]:
    """Return a table 1.2 with sixteen servers in a super pod."""
    servers = [_server(node) for node in range(ranks // CHIPS)]
    pods: dict[str, list[object]] = {}
    for node, server in enumerate(servers):
        own = pods.setdefault(str(node // 16), [])
        own.append({"server_id": server["server_id"]})
        for device in server["device"]:
            device["super_device_id"] = device["rank_id"]
    listed = [{"super_pod_id": pod, "server_list": own} for pod, own in pods.items()]
    return _table(servers, version="1.2", super_pod_list=listed)


def write_rank_list(path: Path, ranks: int, *, is_odd: bool = False) -> None:
    """Write a table 2.0; streamed, as the memory of a child is at least that of ours.

    Args:
        path: The file.
        ranks: Number of ranks.
        is_odd: Whether the last rank has an EID that is not one.
    """
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"version": "2.0", "rank_count": {ranks}, "rank_list": [\n')
        file.writelines(_entries(ranks, is_odd=is_odd))
        file.write("]}\n")


def _entries(ranks: int, *, is_odd: bool) -> Iterable[str]:
    for rank in range(ranks):
        is_last = rank == ranks - 1
        text = json.dumps(_rank(rank), indent=1)
        if is_odd and is_last:
            text = text.replace(f"{rank * CHIPS:032x}", "x")
        yield text + ("\n" if is_last else ",\n")


def _rank(rank: int) -> dict[str, object]:
    networks = (
        (0, f"az0-rack0-server{rank // CHIPS}", "TOPO_FILE_DESC", range(2)),
        (1, "az0", "CLOS", range(2, 4)),
    )
    levels = [
        {
            "net_layer": layer,
            "net_instance_id": name,
            "net_type": type_,
            "net_attr": "",
            "rank_addr_list": [
                {
                    "addr_type": "EID",
                    "addr": f"{rank * CHIPS + port:032x}",
                    "ports": [f"0/{port}"],
                    "plane_id": str(port),
                }
                for port in ports
            ],
        }
        for layer, name, type_, ports in networks
    ]
    chip = rank % CHIPS
    return {"rank_id": rank, "local_id": chip, "device_id": chip, "level_list": levels}
