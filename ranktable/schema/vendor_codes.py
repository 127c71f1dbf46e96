"""The codes that Ascend's HCCL and HCCP print, as data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.finding import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.schema.finding import Rule


class VendorCode(NamedTuple):
    """A code that Ascend's libraries print.

    Attributes:
        title: How its message begins.
        cause: What it means, and what to look at first.
        ours: Our codes for the same cause, besides those whose rules name the code.
    """

    title: str
    cause: str
    ours: tuple[str, ...] = ()


VENDOR_CODES = {
    "EI0001": VendorCode(
        "Value v for environment variable x is invalid",
        "an environment variable is wrong; for a rank table it is mixed IPv4 and IPv6 "
        "addresses",
        ("RT302",),
    ),
    "EI0002": VendorCode(
        "A timeout occurs when the Notify register waits",
        "this rank waited 30 minutes for another one, which the message names: it is "
        "late, stuck or dead, so look at that rank first",
        ("RT404",),
    ),
    "EI0003": VendorCode(
        "Value v for parameter x of an operation is invalid",
        "an argument of an operation is wrong, or RANK_ID is not a number; the cause "
        "is in this rank",
        ("RT302",),
    ),
    "EI0004": VendorCode(
        "Failed to parse the ranktable file",
        "the rank table cannot be read as JSON; HCCL of 2025 gives this code, with a "
        "text of its own, for the causes of EI0014 and EI0017 too",
    ),
    "EI0005": VendorCode(
        "The arguments are inconsistent between ranks",
        "the ranks differ in what they do, or in their rank tables. The last two "
        "values are those of the parameter, not ranks; the parameter ranktable means "
        "different tables",
        ("RT405",),
    ),
    "EI0006": VendorCode(
        "Getting socket times out",
        "a rank did not connect in time: it waits elsewhere, or its address is wrong. "
        "Without an exception event the ranks called different operations",
        ("RT404",),
    ),
    "EI0007": VendorCode(
        "A resource of the host is used up", "the cause is in the host of this rank"
    ),
    "EI0008": VendorCode(
        "The versions are inconsistent",
        "the hosts have different versions of CANN; the message has both",
    ),
    "EI0009": VendorCode(
        "Device transport init error",
        "a port of the device is down",
    ),
    "EI0010": VendorCode(
        "P2P communication failed",
        "two devices of one host do not reach each other; look at the links of it",
    ),
    "EI0011": VendorCode(
        "Failed to allocate memory of the NPU", "the memory of the device is used up"
    ),
    "EI0012": VendorCode(
        "SDMA memory copy task exception",
        "a copy from the rank in the message failed: its process ended and its memory "
        "was freed, or its memory is damaged",
        ("RT404",),
    ),
    "EI0013": VendorCode(
        "An error CQE occurred",
        "a link between the two devices in the message failed, or the process at the "
        "other end had ended before",
        ("RT404",),
    ),
    "EI0014": VendorCode(
        "Value v for ranktable variable x is invalid",
        "a value of the rank table does not fit. It reads: Value v for ranktable "
        "variable x is invalid. Expected value: e",
    ),
    "EI0015": VendorCode(
        "Failed to collect cluster information",
        "the ranks did not find each other without a rank table: those in the message "
        "are missing or doubled; look at HCCL_SOCKET_IFNAME",
        ("RT404",),
    ),
    "EI0016": VendorCode(
        "Value v for config x is invalid",
        "hccl_rootinfo.json or the topology file is wrong, not the rank table; for "
        "tls, some hosts have it on and others off",
    ),
    "EI0017": VendorCode(
        "Config x is missing in the ranktable file",
        "a key of the rank table is missing, or its value has another type. It reads: "
        "Config x is missing in the ranktable file",
    ),
    "EI0018": VendorCode(
        "An error CQE occurred",
        "as EI0013: a link failed, or the process at the other end had ended before",
        ("RT404",),
    ),
    "EI0019": VendorCode(
        "Failed to enable listening for the host network adapter socket",
        "the port of the host is in use: another job runs there, or processes of an "
        "earlier one are left",
    ),
    "EI0020": VendorCode(
        "Failed to enable listening for the NPU network adapter socket",
        "the port of the device is in use: another job runs there, or processes of an "
        "earlier one are left",
    ),
    "EJ0001": VendorCode(
        "Failed to initialize the HCCP process",
        "a process of an earlier job still holds the device, or the device has an "
        "error",
    ),
    "EJ0003": VendorCode(
        "Failed to bind the port",
        "the older form of EI0019 and EI0020: the port is in use by another job, or by "
        "processes that an earlier one left",
    ),
}
"""What each code means, from the source of August 2026 (docs/zh/error_codes)."""

_CODE = re.compile(r"\bE[IJ]\d{4}\b", re.IGNORECASE)
_VARIABLE = re.compile(r"\bvariable \W?(\w+)", re.IGNORECASE)


def code_in(text: str) -> str | None:
    """Return the HCCL code in a text, None if there is no known code."""
    found = _CODE.search(text)
    code = found[0].upper() if found else None
    if code is None and _VARIABLE.search(text):
        return "EI0014"
    return code if code in VENDOR_CODES else None


def has_variable(text: str) -> bool:
    """Whether a text names the wrong variable of the rank table."""
    return _VARIABLE.search(text) is not None


def causes(text: str, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules for the cause of the code in a text.

    If the text names the variable, and there are rules about it, only these are
    returned.
    """
    code = code_in(text)
    ours = VENDOR_CODES[code].ours if code else ()
    found = [
        rule
        for rule in rules
        if code
        and (
            rule.code in ours
            or any(code in one for one in (*_refusals(rule), *rule.seen_as))
        )
    ]
    variable = _VARIABLE.search(text)
    if variable is None:
        return found
    narrow = [
        rule
        for rule in found
        if any(f"{code} {variable[1]}" in one for one in _refusals(rule))
    ]
    return narrow or found


def _refusals(rule: Rule) -> list[str]:
    return [effect for effect in rule.readers.values() if isinstance(effect, Refusal)]
