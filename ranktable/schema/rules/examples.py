"""Small tables for the examples of rules."""

from __future__ import annotations

import json
from typing import Any


def one_node(*devices: str, head: str = '"version":"1.0",') -> bytes:
    """Return an example: a table of one node, one device a line."""
    return nodes(devices, head=head)


def nodes(*node_list: tuple[str, ...], head: str = '"version":"1.0",') -> bytes:
    """Return an example: a table of several nodes, one device a line."""
    bodies = [
        '{"device_list":[\n  ' + ",\n  ".join(devices) + "]}" for devices in node_list
    ]
    return ("{" + head + '"node_list":[' + ",\n ".join(bodies) + "]}\n").encode()


def chips(*device_ids: int) -> bytes:
    """Return an example: one node with these chips, ranks in file order."""
    return one_node(
        *(device(device_id, rank) for rank, device_id in enumerate(device_ids))
    )


def device(device_id: int | str, rank: int | str) -> str:
    """Return an example: one device."""
    return f'{{"device_id":"{device_id}","rank":"{rank}","world_rank":"{rank}"}}'


def hccl_server(
    name: str, *devices: tuple[int | str, int | str, str | None], more: str = ""
) -> str:
    """Return an example: a server of HCCL with (chip, rank, address) of its devices."""
    listed = ",\n   ".join(
        f'{{"device_id":"{chip}",'
        + (f'"device_ip":"{address}",' if address is not None else "")
        + f'"rank_id":"{rank}"}}'
        for chip, rank, address in devices
    )
    return f'{{"server_id":"{name}",{more}"device":[\n   {listed}]}}'


def hccl_table(
    *servers: str, status: str = "completed", version: str = "1.0", more: str = ""
) -> bytes:
    """Return an example: a table of HCCL with these servers."""
    listed = ",\n  ".join(servers)
    return (
        f'{{"status":"{status}","version":"{version}","server_count":"{len(servers)}",'
        f'\n"server_list":[\n  {listed}]{more}}}\n'
    ).encode()


def pods_table(
    addresses: tuple[str | None, str | None] = ("10.0.0.1", "10.0.0.2"),
    *,
    ids: tuple[str | None, str | None] = ("1", "2"),
    pods: tuple[tuple[str, str], ...] = (("0", "n1"), ("1", "n2")),
    version: str = "1.2",
) -> bytes:
    """Return an example: servers n1 and n2 with one device each, and super pods."""
    servers = []
    for rank, (address, super_id) in enumerate(zip(addresses, ids, strict=True)):
        chip = "0" if super_id is None else f'0","super_device_id":"{super_id}'
        servers.append(hccl_server(f"n{rank + 1}", (chip, rank, address)))
    of_pods: dict[str, list[str]] = {}
    for pod, server in pods:
        of_pods.setdefault(pod, []).append(f'{{"server_id":"{server}"}}')
    listed = ",\n  ".join(
        f'{{"super_pod_id":"{pod}","server_list":[{",".join(names)}]}}'
        for pod, names in of_pods.items()
    )
    more = f',\n"super_pod_list":[\n  {listed}]' if pods else ""
    return hccl_table(*servers, version=version, more=more)


PAIR = chips(0, 1)


def level_2_0(
    *addresses: tuple[str, str], layer: int = 0, instance: str = "az0"
) -> dict[str, Any]:
    """Return a layer of HCCL 2.0, given pairs of an address and a port."""
    return {
        "net_layer": layer,
        "net_instance_id": instance,
        "rank_addr_list": [
            {"addr_type": "IPV4", "addr": address, "ports": [port]}
            for address, port in addresses
        ],
    }


def rank_2_0(
    number: int,
    *,
    addr_type: str = "IPV4",
    levels: list[dict[str, Any]] | None = None,
    **keys: object,
) -> dict[str, object]:
    """Return an entry of rank_list of HCCL 2.0."""
    levels = levels or [level_2_0((f"10.0.0.{number + 1}", "0/0"))]
    levels[0]["rank_addr_list"][0]["addr_type"] = addr_type
    plain: dict[str, object] = {
        "rank_id": number,
        "local_id": number,
        "device_id": number,
        **keys,
    }
    return {**plain, "level_list": levels}


def table_2_0(*ranks: dict[str, object], **keys: object) -> bytes:
    """Return a table of HCCL 2.0 with one rank on each line."""
    listed = ",\n  ".join(json.dumps(one) for one in ranks)
    head = json.dumps({"version": "2.0", "rank_count": len(ranks), **keys})
    return f'{head[:-1]}, "rank_list": [\n  {listed}]}}\n'.encode()
