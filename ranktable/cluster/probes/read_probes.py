"""Lines of ``ranktable probe``: text to values, strictly, with the place of a mistake.

One line is one node. Several nodes may come in any order, as srun prints them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from ranktable.cluster.device_list import MAX_CHIP
from ranktable.cluster.probes import probe_rules as rules
from ranktable.cluster.probes.probe_line import VERSION, NodeProbe
from ranktable.cluster.probes.probe_rules import NOT_A_PROBE_LINE, UNHEALTHY_CHIP
from ranktable.schema.address import is_address
from ranktable.schema.diagnostic import Severity
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Finding
from ranktable.schema.locate import find_spans
from ranktable.schema.messages import quoted
from ranktable.schema.rules.shape import UNKNOWN_KEY
from ranktable.schema.rules.syntax import TRUNCATED
from ranktable.schema.syntax import MAX_DEPTH, BadNumber, is_too_deep, parse, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.schema.document import Path

_PROBE = re.compile(rb'^[ \t]*\{[ \t]*"probe"[ \t]*:', re.MULTILINE)
_LINE = re.compile(r"[^\n]+")
_DECODER = msgspec.json.Decoder(NodeProbe)
_SHOWN = 40
"""Characters of a line that is no probe's, as a message shows it."""


def is_probe_text(data: bytes) -> bool:
    """Whether bytes hold lines of ``ranktable probe``, whatever stands between them."""
    if _PROBE.search(data):
        return True
    # A tool that sorts keys puts others before it.
    first = data.lstrip().partition(b"\n")[0]
    try:
        document = msgspec.json.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(document, dict) and "probe" in document


def read_probes(text: str) -> Iterator[ProbedNode | Finding]:
    """Yield every node of a text, and what is wrong with any line.

    The spots of the findings are offsets in the text.
    """
    for match in _LINE.finditer(text):
        line = match[0]
        if not line.strip():
            continue
        found = _Line(line, match.start())
        yield from found.read()


def _as_printed(text: str) -> NodeProbe | None:
    """Return what a line says if it is, byte for byte, what probe prints of a node.

    Then no key is repeated or unknown and no type is wrong, and only the values are
    left to be looked at: a third of the time of judging the line.
    """
    try:
        probe = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    is_printed = msgspec.json.encode(probe) == text.encode(errors="replace")
    return probe if is_printed and is_usual(probe) else None


@dataclass(frozen=True, slots=True)
class ProbedNode:
    """What one line says, and the line itself."""

    probe: NodeProbe
    line: _Line

    @property
    def span(self) -> SourceSpan:
        """The host in the text, found when somebody asks."""
        return self.line.at(SourceSpan(("host",)))


class _Line:
    """One line of the text, and where it begins."""

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
        """Yield the node of a line that may be anything, and what is wrong with it."""
        if not self.text.lstrip().startswith("{"):
            shown = quoted(self.text.strip()[:_SHOWN])
            yield NOT_A_PROBE_LINE.finding(
                self.span(), f"this line is no JSON object: {shown}"
            )
            return
        parsed = parse(self.text)
        if isinstance(parsed, Finding):
            yield self.unfinished() if parsed.rule is TRUNCATED else self.placed(parsed)
            return
        document, found = parsed
        found.extend(check_line(document))
        for finding in found:
            yield self.placed(finding)
        if all(finding.rule.severity is not Severity.ERROR for finding in found):
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
            return replace(self.span(), label=span.label)
        start, end = offsets
        return SourceSpan(
            offsets=(start + self.start, end + self.start), label=span.label
        )

    def placed(self, finding: Finding) -> Finding:
        """Return a finding about the line as one about the text."""
        return replace(
            finding,
            span=self.span() if finding.span is None else self.at(finding.span),
            related=tuple(map(self.at, finding.related)),
            edit=None,  # no command repairs a stream
        )


MAX_CHIPS = 1024
"""Chips of one host; hosts have tens of them."""

MAX_HOST_LENGTH = 255
"""Characters of a host name, as in the domain name system."""

Types = tuple[type, ...]
_TEXT: Types = (str, type(None))
_LINE_KEYS: Mapping[str, Types] = {
    "probe": (int,),
    "host": (str,),
    "vendor": _TEXT,
    "model": _TEXT,
    "driver": _TEXT,
    "chips": (list,),
    "unseen": (list,),
}
_CHIP_KEYS: Mapping[str, Types] = {
    "device_id": (int,),
    "bus_address": _TEXT,
    "uuid": _TEXT,
    "serial": _TEXT,
    "status": _TEXT,
    "address": _TEXT,
    "model": _TEXT,
}
_UNSEEN_KEYS: Mapping[str, Types] = {"what": (str,), "why": (str,)}
_NAMES: Mapping[Types, str] = {
    (int,): "a number",
    (str,): "a string",
    (list,): "a list",
    _TEXT: "a string or null",
}


