"""Huawei's hccn.conf: read the addresses of a host's devices, and judge them.

Source: ``hccn_tool``, which writes ``address_N``, ``netmask_N`` and other keys of N.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.file_kind import FileKind
from ranktable.schema.finding import Finding, Findings, Severity
from ranktable.schema.report import Report, make_report
from ranktable.schema.rules.hccl import DUPLICATE_ADDRESS
from ranktable.schema.rules.nodes import BAD_ADDRESS
from ranktable.schema.rules.shape import MISSING_KEY
from ranktable.schema.rules.syntax import DUPLICATE_KEY
from ranktable.schema.text import folded, quoted
from ranktable.schema.values import is_device_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import Offsets

NAME = "hccn.conf"
_LINE = re.compile(r"^[ \t]*([a-z_]+)_([0-9]{1,4})[ \t]*=([^\n]*)$", re.MULTILINE)
_KEYS = frozenset(("address", "netmask", "netdetect", "gateway", "send_arp_status"))


def is_hccn_conf(text: str) -> bool:
    """Whether a text has a key of hccn.conf.

    >>> is_hccn_conf("netmask_0=255.255.255.0"), is_hccn_conf("node_0=1")
    (True, False)
    """
    return any(line[1] in _KEYS for line in _LINE.finditer(text))


def judge_hccn_conf(data: bytes, *, file: str, limit: int | None = None) -> Report:
    """Return the report of an hccn.conf."""
    text = data.decode("utf-8", "replace")
    found = Findings(_findings(text), limit=limit)
    return make_report(found, file=file, text=text, data=data, format_name=NAME)


HCCN_CONF = FileKind(
    name=NAME,
    title="the hccn.conf of a host",
    detect=lambda start, _: is_hccn_conf(start.decode("utf-8", "replace")),
    judge=lambda source, options: [
        judge_hccn_conf(source.data, file=source.name, limit=options.limit)
    ],
    names=("hccn.conf",),
    advice="name the table of the job; convert --hccn-conf {file} adds its addresses",
)


def addresses_in(text: str) -> Iterator[tuple[int, str, Offsets]]:
    """Yield the device, the text and the offsets of every address."""
    for line in _LINE.finditer(text):
        if line[1] == "address":
            address = line[3].strip()
            start = line.end() - len(line[3].lstrip())
            yield int(line[2]), address, (start, start + len(address))


def _findings(text: str) -> Iterator[Finding]:
    owners: dict[str, tuple[int, SourceSpan]] = {}
    places: dict[int, SourceSpan] = {}
    seen = {int(line[2]) for line in _LINE.finditer(text)}
    for device, address, offsets in addresses_in(text):
        place = SourceSpan(offsets=offsets)
        yield from _judge_address(device, address, place, places, owners)
    devices = range(max(seen) + 1)
    lacking = [device for device in devices if device not in places]
    if lacking and places:
        last = places[max(places)]
        yield MISSING_KEY.finding(
            last,
            f"there is no address_{folded(lacking)}; the file names devices up to "
            f"{devices[-1]}",
            hint="hccn_tool -i N -ip -s sets it; a host may lack a device on purpose",
            severity=None if seen.intersection(lacking) else Severity.WARNING,
        )


def _judge_address(
    device: int,
    address: str,
    place: SourceSpan,
    places: dict[int, SourceSpan],
    owners: dict[str, tuple[int, SourceSpan]],
) -> Iterator[Finding]:
    """Yield what is wrong with the address of a device, and record the address."""
    if device in places:
        message = f"address_{device} is given twice"
        yield DUPLICATE_KEY.finding(place, message, related=(places[device],))
        return
    places[device] = place
    if not is_device_address(address):
        message = f"address_{device} {quoted(address)} is not an IP address"
        yield BAD_ADDRESS.finding(place, message)
        return
    owner, first = owners.setdefault(address, (device, place))
    if owner != device:
        message = f"{quoted(address)} is the address of device {owner} and of {device}"
        yield DUPLICATE_ADDRESS.finding(place, message, related=(first,))
