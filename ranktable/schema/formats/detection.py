"""Detect the format of a document by its keys, before its module is imported."""

from __future__ import annotations

from typing import Any

SPARE_ID = 64
"""The local_id of the spare chip of HCCL 2.0."""


def is_hccl_2_0(document: dict[str, Any]) -> bool:
    """Whether a document lists ranks."""
    return "rank_list" in document


def is_rootinfo(document: dict[str, Any]) -> bool:
    """Whether a document is the driver's information about one host."""
    return "topo_file_path" in document


def is_changed(document: dict[str, Any]) -> bool:
    """Whether a document lists ranks that a spare has replaced."""
    listed, count = document.get("rank_list"), document.get("rank_count")
    if not isinstance(listed, list) or type(count) is not int:
        return False
    ranks = [one for one in listed if isinstance(one, dict)]
    numbers = [one.get("rank_id") for one in ranks]
    return any(one.get("local_id") == SPARE_ID for one in ranks) and any(
        type(number) is int and number >= count for number in numbers
    )


def is_vllm_pd(document: dict[str, Any]) -> bool:
    """Whether a document lists prefill and decode devices."""
    return "prefill_device_list" in document or "decode_device_list" in document


def is_server_groups(document: dict[str, Any]) -> bool:
    """Whether a document lists groups of servers."""
    return "server_group_list" in document


def is_topology(document: dict[str, Any]) -> bool:
    """Whether a document lists chips and links."""
    return "peer_list" in document or "edge_list" in document


def is_logical(document: dict[str, Any]) -> bool:
    """Whether a document lists nodes whose ranks have an ``item_id``."""
    nodes = document.get("node_list")
    node = nodes[0] if isinstance(nodes, list) and nodes else None
    return isinstance(node, dict) and "rank_list" in node


def is_roles(document: dict[str, Any]) -> bool:
    """Whether a document lists servers and clients."""
    return "Servers" in document and "Clients" in document


def is_gaudi(document: dict[str, Any]) -> bool:
    """Whether a document is a configuration of Habana's HCL."""
    return not {"HCL_PORT", "HCL_COUNT", "HCL_RANKS"}.isdisjoint(document)


def is_paddle_mapping(document: object) -> bool:
    """Whether a document is a list of hosts with their ranks."""
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and "ranks" in first


def is_paddle_topology(document: dict[str, Any]) -> bool:
    """Whether a document lists machines."""
    return "machines" in document


def _first(value: object) -> dict[str, Any]:
    """Return the first object of a list, or an empty one."""
    first = value[0] if isinstance(value, list) and value else None
    return first if isinstance(first, dict) else {}


def is_hccl_1_1(document: dict[str, Any]) -> bool:
    """Whether a document lists nodes with ranks on chips and on hosts."""
    has_ranks = "ranks" in _first(document.get("node_list"))
    return has_ranks or ("node_list" in document and "collective_id" in document)


def is_local_comm_res(document: dict[str, Any]) -> bool:
    """Whether a document describes one device, without ranks."""
    if "endpoint_list" in document:
        return True
    if "server_list" not in document:
        return document.get("version") == "1.3" and not (
            document.keys() - {"version", "status", "net_instance_id"}
        )
    servers = document["server_list"]
    devices = _first(servers).get("device")
    return (
        document.get("version") in ("1.0", "1.2")
        and "server_count" not in document
        and isinstance(servers, list)
        and isinstance(devices, list)
        and len(servers) == len(devices) == 1
        and bool(_first(devices))
        and "rank_id" not in _first(devices)
    )


def is_cce(document: dict[str, Any]) -> bool:
    """Whether a document lists servers, with a version of Huawei Cloud's Volcano."""
    return "server_list" in document and document.get("version") in ("1.3", "1.4")


def is_of_no_file(_: dict[str, Any]) -> bool:
    """Return False: the format is written, but never detected."""
    return False


def is_lab(document: dict[str, Any]) -> bool:
    """Whether a document lists groups in the lab form."""
    return "group_list" in document and "deploy_mode" in document


def is_cloud(document: dict[str, Any]) -> bool:
    """Whether a document lists groups in the cloud form."""
    return "group_list" in document and "deploy_mode" not in document


def is_placeholder(document: dict[str, Any]) -> bool:
    """Whether a document has a status and no nodes."""
    return "status" in document and document.keys() <= {"status", "version"}
