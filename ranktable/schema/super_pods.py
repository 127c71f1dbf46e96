"""The list of super pods in a table of HCCL 1.2: read into nodes, written from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.declare import SUPER_POD_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.schema.declare import Format

PODS = "super_pod_list"


def reads_pods(format_: Format) -> bool:
    """Whether tables of a format list super pods."""
    return any(field.key == PODS for field in format_.table_fields)


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; in a table 1.0 the key may have any value."""
    listed = value if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, dict)]


def listed_pods(pods: object) -> dict[str, str]:
    """Return the super pod of every server in a list of super pods."""
    return {
        str(server.get("server_id")): str(pod.get(SUPER_POD_KEY))
        for pod in objects(pods)
        for server in objects(pod.get("server_list"))
    }


def named_pod(*places: Mapping[str, object]) -> str | None:
    """Return the super pod that a key of a node or else of its first device names."""
    named = next((one[SUPER_POD_KEY] for one in places if SUPER_POD_KEY in one), None)
    return None if named is None else str(named)


def spelt_pods(
    servers: Iterable[tuple[str | None, str | None]], read: object
) -> list[dict[str, Any]]:
    """Return the super pods of some servers as plain data.

    Args:
        servers: Each server and its super pod, None for one that is in none.
        read: The list as it was read. Its order and its other keys stay; super pods of
            one name are joined.
    """
    left = {host: pod for host, pod in servers if pod is not None}
    found: dict[str | None, dict[str, Any]] = {}
    for pod in objects(read):
        name = str(pod.get(SUPER_POD_KEY))
        own = found.setdefault(name, {**pod, "server_list": []})["server_list"]
        for server in objects(pod.get("server_list")):
            host = server.get("server_id")
            if left.get(host) == name:
                own.append(server)
                del left[host]
    for host, pod_name in left.items():
        new = {SUPER_POD_KEY: pod_name, "server_list": []}
        found.setdefault(pod_name, new)["server_list"].append({"server_id": host})
    return [pod for pod in found.values() if pod["server_list"]]
