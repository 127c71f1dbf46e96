"""Read a topology file: from its bytes to levels, or to findings."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ranktable.cluster.source_text import read_source
from ranktable.schema.json_parser import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.cluster.source_text import SourceText
    from ranktable.layout.boundaries import Hierarchy
    from ranktable.schema.diagnostic import Report

MAX_SIZE_BYTES = 8 * 1024 * 1024
"""A line for each of 100,000 hosts is 3 MB; as YAML this is read in seconds."""

MAX_JSON_BYTES = 256 * 1024 * 1024
"""``kubectl get nodes -o json`` prints some 20 kB for every node."""

DEFAULT_LIMIT = 20
"""Most findings of each code that are located and shown."""


class TopologyFormat(NamedTuple):
    """One format of topology files; its reader is imported when it is needed.

    Attributes:
        name: Its name.
        looks: A pattern that matches texts in this format.
        module: Name of the module of its reader, in this package.
        reader: Name of the function that returns the levels, or None after reporting
            errors.
    """

    name: str
    looks: re.Pattern[str]
    module: str
    reader: str

    def is_known_by(self, text: str) -> bool:
        """Whether a text matches the pattern of this format."""
        return self.looks.search(text) is not None

    def read(self, source: SourceText) -> Hierarchy | None:
        """Return the levels of a text, None after reporting errors."""
        module = import_module(f"ranktable.layout.topologies.{self.module}")
        read: Callable[[SourceText], Hierarchy | None] = getattr(module, self.reader)
        return read(source)


TOPOLOGY_FORMATS = (
    TopologyFormat(
        "kubernetes-nodes",
        re.compile(
            r"""(?:^|[{,])[ \t]*["']?kind["']?[ \t]*:[ \t]*["']?Node(?:List)?["']?"""
            r"""[ \t]*(?:[,}]|$)"""
            # A list without nodes only has its own kind.
            r"""|\A\s*\{(?=[^{}]*["']items["']\s*:)[^{}]*["']kind["']\s*:\s*["']List["']""",
            re.MULTILINE,
        ),
        "kubernetes_nodes",
        "read_kubernetes_nodes",
    ),
    TopologyFormat(
        "slurm-topology-conf",
        re.compile(
            r"^[ \t]*(?:SwitchName|BlockName|BlockSizes)[ \t]*=",
            re.IGNORECASE | re.MULTILINE,
        ),
        "slurm_conf",
        "read_slurm_conf",
    ),
    TopologyFormat(
        "slurm-topology-yaml",
        re.compile(r"^[ \t]*(?:-[ \t]+topology[ \t]*:|---[ \t]*$)", re.MULTILINE),
        "slurm_yaml",
        "read_slurm_yaml",
    ),
    TopologyFormat("host-columns", re.compile(""), "host_columns", "read_columns"),
)
"""The formats, in the order in which a text is compared with them."""


def read_topology(
    data: bytes, *, file: str, limit: int | None = DEFAULT_LIMIT
) -> tuple[Report, Hierarchy | None]:
    """Return the findings in a topology, and its levels if there is no error."""
    # The limit is larger for JSON, which is read faster.
    most_bytes = MAX_JSON_BYTES if data[:1] == b"{" else MAX_SIZE_BYTES
    decoded = decode(data) if len(data) <= most_bytes else None
    text = decoded[0] if isinstance(decoded, tuple) else ""
    kind = next(kind for kind in TOPOLOGY_FORMATS if kind.is_known_by(text))
    report, hierarchy, _ = read_source(
        data,
        kind.read,
        file=file,
        name=kind.name,
        limit=limit,
        max_size_bytes=most_bytes,
    )
    return report, hierarchy
