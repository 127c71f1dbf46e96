"""The codes that libraries, launchers and drivers print; the data is in a file.

Those of Ascend's HCCL and HCCP, how a process ended, and the Xid of NVIDIA's driver.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ranktable._toml import data_of
from ranktable.report.rule_pages import page_of

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


_CODE = re.compile(r"\bE[IJ]\d{4}\b|\bERR\d{5}\b", re.IGNORECASE)
_EXIT = re.compile(
    r"\bexit(?: ?code|ed with(?: exit)? code)?\W{0,4}?(-?\d+)", re.IGNORECASE
)
_XID = re.compile(r"\bXid\b(?:.*?: | )?(\d+)", re.IGNORECASE)
_SIGNAL = re.compile(r"\bSIG[A-Z]+\b")
_VARIABLE = re.compile(r"\bvariable \W?(\w+)", re.IGNORECASE)


@cache
def vendor_codes() -> dict[str, VendorCode]:
    """Return what each code means."""
    return {
        name: VendorCode(
            entry["title"].format(name.split()[-1]),
            entry["cause"],
            tuple(entry.get("ours", ())),
        )
        for entry in data_of("ranktable.report", "vendor_codes.toml")["code"]
        for name in entry["names"]
    }


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
        titles = (name for name, one in vendor_codes().items() if found[0] in one.title)
        code = next(titles, None)
    return code if code in vendor_codes() else None


def has_variable(text: str) -> bool:
    """Whether a text names the wrong variable of the rank table."""
    return _VARIABLE.search(text) is not None


def causes(text: str, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules for the cause of the code in a text.

    If the text names the variable, and there are rules about it, only these are
    returned.
    """
    code = code_in(text)
    ours = vendor_codes()[code].ours if code else ()
    found = [
        rule
        for rule in rules
        if code and (rule.code in ours or any(code in one for one in _messages(rule)))
    ]
    variable = _VARIABLE.search(text)
    if variable is None:
        return found
    narrow = [
        rule
        for rule in found
        if any(f"{code} {variable[1]}" in one for one in page_of(rule).readers.values())
    ]
    return narrow or found


def _messages(rule: Rule) -> tuple[str, ...]:
    page = page_of(rule)
    return (*page.readers.values(), *page.seen_as)
