"""Super pods that a table itself names: ``super_pod_list``, or a key of every node.

The ranks of one super pod have to follow each other; HCCL refuses any other order.

Source: Ascend's rank table 1.2, ``super_pod_list[].server_list[].server_id``, and
envref_07_0100, HCCL_LOGIC_SUPERPOD_ID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.boundaries import Boundary, make_boundary
from ranktable.layout.errors import LayoutError
from ranktable.schema.format import SUPER_POD_KEY as _ID
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.model import Node, RankTable

_LIST = "super_pod_list"
_SHAPE = (
    f"{_LIST} is not a list of objects with {_ID} and a server_list of server_id, so "
    "it says nothing about super pods"
)


def super_pods(table: RankTable) -> Boundary | None:
    """Return the boundary between the super pods of a table, None where it has none.

    Raises:
        LayoutError: They are spelt in another way, or a node is in none or in two.
    """
    pods = table.extra.get(_LIST)
    found: list[object]
    if pods is None:
        found = table.extras_of_nodes(_ID)
        if all(pod is None for pod in found):
            return None
    else:
        of_server: dict[str, str] = {}
        for server, name in _servers(pods):
            if of_server.setdefault(server, name) != name:
                raise LayoutError(
                    f"the server {printable(server)} is in the super pods "
                    f"{printable(of_server[server])} and {printable(name)}"
                )
        found = [_pod_of(node, of_server) for node in table.nodes]
    for node_rank, pod in enumerate(found):
        if not isinstance(pod, str) or not pod:
            raise LayoutError(f"node {node_rank} is in no super pod, and others are")
    return make_boundary("super pod", [str(pod) for pod in found], is_contiguous=True)


def _servers(pods: object) -> Iterator[tuple[str, str]]:
    """Yield every server with its super pod."""
    for pod in pods if isinstance(pods, list) else [None]:
        name = pod.get(_ID) if isinstance(pod, dict) else None
        servers = pod.get("server_list") if isinstance(pod, dict) else None
        if not isinstance(name, str) or not isinstance(servers, list):
            raise LayoutError(_SHAPE)
        for server in servers:
            one = server.get("server_id") if isinstance(server, dict) else None
            if not isinstance(one, str):
                raise LayoutError(_SHAPE)
            yield one, name


def _pod_of(node: Node, of_server: dict[str, str]) -> object:
    server = node.extra.get("server_id", node.host)
    return of_server.get(str(server))
