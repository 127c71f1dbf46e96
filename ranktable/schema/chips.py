"""What ``--chip`` names: how many chips a host has, and Ascend's generations."""

from __future__ import annotations

import re

CHIPS_PER_HOST = {"bm1690": 16, "sg2260": 16}
"""Number of chips that SCCL can use in one host, by chip or architecture name.

Source: the length of the array of chips in its source of 2024.
"""

NPUS: dict[str, int | None] = {
    "910": 8,
    "A2": 16,
    "A3": 16,
    "310P": 32,
    "A5": None,
    "any": None,
}
"""Ascend's generations, with the number of chips of a host if it is known."""


_MODELS = (
    (r"910(?:_?93|C)", "A3"),
    (r"910B", "A2"),
    (r"910_95|950(?![0-9])", "A5"),
    (r"310P", "310P"),
    (r"910(?:A|Pro|Premium)?\b", "910"),
)
"""What vendor and people call the chips of these generations (HCCL's manuals, 2026)."""


def npu_of(chip: str | int | None) -> str | None:
    """Return the Ascend generation that a name or a model names, None for others."""
    wanted = str(chip).casefold()
    for npu in NPUS:
        if npu.casefold() == wanted:
            return npu
    for pattern, npu in _MODELS:
        if re.search(rf"(?<![0-9])(?:{pattern})", wanted, re.IGNORECASE):
            return npu
    return None


def chips_per_host(chip: str | int | None) -> int | None:
    """Return the number of chips of a host that an option names.

    Raises:
        ValueError: It is neither a positive number nor the name of a chip.
    """
    if chip is None:
        return None
    npu = npu_of(chip)
    if npu is not None:
        return NPUS[npu]
    if isinstance(chip, str) and chip in CHIPS_PER_HOST:
        return CHIPS_PER_HOST[chip]
    if str(chip).isascii() and str(chip).isdigit() and 0 < int(chip) < 10**6:
        return int(chip)
    known = ", ".join((*CHIPS_PER_HOST, *NPUS))
    raise ValueError(f"chip {chip!r} is neither a number of chips nor one of {known}")
