"""Small tables of HCCL 2.0, for the examples of rules."""

from __future__ import annotations

import json
from typing import Any


def level(
    *addresses: tuple[str, str], layer: int = 0, instance: str = "az0"
) -> dict[str, Any]:
    """Return a layer, given pairs of an address and a port."""
    return {
        "net_layer": layer,
        "net_instance_id": instance,
        "rank_addr_list": [
            {"addr_type": "IPV4", "addr": address, "ports": [port]}
            for address, port in addresses
        ],
    }


def rank(
    number: int,
    *,
    addr_type: str = "IPV4",
    levels: list[dict[str, Any]] | None = None,
    **keys: object,
) -> dict[str, object]:
    """Return an entry of rank_list."""
    levels = levels or [level((f"10.0.0.{number + 1}", "0/0"))]
    levels[0]["rank_addr_list"][0]["addr_type"] = addr_type
    plain: dict[str, object] = {
        "rank_id": number,
        "local_id": number,
        "device_id": number,
        **keys,
    }
    return {**plain, "level_list": levels}


def table(*ranks: dict[str, object], **keys: object) -> bytes:
    """Return a table with one rank on each line."""
    listed = ",\n  ".join(json.dumps(one) for one in ranks)
    head = json.dumps({"version": "2.0", "rank_count": len(ranks), **keys})
    return f'{head[:-1]}, "rank_list": [\n  {listed}]}}\n'.encode()
