"""The result of a probe on one node, as a value and as a line of JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from ranktable.cluster.generate import MAX_CHIP
from ranktable.cluster.probes import probe_rules as rules
from ranktable.cluster.schema_errors import called, told
from ranktable.schema.document import SourceSpan
from ranktable.schema.json_parser import too_deep
from ranktable.schema.rules.shape import UNKNOWN_KEY
from ranktable.schema.schema_validation import errors_of, validator_of
from ranktable.schema.text import quoted
from ranktable.schema.values import MAX_DEPTH, BadNumber, is_address, is_too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding

VERSION = 1
"""Version of the line; it changes if a key gets another meaning, not for new keys."""

MAX_CHIPS = 1024
"""Most chips of a host; real hosts have less than a hundred."""

MAX_HOST_LENGTH = 255
"""Most characters of a host name, as in the domain name system."""

HEALTHY = frozenset({"active", "ok", "normal"})
"""Words of the vendors' tools for a working chip, in lower case."""


class ProbedChip(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chip; values that are not known are left out of the line.

    Attributes:
        device_id: Its index on its host, as in a rank table.
        bus_address: PCI address: ``0000:07:00.0``.
        uuid: Identifier of the chip, unique among all hosts.
        serial: Serial number of the card, which several chips may share.
        status: The status in the words of the vendor's tool: ``Active``.
        address: IP address of the chip's own network interface.
        model: Its model, if the chips of the node differ.
    """

    device_id: int
    bus_address: str | None = None
    uuid: str | None = None
    serial: str | None = None
    status: str | None = None
    address: str | None = None
    model: str | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether its status, if it has one, is that of a working chip."""
        return self.status is None or self.status.casefold() in HEALTHY


class NotDetected(Struct, frozen=True):
    """Something that could not be found out, and why."""

    what: str
    why: str


class NodeProbe(Struct, frozen=True, kw_only=True):
    """What was found on one node.

    Attributes:
        probe: Version of the line.
        host: Name of the host.
        vendor: Maker of the chips, None if there are none.
        model: Model of all chips, None if it is not known or they differ.
        driver: Version of the driver, None if it is not known.
        chips: The chips, by device_id.
        unseen: What could not be found out.
    """

    probe: int = VERSION
    host: str
    vendor: str | None = None
    model: str | None = None
    driver: str | None = None
    chips: tuple[ProbedChip, ...] = ()
    unseen: tuple[NotDetected, ...] = ()

    def to_line(self) -> str:
        """Return the line with a newline; it is ASCII, also for other names."""
        return json.dumps(to_builtins(self), separators=(",", ":")) + "\n"

    @property
    def is_sound(self) -> bool:
        """Whether its values are valid; their types are valid already."""
        device_ids = [chip.device_id for chip in self.chips]
        return (
            self.probe == VERSION
            and 0 < len(device_ids) <= MAX_CHIPS
            and len(set(device_ids)) == len(device_ids)
            and min(device_ids) >= 0
            and max(device_ids) <= MAX_CHIP
            and 0 < len(self.host) <= MAX_HOST_LENGTH
            and is_printed(self.host)
            and all(c.address is None or is_address(c.address) for c in self.chips)
        )


def is_printed(host: str) -> bool:
    """Whether a host has only printable characters and no blanks."""
    return host.isprintable() and " " not in host


SCHEMA_FILE = "probe-line.schema.json"


def check_line(document: object) -> Iterator[Finding]:
    """Yield the findings in the data of one line; their spans are within it."""
    if not isinstance(document, dict) or "probe" not in document:
        what = f"it is {quoted(document)}, not an object"
        if isinstance(document, dict):
            what = "it has no key probe"
        message = f"this is not a line of ranktable probe: {what}"
        yield rules.NOT_A_PROBE_LINE.finding(SourceSpan(()), message)
        return
    version = document["probe"]
    if type(version) is int and version != VERSION:
        yield rules.UNKNOWN_PROBE_VERSION.finding(
            SourceSpan(("probe",)),
            f"this line has version {version}; only {VERSION} is known",
            hint="install one version of ranktable on every node",
        )
        return
    is_sound = True
    for error in errors_of(SCHEMA_FILE, document):
        is_sound = False
        if not isinstance(error.instance, BadNumber):  # it has been reported
            path = tuple(error.absolute_path)
            is_empty = error.validator == "minItems"
            yield (
                _no_chips(document)
                if is_empty
                else _bad(path, told(error, called(path, "the line")))
            )
    yield from _unknown_keys(document)
    if is_sound:
        yield from _check_meaning(document)


def _no_chips(line: dict[str, Any]) -> Finding:
    listed = line.get("unseen")
    reasons = [
        f"{item.get('what')}: {item.get('why')}"
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict)
    ]
    return rules.NO_CHIPS.finding(
        SourceSpan(("chips",)),
        f"no chips were found on {line.get('host')}",
        hint=f"it looked for {'; '.join(reasons)}" if reasons else None,
    )


def _unknown_keys(line: dict[str, Any]) -> Iterator[Finding]:
    """Yield a warning for every key that is not in the schema."""
    schema: Any = validator_of(SCHEMA_FILE).schema
    known = schema["properties"]
    places: list[tuple[Path, object, dict[str, object]]] = [((), line, known)]
    for key in ("unseen", "chips"):
        items = line.get(key)
        members = known[key]["items"]["properties"]
        for at, item in enumerate(items if isinstance(items, list) else ()):
            places.append(((key, at), item, members))
    for path, item, members in places:
        for key, value in item.items() if isinstance(item, dict) else ():
            if key not in members:
                span = SourceSpan((*path, key), "key")
                if is_too_deep(value, MAX_DEPTH - len(path) - 1):
                    yield too_deep(span)
                message = f"no reader knows the key {quoted(key)}"
                yield UNKNOWN_KEY.finding(span, message)


def _check_meaning(line: dict[str, Any]) -> Iterator[Finding]:
    """Yield defects that a JSON Schema cannot express."""
    host = line["host"]
    if not is_printed(host):
        yield _bad(("host",), f"host {quoted(host)} has a blank or is not printable")
    first_use: dict[int, int] = {}
    for index, chip in enumerate(line["chips"]):
        device_id, address = chip["device_id"], chip.get("address")
        if first_use.setdefault(device_id, index) != index:
            path = ("chips", index, "device_id")
            yield _bad(path, f"chip {device_id} is listed twice in the line")
        if address is not None and not is_address(address):
            message = f"address {quoted(address)} is not an IP address"
            yield _bad(("chips", index, "address"), message)


def _bad(path: Path, message: str) -> Finding:
    return rules.BAD_PROBE_LINE.finding(SourceSpan(path), message)
