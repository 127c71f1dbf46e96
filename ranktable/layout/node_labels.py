"""Groups of Kubernetes nodes by their labels: ``kubectl get nodes -o json``.

Which labels say where a node is differs between clouds. Those that every node has are
the levels, the smallest groups first; what is not a level of the others is left out.

Sources: the labels of NVIDIA's GPU operator and of topograph (node-labels.md), GCP's
topology of A3 and A4 machines, EKS's network-node-layer, and Kubernetes' well-known
labels.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.layout.boundaries import Hierarchy, Level
from ranktable.layout.rack_rules import BAD_RACKS_LINE
from ranktable.schema.document import Document
from ranktable.schema.finding import Finding
from ranktable.schema.json_parser import parse
from ranktable.schema.text import counted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.cluster.source_text import SourceText

LABELS: Final = (
    ("clique", "nvidia.com/gpu.clique"),
    ("subdomain", "accelerator.topograph.run/sub-domain"),
    ("domain", "accelerator.topograph.run/domain"),
    ("accelerator", "network.topology.nvidia.com/accelerator"),
    *((f"tier {tier}", f"fabric.topograph.run/tier-{tier}") for tier in range(8)),
    ("leaf", "network.topology.nvidia.com/leaf"),
    ("spine", "network.topology.nvidia.com/spine"),
    ("core", "network.topology.nvidia.com/core"),
    ("host", "cloud.google.com/gce-topology-host"),
    ("subblock", "cloud.google.com/gce-topology-subblock"),
    ("block", "cloud.google.com/gce-topology-block"),
    *(
        (f"layer {layer}", f"topology.k8s.aws/network-node-layer-{layer}")
        for layer in (3, 2, 1)
    ),
    ("rack", "topology.kubernetes.io/rack"),
    ("zone", "topology.kubernetes.io/zone"),
    ("region", "topology.kubernetes.io/region"),
)
"""What a group is called, and its label, the smallest groups first."""

_NODE = re.compile(r"[\"']?\bkind[\"']?\s*:\s*[\"']?Node[\"']?\s*(?:[,}\n]|$)")


def is_node_list(text: str) -> bool:
    """Whether a text holds nodes of Kubernetes."""
    return _NODE.search(text) is not None


def read_nodes(source: SourceText) -> Hierarchy | None:
    """Return the levels that the labels say, None after reporting an error."""
    labels = dict(_labels(_documents(source)))
    source.refuse_nothing(labels)
    if not source.is_sound:
        return None
    levels: list[Level] = []
    for name, label in LABELS:
        groups = {host: of.get(label, "") for host, of in labels.items()}
        if all(groups.values()) and (not levels or _lies_in(levels[-1].groups, groups)):
            levels.append(Level(name=name, groups=groups))
    if not levels:
        message = f"no label of a topology is on all {counted(len(labels), 'node')}"
        hint = "write a list of hosts and racks: n1 rack1"
        source.report(BAD_RACKS_LINE, None, message, hint=hint)
        return None
    return Hierarchy(levels=tuple(levels))


def _documents(source: SourceText) -> list[Document]:
    if source.text.lstrip()[:1] != "{":
        documents, found = parse_yaml(source.text)
        source.found.extend(found)
        return documents
    parsed = parse(source.text)
    if isinstance(parsed, Finding):
        source.found.add(parsed)
        return []
    return [Document(text=source.text, data=parsed[0])]


def _labels(documents: list[Document]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the name of every node, with its labels."""
    for document in documents:
        items = document.get("items")
        for each in items if isinstance(items, list) else [document.data]:
            node = Document(text=document.text, data=each)
            name, labels = node.get("metadata", "name"), node.get("metadata", "labels")
            if node.get("kind") == "Node" and isinstance(name, str):
                of = labels if isinstance(labels, dict) else {}
                yield name, {k: v for k, v in of.items() if isinstance(v, str)}


def _lies_in(inner: Mapping[str, str], outer: Mapping[str, str]) -> bool:
    """Whether every group lies in one group of another level."""
    around = {group: outer[host] for host, group in inner.items()}
    return all(around[group] == outer[host] for host, group in inner.items())
