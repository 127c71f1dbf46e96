"""From the bytes of a cluster spec to its value, or to what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.source_text import SourceText
from ranktable.cluster.specs.addresses import make_addresses, read_pattern
from ranktable.cluster.specs.chips import read_chips
from ranktable.cluster.specs.nodes import read_nodes
from ranktable.cluster.specs.order import read_order, read_racks, read_spares
from ranktable.cluster.specs.ring import in_ring, read_ring
from ranktable.cluster.specs.shape import read_shape
from ranktable.cluster.specs.spec import Spec
from ranktable.schema.check import Report, report_findings
from ranktable.schema.finding import Finding
from ranktable.schema.quota import Quota
from ranktable.schema.reading import decode
from ranktable.schema.rules.reading import TOO_LARGE

if TYPE_CHECKING:
    from ranktable.cluster.specs.shape import Shape

NAME = "cluster-spec"
"""Name of the format, as ``ranktable schema`` takes it."""

MAX_SIZE_BYTES = 4 * 1024 * 1024
"""A spec is a page; one that lists 100,000 odd hosts is 1 MB."""

DEFAULT_LIMIT = 20
"""Findings of each code that are placed and shown."""


@dataclass(frozen=True, slots=True)
class SpecReading:
    """What came of reading.

    Attributes:
        report: What was found.
        spec: The spec, None if there is an error.
    """

    report: Report
    spec: Spec | None


def read_spec(
    data: bytes, *, file: str, limit: int | None = DEFAULT_LIMIT
) -> SpecReading:
    """Read a cluster spec.

    Args:
        data: The bytes of the file.
        file: Its path; a ring that is a file is looked for beside it.
        limit: Findings of each code to place; the report counts all.
    """
    quota = Quota(limit)
    if len(data) > MAX_SIZE_BYTES:
        message = f"the file is larger than {MAX_SIZE_BYTES} bytes"
        return SpecReading(
            _report([TOO_LARGE.finding(None, message)], None, file), None
        )
    decoded = decode(data)
    if isinstance(decoded, Finding):
        text = data.decode("utf-8", "replace") if decoded.span else None
        return SpecReading(_report([decoded], text, file), None)
    text, found = decoded
    source = SourceText(text, quota)
    source.add(found)
    shape = read_shape(source)
    spec = None if shape is None else _spec(shape, file)
    report = _report(source.found, text, file, quota)
    return SpecReading(report, spec if report.ok else None)


def _spec(shape: Shape, file: str) -> Spec | None:
    """Return the spec; every key is looked at, whatever is wrong with the others."""
    nodes = read_nodes(shape)
    chips = read_chips(shape, nodes)
    ring = read_ring(shape, file)
    pattern = read_pattern(shape, nodes)
    racks = read_racks(shape, nodes)
    spares = read_spares(shape, nodes)
    order = read_order(shape)
    if nodes is None or chips is None:
        return None
    sets = in_ring(shape, chips[0], ring[1] if ring else None)
    if sets is None:
        return None
    own = [sets[index] for index in chips[1]]
    addresses = make_addresses(shape, pattern, nodes, own) if pattern else None
    return Spec(
        hosts=None if nodes.places is None else list(nodes.places),
        chips=own,
        addresses=addresses,
        racks=racks,
        spares=spares,
        order=order,
        ring=ring[0] if ring else None,
    )


def _report(
    found: list[Finding], text: str | None, file: str, quota: Quota | None = None
) -> Report:
    quota = quota or Quota()
    return report_findings(found, text, file=file, format_name=NAME, quota=quota)
