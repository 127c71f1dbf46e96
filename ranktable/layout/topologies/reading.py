"""From the bytes of a topology to its levels, or to what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ranktable.cluster.source_text import SourceText
from ranktable.layout.topologies.columns import read_columns
from ranktable.layout.topologies.slurm_conf import is_slurm_conf, read_slurm_conf
from ranktable.layout.topologies.slurm_yaml import is_slurm_yaml, read_slurm_yaml
from ranktable.schema.check_report import Report, make_report
from ranktable.schema.diagnostic import Finding, Quota
from ranktable.schema.json_parser import decode
from ranktable.schema.rules.syntax import TOO_LARGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.layout.topologies.hierarchy import Hierarchy

MAX_SIZE_BYTES = 8 * 1024 * 1024
"""A line for each of 100,000 hosts is 3 MB; as YAML this is read in seconds."""

DEFAULT_LIMIT = 20
"""Findings of each code that are placed and shown."""


class Kind(NamedTuple):
    """One kind of topology.

    Attributes:
        name: Its name.
        is_known_by: Whether a text looks like one.
        read: Returns its levels, None after saying what is wrong.
    """

    name: str
    is_known_by: Callable[[str], bool]
    read: Callable[[SourceText], Hierarchy | None]


KINDS = (
    Kind("slurm-topology-conf", is_slurm_conf, read_slurm_conf),
    Kind("slurm-topology-yaml", is_slurm_yaml, read_slurm_yaml),
    Kind("host-columns", lambda _: True, read_columns),
)
"""In the order in which a text is compared with them."""


def read_topology(
    data: bytes, *, file: str, limit: int | None = DEFAULT_LIMIT
) -> tuple[Report, Hierarchy | None]:
    """Return what was found in a topology, and its levels if there is no error."""
    quota = Quota(limit)
    decoded: Finding | tuple[str, list[Finding]] = (
        decode(data)
        if len(data) <= MAX_SIZE_BYTES
        else TOO_LARGE.finding(None, f"the file is larger than {MAX_SIZE_BYTES} bytes")
    )
    if isinstance(decoded, Finding):
        shown = data.decode("utf-8", "replace") if decoded.span else None
        name = KINDS[-1].name
        report = make_report(
            [decoded], file=file, text=shown, format_name=name, quota=quota
        )
        return report, None
    text, found = decoded
    kind = next(kind for kind in KINDS if kind.is_known_by(text))
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
