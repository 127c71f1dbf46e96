"""What ``--chip`` names: how many chips a host has, and Ascend's generations."""

from __future__ import annotations

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


NPU_NAMES = {"910a": "910", "910b": "A2", "910c": "A3"}
"""What people call some of these generations."""


def npu_of(chip: str | int | None) -> str | None:
    """Return the Ascend generation that an option names, None if it names none."""
    wanted = NPU_NAMES.get(str(chip).casefold(), str(chip)).casefold()
    return next((npu for npu in NPUS if npu.casefold() == wanted), None)


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
