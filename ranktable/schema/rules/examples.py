"""Small tables for the examples of rules."""

from __future__ import annotations


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


PAIR = chips(0, 1)
