"""Read lines of ``ranktable probe``, strictly and with the place of each mistake.

One line is one node. The nodes may be in any order, as srun prints them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ranktable.cluster.probes.probe_line import NodeProbe, check_line
from ranktable.cluster.probes.probe_rules import NOT_A_PROBE_LINE, UNHEALTHY_CHIP
from ranktable.schema.document import SourceSpan, find_spans
from ranktable.schema.finding import Finding
from ranktable.schema.json_parser import parse
from ranktable.schema.rules.syntax import TRUNCATED
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator


_PROBE = re.compile(rb'^[ \t]*\{[ \t]*"probe"[ \t]*:', re.MULTILINE)
_LINE = re.compile(r"[^\n]+")
_DECODER = msgspec.json.Decoder(NodeProbe)
_SHOWN = 40
"""Characters that a message shows of a line that is not from probe."""


def is_probe_text(data: bytes) -> bool:
    """Whether bytes have lines of ``ranktable probe``, with any text between them."""
    if _PROBE.search(data):
        return True
    # Tools that sort keys may put others before this one.
    first = data.lstrip().partition(b"\n")[0]
    try:
        document = msgspec.json.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(document, dict) and "probe" in document


def read_probes(text: str) -> Iterator[ProbedNode | Finding]:
    """Yield every node of a text, and the findings in its lines.

    The spans of the findings are offsets in the text.
    """
    for match in _LINE.finditer(text):
        line = match[0]
        if not line.strip():
            continue
        found = _Line(line, match.start())
        yield from found.read()


def _as_printed(text: str) -> NodeProbe | None:
    """Return the node of a line if it is exactly as probe prints it, else None.

    Then no key is repeated or unknown and no type is wrong, so only the values must be
    judged. This takes a third of the time.
    """
    try:
        probe = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    is_printed = msgspec.json.encode(probe) == text.encode(errors="replace")
    return probe if is_printed and probe.is_sound else None


@dataclass(frozen=True, slots=True)
class ProbedNode:
    """The node of one line, and the line itself."""

    probe: NodeProbe
    line: _Line

    @property
    def make(self) -> tuple[str | None, str | None]:
        """Maker and model of its chips, as far as they are known."""
        return self.probe.vendor, self.probe.model

    @property
    def identifiers(self) -> list[str]:
        """UUIDs and serial numbers of its chips."""
        names = {name for chip in self.probe.chips for name in (chip.uuid, chip.serial)}
        return sorted(filter(None, names))

    @property
    def span(self) -> SourceSpan:
        """The host in the text; it is searched when it is first used."""
        return self.line.at(SourceSpan(("host",)))


class _Line:
    """One line of the text, with its offset."""

    def __init__(self, text: str, start: int) -> None:
        self.text = text.rstrip("\r")
        self.start = start

    def read(self) -> Iterator[ProbedNode | Finding]:
        probe = _as_printed(self.text)
        if probe is not None:
            yield from self.node(probe)
        else:
            yield from self.judged()

    def judged(self) -> Iterator[ProbedNode | Finding]:
        """Yield the node of a line of any form, and the findings in it."""
        if not self.text.lstrip().startswith("{"):
            shown = quoted(self.text.strip()[:_SHOWN])
            yield NOT_A_PROBE_LINE.finding(
                self.span(), f"this line is not a JSON object: {shown}"
            )
            return
        parsed = parse(self.text)
        if isinstance(parsed, Finding):
            yield self.unfinished() if parsed.rule is TRUNCATED else self.placed(parsed)
            return
        document, found = parsed
        found.add(*check_line(document))
        for finding in found:
            yield self.placed(finding)
        if not found.has_errors:
            yield from self.node(msgspec.convert(document, NodeProbe))

    def node(self, probe: NodeProbe) -> Iterator[ProbedNode | Finding]:
        yield ProbedNode(probe, self)
        for place, chip in enumerate(probe.chips):
            if not chip.is_healthy:
                yield UNHEALTHY_CHIP.finding(
                    self.at(SourceSpan(("chips", place, "status"))),
                    f"chip {chip.device_id} of {probe.host} is "
                    f"{quoted(chip.status)}, not active",
                )

    def unfinished(self) -> Finding:
        return NOT_A_PROBE_LINE.finding(
            self.span(),
            "the line ends in the middle of an object",
            hint="a node is one line; jq prints it on one with -c",
        )

    def span(self) -> SourceSpan:
        """Return the span of the whole line."""
        return SourceSpan(offsets=(self.start, self.start + len(self.text)))

    def at(self, span: SourceSpan) -> SourceSpan:
        """Return a span of the line as a span of the text."""
        offsets = find_spans(self.text, [span]).get(span)
        if offsets is None:
            return self.span()._replace(label=span.label)
        start, end = offsets
        return SourceSpan(
            offsets=(start + self.start, end + self.start), label=span.label
        )

    def placed(self, finding: Finding) -> Finding:
        """Return a finding about the line as one about the text."""
        return finding._replace(
            span=self.span() if finding.span is None else self.at(finding.span),
            related=tuple(map(self.at, finding.related)),
            edit=None,  # a stream cannot be repaired in place
        )
