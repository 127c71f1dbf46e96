"""The list of super pods in a table of HCCL 1.2, beside its servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.declare import SUPER_POD_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.schema.model import RankTable

PODS = "super_pod_list"


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; in a table 1.0 the key may have any value."""
    listed = value if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, dict)]


def pods_with(pods: object, hosts: set[str | None]) -> list[object]:
    """Return the super pods, with only those of their servers that are in ``hosts``."""
    found: list[object] = []
    for pod in objects(pods):
        servers = objects(pod.get("server_list"))
        own = [server for server in servers if server.get("server_id") in hosts]
        if own:
            found.append({**pod, "server_list": own})
    return found


def servers_of(pods: object) -> set[object]:
    """Return the names of all servers in super pods."""
    return {
        server.get("server_id")
        for pod in objects(pods)
        for server in objects(pod.get("server_list"))
    }


def pods_joined(pods: object, joining: Mapping[str, str]) -> list[object]:
    """Return super pods with more servers, added to these pods or to new ones.

    Args:
        pods: The super pods.
        joining: Name of the super pod of each new server.
    """
    found = [
        {**pod, "server_list": objects(pod.get("server_list"))} for pod in objects(pods)
    ]
    by_name = {str(pod.get("super_pod_id")): pod for pod in found}
    for server, name in joining.items():
        if name not in by_name:
            by_name[name] = {"super_pod_id": name, "server_list": []}
            found.append(by_name[name])
        by_name[name]["server_list"].append({"server_id": server})
    return [*found]


def pods_renamed(pods: object, new: Mapping[Any, str]) -> list[dict[str, Any]]:
    """Return super pods whose servers have other names."""
    renamed = []
    for pod in objects(pods):
        servers = [
            {**server, "server_id": new.get(name := server.get("server_id"), name)}
            for server in objects(pod.get("server_list"))
        ]
        renamed.append({**pod, "server_list": servers})
    return renamed


def pods_of_all(lists: Iterable[object]) -> dict[str, object]:
    """Return the super pods of all files as one key; pods of one name are joined."""
    pods: dict[str, dict[str, Any]] = {}
    servers: dict[str, dict[str, object]] = {}
    for pod in (pod for listed in lists for pod in objects(listed)):
        name = str(pod.get("super_pod_id"))
        pods.setdefault(name, pod)
        own = servers.setdefault(name, {})
        for server in objects(pod.get("server_list")):
            own.setdefault(str(server.get("server_id")), server)
    joined = [
        {**pod, "server_list": list(servers[name].values())}
        for name, pod in pods.items()
    ]
    return {PODS: joined} if joined else {}


def pods_of(table: RankTable) -> list[str | None]:
    """Return the super pod of every node: from the list, the node, or its chips."""
    listed: dict[str, str] = {}
    for pod in objects(table.extra.get(PODS)):
        for server in objects(pod.get("server_list")):
            listed[str(server.get("server_id"))] = str(pod.get(SUPER_POD_KEY))
    found: list[str | None] = []
    for node in table.nodes:
        first = node.devices[0].extra if node.devices else {}
        own = node.extra.get(SUPER_POD_KEY, first.get(SUPER_POD_KEY))
        found.append(listed.get(node.host or "", None if own is None else str(own)))
    return found
