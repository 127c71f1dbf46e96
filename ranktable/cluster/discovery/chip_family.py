"""A family of chips: how it is detected, and how the output of its tools is parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.machine import NotDetectedError
from ranktable.cluster.generate import MAX_CHIP
from ranktable.cluster.probes.probe_line import NotDetected, ProbedChip
from ranktable.schema.finding import Finding, Severity
from ranktable.schema.json_parser import parse
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ranktable.cluster.discovery.machine import Machine


@dataclass(slots=True, kw_only=True)
class ProbeResult:
    """What was found of one family of chips.

    Attributes:
        chips: The chips.
        driver: Version of the driver, None if it is not known.
        unseen: What could not be found out, and why.
    """

    chips: list[ProbedChip] = field(default_factory=list)
    driver: str | None = None
    unseen: list[NotDetected] = field(default_factory=list)

    def miss(self, what: str, why: str | NotDetectedError) -> None:
        """Record something that could not be found out."""
        self.unseen.append(NotDetected(what, str(why)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFamily:
    """A family of chips that is searched for.

    Attributes:
        name: Its name.
        vendor: Its maker, as the line names it.
        looked_for: What shows that it is present, for people.
        detect: Returns the chips of this family on a node.
    """

    name: str
    vendor: str
    looked_for: str
    detect: Callable[[Machine], ProbeResult]


def refuse_repetition(numbers: Iterable[int], what: str) -> None:
    """Raise NotDetectedError if a tool lists a number twice."""
    found: set[int] = set()
    for number in numbers:
        if number in found:
            raise NotDetectedError(f"{what} {number} is listed twice")
        found.add(number)


_BUS_ADDRESS = re.compile(
    r"([0-9a-f]{1,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE
)
_NOTHING = frozenset({"", "-", "0", "F", "N/A", "[N/A]", "NA", "Unknown", "unknown"})
"""What tools print for a missing value; F means that a sensor failed."""

_MAX_TEXT_LENGTH = 120


def read_json(text: str) -> object:
    """Return the JSON output of a tool, read as strictly as a rank table.

    Raises:
        NotDetectedError: It is not JSON, or has a key twice.
    """
    parsed = parse(text.lstrip("\ufeff"))
    if isinstance(parsed, Finding):
        raise NotDetectedError(f"its output is not JSON: {parsed.message}")
    document, found = parsed
    for finding in found:
        if finding.severity is Severity.ERROR:
            raise NotDetectedError(f"its JSON cannot be used: {finding.message}")
    return document


def device_id_of(value: object) -> int:
    """Return the index of a chip that a tool prints as a number or as digits.

    Raises:
        NotDetectedError: It is not an index.
    """
    if type(value) is str and re.fullmatch(r"0|[1-9][0-9]{0,5}", value):
        return int(value)
    if type(value) is int and 0 <= value <= MAX_CHIP:
        return value
    raise NotDetectedError(f"the index of a chip is {quoted(value)}")


def bus_address_of(value: object) -> str | None:
    """Return a PCI address in the form of sysfs, None if it is not one.

    >>> bus_address_of("00000000:C1:00.0"), bus_address_of("000:01:00.0")
    ('0000:c1:00.0', '0000:01:00.0')
    """
    match = _BUS_ADDRESS.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function}"


def text_of(value: object) -> str | None:
    """Return a value of a tool, None for a placeholder or another type."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text in _NOTHING or not text.isprintable() or len(text) > _MAX_TEXT_LENGTH:
        return None
    return text
