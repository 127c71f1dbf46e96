"""Labels of Kubernetes nodes: what ``kubectl get nodes -o json`` prints.

A label that gives the location of a node becomes a level: region and zone, and the
blocks, racks and switches of clouds, of Kueue's examples and of topograph. A label that
some workers lack is ignored, and of two equal labels the better known one is kept.
Nodes of the control plane are ignored: they run no jobs and often have fewer labels.

Source: kubernetes.io, Well-Known Labels; Kueue's Topology; NVIDIA's topograph, Node
Labels.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.kubernetes_manifests import documents_in
from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.cluster.source_text import SourceText

HOSTNAME = "kubernetes.io/hostname"

_CONTROL_PLANE = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",  # until Kubernetes 1.24
)

_KNOWN = {
    "topology.kubernetes.io/region": "region",
    "topology.kubernetes.io/zone": "zone",
    "topology.k8s.aws/network-node-layer-1": "layer-1",
    "topology.k8s.aws/network-node-layer-2": "layer-2",
    "topology.k8s.aws/network-node-layer-3": "layer-3",
    "cloud.google.com/gce-topology-block": "block",
    "cloud.google.com/gce-topology-subblock": "subblock",
    "cloud.google.com/gce-topology-host": "host",
    "network.topology.nvidia.com/core": "core",
    "network.topology.nvidia.com/spine": "spine",
    "network.topology.nvidia.com/leaf": "leaf",
    "network.topology.nvidia.com/accelerator": "accelerator",
}
"""Labels and the names of their levels."""

_LARGEST_FIRST = (
    *("region", "zone", "core", "layer-1", "spine", "block", "row", "pod", "layer-2"),
    *("subblock", "leaf", "switch", "rack", "layer-3", "accelerator", "chassis"),
    "host",
)
_PLACE = re.compile(
    r"(?:^|[-_./])(block|row|pod|subblock|leaf|switch|rack|chassis)(?:[-_]?(?:id|name))?"
)
"""The end of any other label that gives a location: ``example.com/rack``."""


def read_kubernetes_nodes(source: SourceText) -> Hierarchy | None:
    """Return the levels of the labels of nodes, None after reporting an error."""
    hosts: dict[str, str] = {}
    labels: dict[str, Mapping[str, object]] = {}
    for document in documents_in(source):
        for path, item in _items(document.data):
            if item.get("kind", "Node") != "Node":
                continue
            name = document.text(*path, "metadata", "name")
            found = document.get(*path, "metadata", "labels")
            own = found if isinstance(found, dict) else {}
            if name is None:
                continue
            if name in labels:
                message = f"the node {quoted(name)} is listed twice"
                place = document.span_of(*path, "metadata", "name")
                source.report(rules.HOST_TWICE, place, message)
            labels[name] = own
            hosts[name] = name
            other = own.get(HOSTNAME)
            if isinstance(other, str):
                hosts.setdefault(other, name)
    source.refuse_nothing(labels)
    if not source.is_sound:
        return None
    workers = {
        name: own
        for name, own in labels.items()
        if own.keys().isdisjoint(_CONTROL_PLANE)
    }
    counted = workers or labels
    levels = _levels(counted)
    if not levels:
        source.report(
            rules.WRONG_FIELD,
            None,
            f"no label that all nodes have says where they are{_lacking(counted)}",
            hint="topology.kubernetes.io/zone and labels that end in rack or block do",
        )
        return None
    return Hierarchy(
        levels=tuple(
            Level(
                name=name,
                groups={host: of[node] for host, node in hosts.items() if node in of},
            )
            for name, of in levels
        )
    )


def _items(data: object) -> Iterator[tuple[tuple[str | int, ...], dict[str, object]]]:
    """Yield every node of a list, or the only node of a document."""
    items = data.get("items") if isinstance(data, dict) else None
    if isinstance(items, list):
        for at, item in enumerate(items):
            if isinstance(item, dict):
                yield ("items", at), item
    elif isinstance(data, dict):
        yield (), data


def _lacking(labels: Mapping[str, Mapping[str, object]]) -> str:
    """Return which node lacks a label that others have, as the end of a message."""
    for label in sorted({label for own in labels.values() for label in own}):
        if label in _KNOWN or _ends_with_a_place(label):
            name = next(name for name, own in labels.items() if label not in own)
            return f"; {quoted(name)} has no {quoted(label)}, which others have"
    return ""


def _ends_with_a_place(label: str) -> str | None:
    """Return the kind of location at the end of a label, None if there is none."""
    ends = [match[1] for match in _PLACE.finditer(label) if match.end() == len(label)]
    return ends[0] if ends else None


def _is_within(inner: Mapping[str, str], outer: Mapping[str, str]) -> bool:
    """Whether every group of one label lies in one group of another."""
    return len(set(inner.values())) == len(
        {(inner[node], outer[node]) for node in inner}
    )


def _levels(
    labels: Mapping[str, Mapping[str, object]],
) -> list[tuple[str, dict[str, str]]]:
    """Return the levels with the group of every node, the smallest groups first.

    A group is identified by all labels around it, because racks of two zones may have
    the same name.
    """
    shared = set.intersection(*(set(own) for own in labels.values()))
    found = [(label, _KNOWN[label]) for label in _KNOWN if label in shared]
    for label in sorted(shared - _KNOWN.keys()):
        kind = _ends_with_a_place(label)
        found += [] if kind is None else [(label, kind)]
    values = {
        label: {node: str(own[label]) for node, own in labels.items()}
        for label, _ in found
    }
    found.sort(key=lambda pair: _LARGEST_FIRST.index(pair[1]))
    for at in range(1, len(found)):  # a label that contains another comes after it
        for place in range(at, 0, -1):
            outer, inner = (values[found[one][0]] for one in (place - 1, place))
            if _is_within(inner, outer) or not _is_within(outer, inner):
                break
            found[place - 1 : place + 1] = found[place], found[place - 1]
    levels: list[tuple[str, dict[str, str]]] = []
    around = dict.fromkeys(labels, "")
    for label, name in found:
        groups = {
            node: f"{around[node]}/{value}".strip("/")
            for node, value in values[label].items()
        }
        if levels and len(set(groups.values())) == len(set(around.values())):
            continue  # it repeats the level before
        taken = {one for one, _ in levels}
        levels.append((name if name not in taken else label, groups))
        around = groups
    return levels[::-1]
