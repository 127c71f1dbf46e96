"""The result of a probe on one node, as a value and as a line of JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, to_builtins

from ranktable.cluster.generate import MAX_CHIP
from ranktable.cluster.probes import probe_rules as rules
from ranktable.schema.document import SourceSpan
from ranktable.schema.json_parser import too_deep
from ranktable.schema.rules.shape import UNKNOWN_KEY
from ranktable.schema.schema_validation import errors_of, validator_of
from ranktable.schema.text import quoted
from ranktable.schema.values import MAX_DEPTH, BadNumber, is_address, is_too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema import ValidationError

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

_MOST, _MEMBERS = "maxItems", "properties"
_KINDS = {
    "integer": "a number",
    "string": "a string",
    "array": "a list",
    "object": "an object",
}


def check_line(document: object) -> Iterator[Finding]:
    """Yield the findings in the data of one line; their spans are within it."""
    if not isinstance(document, dict) or "probe" not in document:
        what = (
            "it has no key probe"
            if isinstance(document, dict)
            else f"it is {quoted(document)}, not an object"
        )
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
    schema: Any = validator_of(SCHEMA_FILE).schema
    if _is_sound(document):
        yield from _unknown_keys(document, schema, with_items=True)
        return
    errors = list(errors_of(SCHEMA_FILE, document, _is_sound_chip))
    of_the_line = [error for error in errors if _is_of_the_line(error)]
    for error in of_the_line or errors:
        yield from _explained(error, document)
    yield from _unknown_keys(document, schema, with_items=not of_the_line)
    if not of_the_line:
        yield from _check_meaning(document)


def _is_sound(line: dict[str, Any]) -> bool:
    """Whether the line satisfies the schema; ten times faster than the schema."""
    try:
        probe = msgspec.convert(line, NodeProbe)
    except msgspec.ValidationError:
        return False
    if not probe.is_sound:
        return False
    # msgspec reads 1.0 as 1.
    numbers = (line["probe"], *(chip["device_id"] for chip in line["chips"]))
    return all(type(number) is int for number in numbers)


def _is_sound_chip(item: object, schema: dict[str, Any]) -> bool:
    """Whether an item is a chip that satisfies the schema."""
    if not isinstance(item, dict) or "device_id" not in schema["properties"]:
        return False
    try:
        chip = msgspec.convert(item, ProbedChip)
    except msgspec.ValidationError:
        return False
    return type(item["device_id"]) is int and 0 <= chip.device_id <= MAX_CHIP


def _is_of_the_line(error: ValidationError) -> bool:
    """Whether a key of the line itself is missing, or has a value of a wrong type."""
    if isinstance(error.instance, BadNumber):  # it has been reported
        return False
    return len(error.absolute_path) <= 1 and error.validator in ("required", "type")


def _explained(error: ValidationError, line: dict[str, Any]) -> Iterator[Finding]:
    """Yield the findings for an error of the schema."""
    value: Any = error.instance
    limit: Any = error.validator_value
    path = tuple(error.absolute_path)
    name = path[-1] if path and isinstance(path[-1], str) else _item(path)
    if error.validator == "required":
        # There is one error for each of them, and only its text has the name.
        missing = next(key for key in limit if error.message.startswith(repr(key)))
        yield _bad(path, f"{name} has no {missing}")
    elif error.validator == "type" and not isinstance(value, BadNumber):
        kind = "a string or null" if isinstance(limit, list) else _KINDS[limit]
        yield _bad(path, f"{name} is {quoted(value)}, not {kind}")
    elif error.validator in ("minimum", "maximum"):
        schema: Any = error.schema
        range_ = f"{schema['minimum']} to {schema['maximum']}"
        yield _bad(path, f"{name} is {value}, not {range_}")
    elif error.validator == "minLength":
        yield _bad(path, f"{name} is empty")
    elif error.validator == "maxLength":
        yield _bad(path, f"{name} is longer than {limit} characters")
    elif error.validator == "minItems":
        yield _no_chips(line)
    elif error.validator == "maxItems":
        yield _bad(path, f"there are more than {limit} chips")


def _item(path: Path) -> str:
    return f"{path[0]}[{path[1]}]" if path else "the line"


def _no_chips(line: dict[str, Any]) -> Finding:
    unseen = line.get("unseen")
    reasons = [
        f"{item.get('what')}: {item.get('why')}"
        for item in (unseen if type(unseen) is list else ())
        if isinstance(item, dict)
    ]
    return rules.NO_CHIPS.finding(
        SourceSpan(("chips",)),
        f"no chips were found on {line['host']}",
        hint=f"it looked for {'; '.join(reasons)}" if reasons else None,
    )


def _unknown_keys(
    line: dict[str, Any], schema: dict[str, Any], *, with_items: bool
) -> Iterator[Finding]:
    """Yield a warning for every key that is not in the schema."""
    known = schema["properties"]
    yield from _unknown((), line, known)
    for key in ("unseen", "chips") if with_items else ():
        items = line.get(key)
        if type(items) is not list or len(items) > known[key].get(_MOST, len(items)):
            continue
        for index, item in enumerate(items):
            if isinstance(item, dict):
                yield from _unknown((key, index), item, known[key]["items"][_MEMBERS])


def _unknown(
    path: Path, members: dict[str, object], known: dict[str, object]
) -> Iterator[Finding]:
    for key, value in members.items():
        if key not in known:
            span = SourceSpan((*path, key), "key")
            if is_too_deep(value, MAX_DEPTH - len(path) - 1):
                yield too_deep(span)
            yield UNKNOWN_KEY.finding(span, f"no reader knows the key {quoted(key)}")


def _check_meaning(line: dict[str, Any]) -> Iterator[Finding]:
    """Yield defects that a JSON Schema cannot express."""
    host, chips = line["host"], line["chips"]
    if type(host) is str and len(host) <= MAX_HOST_LENGTH and not is_printed(host):
        yield _bad(("host",), f"host {quoted(host)} has a blank or is not printable")
    first_use: dict[int, int] = {}
    is_short = type(chips) is list and len(chips) <= MAX_CHIPS
    for index, chip in enumerate(chips if is_short else ()):
        if not isinstance(chip, dict):
            continue
        device_id, address = chip.get("device_id"), chip.get("address")
        if type(device_id) is int and 0 <= device_id <= MAX_CHIP:
            first = first_use.setdefault(device_id, index)
            if first != index:
                related = SourceSpan(("chips", first, "device_id"), label="first use")
                yield rules.BAD_PROBE_LINE.finding(
                    SourceSpan(("chips", index, "device_id")),
                    f"chip {device_id} is listed twice in the line",
                    related=(related,),
                )
        if isinstance(address, str) and not is_address(address):
            message = f"address {quoted(address)} is not an IP address"
            yield _bad(("chips", index, "address"), message)


def _bad(path: Path, message: str) -> Finding:
    return rules.BAD_PROBE_LINE.finding(SourceSpan(path), message)