def is_usual(probe: NodeProbe) -> bool:
    """Whether ``check_line`` would find nothing in the values of a probe."""
    device_ids = [chip.device_id for chip in probe.chips]
    return (
        probe.probe == VERSION
        and 0 < len(device_ids) <= MAX_CHIPS
        and len(set(device_ids)) == len(device_ids)
        and min(device_ids) >= 0
        and max(device_ids) <= MAX_CHIP
        and not list(_host(probe.host))
        and all(c.address is None or is_address(c.address) for c in probe.chips)
    )


def check_line(document: object) -> Iterator[Finding]:
    """Yield what is wrong with the data of one line; the spots are within it."""
    if not isinstance(document, dict) or "probe" not in document:
        yield rules.NOT_A_PROBE_LINE.finding(
            SourceSpan(()),
            "this is no line of ranktable probe: "
            + (
                "it has no key probe"
                if isinstance(document, dict)
                else f"it is {quoted(document)}, not an object"
            ),
        )
        return
    version = document["probe"]
    if type(version) is int and version != VERSION:
        yield rules.UNKNOWN_PROBE_VERSION.finding(
            SourceSpan(("probe",)),
            f"this line has version {version}; only {VERSION} is known",
            hint="install one version of ranktable on every node",
        )
        return
    found = list(_members((), document, _LINE_KEYS, ("probe", "host", "chips")))
    yield from found
    if all(finding.rule.severity is not Severity.ERROR for finding in found):
        yield from _host(document["host"])
        yield from _unseen(document.get("unseen", []))
        yield from _chips(document["host"], document["chips"], document)


def _members(
    path: Path,
    members: Mapping[str, object],
    keys: Mapping[str, Types],
    needed: tuple[str, ...],
) -> Iterator[Finding]:
    owner = "the line" if not path else f"{path[0]}[{path[1]}]"
    for key in needed:
        if key not in members:
            yield _bad(path, f"{owner} has no {key}")
    for key, value in members.items():
        wanted = keys.get(key)
        if wanted is None:
            if is_too_deep(value, MAX_DEPTH - len(path) - 1):
                yield too_deep(SourceSpan((*path, key), "key"))
            yield UNKNOWN_KEY.finding(
                SourceSpan((*path, key), "key"),
                f"no reader knows the key {quoted(key)}",
            )
        elif type(value) not in wanted and not isinstance(value, BadNumber):
            name = _NAMES[wanted]
            yield _bad((*path, key), f"{key} is {quoted(value)}, not {name}")


def _host(host: str) -> Iterator[Finding]:
    if not host:
        yield _bad(("host",), "host is empty")
    elif len(host) > MAX_HOST_LENGTH:
        yield _bad(("host",), f"host is longer than {MAX_HOST_LENGTH} characters")
    elif not host.isprintable() or " " in host:
        yield _bad(("host",), f"host {quoted(host)} has a blank or is not printable")


def _unseen(unseen: list[object]) -> Iterator[Finding]:
    for place, item in enumerate(unseen):
        path = ("unseen", place)
        if isinstance(item, dict):
            yield from _members(path, item, _UNSEEN_KEYS, ("what", "why"))
        else:
            yield _bad(path, f"unseen[{place}] is {quoted(item)}, not an object")


def _chips(
    host: str, chips: list[object], line: Mapping[str, object]
) -> Iterator[Finding]:
    if not chips:
        yield _no_chips(host, line)
    if len(chips) > MAX_CHIPS:
        yield _bad(("chips",), f"there are more than {MAX_CHIPS} chips")
        return
    first_use: dict[int, int] = {}
    for place, chip in enumerate(chips):
        path = ("chips", place)
        if not isinstance(chip, dict):
            yield _bad(path, f"chips[{place}] is {quoted(chip)}, not an object")
            continue
        yield from _members(path, chip, _CHIP_KEYS, ("device_id",))
        yield from _chip(path, chip, first_use)


def _no_chips(host: str, line: Mapping[str, object]) -> Finding:
    reasons = [
        f"{item.get('what')}: {item.get('why')}"
        for item in line.get("unseen") or ()  # type: ignore[attr-defined]
        if isinstance(item, dict)
    ]
    return rules.NO_CHIPS.finding(
        SourceSpan(("chips",)),
        f"{host} saw no chips",
        hint=f"it looked for {'; '.join(reasons)}" if reasons else None,
    )


def _chip(
    path: Path, chip: Mapping[str, object], first_use: dict[int, int]
) -> Iterator[Finding]:
    device_id = chip.get("device_id")
    span = (*path, "device_id")
    if type(device_id) is int:
        if not 0 <= device_id <= MAX_CHIP:
            yield _bad(span, f"device_id is {device_id}, not 0 to {MAX_CHIP}")
        elif first_use.setdefault(device_id, int(path[1])) != path[1]:
            first = SourceSpan(("chips", first_use[device_id], "device_id"))
            yield rules.BAD_PROBE_LINE.finding(
                SourceSpan(span),
                f"chip {device_id} stands twice in the line",
                related=(SourceSpan(first.path, label="first use"),),
            )
    address = chip.get("address")
    if isinstance(address, str) and not is_address(address):
        where = (*path, "address")
        yield _bad(where, f"address {quoted(address)} is not an IP address")


def _bad(path: Path, message: str) -> Finding:
    return rules.BAD_PROBE_LINE.finding(SourceSpan(path), message)
