"""Read a topology file: from its bytes to levels, or to findings."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ranktable.cluster.source_text import SourceText
from ranktable.schema.diagnostic import Finding, Quota, Report, make_report
from ranktable.schema.json_parser import decode
from ranktable.schema.rules.syntax import TOO_LARGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.layout.boundaries import Hierarchy

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
    quota = Quota(limit)
    decoded: Finding | tuple[str, list[Finding]] = (
        decode(data)
        if len(data) <= _most_bytes(data)
        else TOO_LARGE.finding(
            None, f"the file is larger than {_most_bytes(data)} bytes"
        )
    )
    if isinstance(decoded, Finding):
        shown = data.decode("utf-8", "replace") if decoded.span else None
        name = TOPOLOGY_FORMATS[-1].name
        report = make_report(
            [decoded], file=file, text=shown, format_name=name, quota=quota
        )
        return report, None
    text, found = decoded
    kind = next(kind for kind in TOPOLOGY_FORMATS if kind.is_known_by(text))
    source = SourceText(text, quota)
    hierarchy = None if source.refuse_long() else kind.read(source)
    report = make_report(
        [*found, *source.found],
        file=file,
        text=text,
        format_name=kind.name,
        quota=quota,
    )
    return report, hierarchy if report.ok else None


def _most_bytes(data: bytes) -> int:
    """Return the size limit: larger for JSON, which is read faster."""
    return MAX_JSON_BYTES if data[:1] == b"{" else MAX_SIZE_BYTES
