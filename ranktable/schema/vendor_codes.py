"""The codes that libraries, launchers and drivers print, as data.

Those of Ascend's HCCL and HCCP, how a process ended, and the Xid of NVIDIA's driver.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.schema.finding import Rule


class VendorCode(NamedTuple):
    """A code that a library, a launcher or a driver prints.

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
        ("RT404", "RT620"),
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
        ("RT405", "RT621"),
    ),
    "EI0006": VendorCode(
        "Getting socket times out",
        "a rank did not connect in time: it waits elsewhere, or its address is wrong. "
        "Without an exception event the ranks called different operations",
        ("RT404", "RT604"),
    ),
    "EI0007": VendorCode(
        "A resource of the host is used up", "the cause is in the host of this rank"
    ),
    "EI0008": VendorCode(
        "The versions are inconsistent",
        "the hosts have different versions of CANN; the message has both",
        ("RT606",),
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
        "Failed to allocate memory of the NPU", "the memory of the device is used up",
        ("RT613",),
    ),
    "EI0012": VendorCode(
        "SDMA memory copy task exception",
        "a copy from the rank in the message failed: its process ended and its memory "
        "was freed, or its memory is damaged",
        ("RT404", "RT624"),
    ),
    "EI0013": VendorCode(
        "An error CQE occurred",
        "a link between the two devices in the message failed, or the process at the "
        "other end had ended before",
        ("RT404", "RT623"),
    ),
    "EI0014": VendorCode(
        "Value v for ranktable variable x is invalid",
        "a value of the rank table does not fit; the message says what is expected",
    ),
    "EI0015": VendorCode(
        "Failed to collect cluster information",
        "the ranks did not find each other without a rank table: those in the message "
        "are missing or doubled; look at HCCL_SOCKET_IFNAME",
        ("RT404", "RT604"),
    ),
    "EI0016": VendorCode(
        "Value v for config x is invalid",
        "hccl_rootinfo.json or the topology file is wrong, not the rank table; for "
        "tls, some hosts have it on and others off",
        ("RT606",),
    ),
    "EI0017": VendorCode(
        "Config x is missing in the ranktable file",
        "a key of the rank table is missing, or its value has another type",
    ),
    "EI0018": VendorCode(
        "An error CQE occurred",
        "as EI0013: a link failed, or the process at the other end had ended before",
        ("RT404", "RT623"),
    ),
    "EI0019": VendorCode(
        "Failed to enable listening for the host network adapter socket",
        "the port of the host is in use: another job runs there, or processes of an "
        "earlier one are left",
        ("RT605",),
    ),
    "EI0020": VendorCode(
        "Failed to enable listening for the NPU network adapter socket",
        "the port of the device is in use: another job runs there, or processes of an "
        "earlier one are left",
        ("RT605",),
    ),
    "EJ0001": VendorCode(
        "Failed to initialize the HCCP process",
        "a process of an earlier job still holds the device, or the device has an "
        "error",
        ("RT607",),
    ),
    "EJ0003": VendorCode(
        "Failed to bind the port",
        "the older form of EI0019 and EI0020: the port is in use by another job, or by "
        "processes that an earlier one left",
        ("RT605",),
    ),
    "ERR02200": VendorCode(
        "DIST call hccl api failed",
        "torch_npu says that a call of HCCL failed; the EI code near it says why",
    ),
    **{
        f"exit {status}": VendorCode(
            f"the process ended with {status}: {name}", cause, ours
        )
        for statuses, name, cause, ours in (
            (("1",), "an exception",
             "Python ends so after an exception; its traceback says which one",
             ("RT610",)),
            (("-6", "134"), "SIGABRT",
             ("the program ended itself: mostly the watchdog of a rank that waited in "
             "vain, so look for the rank that it waited for; else a failed check in "
             "C++, some 60 lines above"), ("RT620", "RT611")),
            (("-7", "135"), "SIGBUS",
             "often a full /dev/shm: give the container more of it", ("RT611",)),
            (("-9", "137"), "SIGKILL",
             ("somebody killed it: the kernel for memory if dmesg, slurmstepd or the "
             "kubelet says so, else the launcher or the scheduler; alone it proves "
             "nothing"), ("RT611", "RT612")),
            (("-11", "139"), "SIGSEGV",
             ("a defect of a library, unless others had timed out before: then it "
             "follows from the end of their communicator"), ("RT611",)),
            (("-15", "143"), "SIGTERM",
             ("it was told to stop, because another process had failed or the job was "
             "ended; it is not the cause"), ("RT616",)),
            (("247",), "out of memory", ("some launchers give it to a process that "
             "was killed for memory"), ("RT612",)),
        )
        for status in statuses
    },
    **{
        f"Xid {number}": VendorCode(f"NVIDIA's driver reports {number}", cause, ours)
        for numbers, cause, ours in (
            ((13, 31), ("the program accessed memory that it may not; the chip is "
             "fine, start the program again"), ("RT614",)),
            ((94,), "an error of memory that hit one program; start it again",
             ("RT614",)),
            ((46, 48, 64, 95, 109, 119, 120, 140, 143, 158), ("the chip needs a reset; "
             "drain the host first"), ("RT614",)),
            ((79,), ("the chip fell off the bus; start the host again, and replace it "
             "if that comes back"), ("RT614",)),
            ((74, *range(144, 151)), "a link between chips (NVLink) failed",
             ("RT614", "RT623")),
            ((43, 45, 63, 92), ("it follows from another error, or was corrected; look "
             "for the first one"), ()),
        )
        for number in numbers
    },
}  # fmt: skip
"""What each code means.

Sources: HCCL's codes of August 2026 (docs/zh/error_codes); signal(7) and the shell's
128 + signal; the catalogue of Xid errors of NVIDIA and of gpud.
"""

_CODE = re.compile(r"\bE[IJ]\d{4}\b|\bERR\d{5}\b", re.IGNORECASE)
_EXIT = re.compile(
    r"\bexit(?: ?code|ed with(?: exit)? code)?\W{0,4}?(-?\d+)", re.IGNORECASE
)
_XID = re.compile(r"\bXid\b(?:.*?: | )?(\d+)", re.IGNORECASE)
_SIGNAL = re.compile(r"\bSIG[A-Z]+\b")
_VARIABLE = re.compile(r"\bvariable \W?(\w+)", re.IGNORECASE)


def code_in(text: str) -> str | None:
    """Return the code in a text, None if there is no known code."""
    found = _CODE.search(text)
    code = found[0].upper() if found else None
    if code is None and _VARIABLE.search(text):
        return "EI0014"
    for form, kind in ((_EXIT, "exit"), (_XID, "Xid")):
        if code is None and (found := form.search(text)):
            code = f"{kind} {found[1]}"
    if code is None and (found := _SIGNAL.search(text)):
        titles = (name for name, one in VENDOR_CODES.items() if found[0] in one.title)
        code = next(titles, None)
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
            or any(code in one for one in (*rule.readers.values(), *rule.seen_as))
        )
    ]
    variable = _VARIABLE.search(text)
    if variable is None:
        return found
    narrow = [
        rule
        for rule in found
        if any(f"{code} {variable[1]}" in one for one in rule.readers.values())
    ]
    return narrow or found
