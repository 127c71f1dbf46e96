"""The error codes of Ascend's HCCL that concern rank tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.schema.finding import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.schema.finding import Rule

MEANINGS = {
    "EI0001": "an environment variable is wrong; for a rank table it is mixed IPv4 and "
    "IPv6 addresses",
    "EI0003": "an argument of an operation is wrong, or RANK_ID is not a number",
    "EI0004": "the rank table cannot be read as JSON; HCCL of 2025 gives this code, "
    "with a text of its own, for the causes of EI0014 and EI0017 too",
    "EI0005": "the ranks differ in what they do, or in their rank tables",
    "EI0006": "a rank did not connect in time; it waits elsewhere, or its address is "
    "wrong",
    "EI0014": "a value of the rank table does not fit. It reads: Value v for ranktable "
    "variable x is invalid. Expected value: e",
    "EI0015": "the ranks did not find each other without a rank table",
    "EI0016": "hccl_rootinfo.json or the topology file is wrong, not the rank table",
    "EI0017": "a key of the rank table is missing, or its value has another type. It "
    "reads: Config x is missing in the ranktable file",
}
"""The meaning of each code, from the source of August 2026 (docs/zh/error_codes)."""

_CODE = re.compile(r"\bEI\d{4}\b", re.IGNORECASE)
_VARIABLE = re.compile(r"\bvariable \W?(\w+)", re.IGNORECASE)
_OF_2025 = re.compile("EI001[47]")


def code_in(text: str) -> str | None:
    """Return the HCCL code in a text, None if there is no known code."""
    found = _CODE.search(text)
    code = found[0].upper() if found else None
    if code is None and _VARIABLE.search(text):
        return "EI0014"
    return code if code in MEANINGS else None


def has_variable(text: str) -> bool:
    """Whether a text names the wrong variable of the rank table."""
    return _VARIABLE.search(text) is not None


def causes(text: str, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules whose mistakes make HCCL report the code in a text.

    If the text names the variable, and there are rules about it, only these are
    returned.
    """
    code = code_in(text)
    found = [
        rule
        for rule in rules
        if code and any(code in one for one in (*_refusals(rule), *rule.seen_as))
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


def of_2025(effect: str) -> str:
    """Return an effect with the code of HCCL of 2025, which lacks two of the codes."""
    return _OF_2025.sub("EI0004", effect)


def _refusals(rule: Rule) -> list[str]:
    return [effect for effect in rule.readers.values() if isinstance(effect, Refusal)]
