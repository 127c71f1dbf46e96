"""RT140 to RT143 and RT145: whether the data of one line is a probe's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.device_list import MAX_CHIP
from ranktable.cluster.probe_line import VERSION
from ranktable.cluster.probes import probe_rules as rules
from ranktable.schema.address import is_address
from ranktable.schema.diagnostic import Severity
from ranktable.schema.document import SourceSpan
from ranktable.schema.messages import quoted
from ranktable.schema.rules.shape import UNKNOWN_KEY
from ranktable.schema.syntax import MAX_DEPTH, BadNumber, is_too_deep, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.cluster.probe_line import NodeProbe
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding

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
    spot = (*path, "device_id")
    if type(device_id) is int:
        if not 0 <= device_id <= MAX_CHIP:
            yield _bad(spot, f"device_id is {device_id}, not 0 to {MAX_CHIP}")
        elif first_use.setdefault(device_id, int(path[1])) != path[1]:
            first = SourceSpan(("chips", first_use[device_id], "device_id"))
            yield rules.BAD_PROBE_LINE.finding(
                SourceSpan(spot),
                f"chip {device_id} stands twice in the line",
                related=(SourceSpan(first.path, label="first use"),),
            )
    address = chip.get("address")
    if isinstance(address, str) and not is_address(address):
        where = (*path, "address")
        yield _bad(where, f"address {quoted(address)} is not an IP address")


def _bad(path: Path, message: str) -> Finding:
    return rules.BAD_PROBE_LINE.finding(SourceSpan(path), message)
