"""Numbers of bytes as people write them: ``16GiB``, ``2.25 GiB``, ``800MB``."""

from __future__ import annotations

import re

from ranktable.layout.errors import LayoutError

GIB = 1 << 30

_UNITS: dict[str, int] = {
    "B": 1,
    **{f"{prefix}B": 10 ** (3 * at) for at, prefix in enumerate("kMGTP", 1)},
    **{f"{prefix}iB": 1 << (10 * at) for at, prefix in enumerate("KMGTP", 1)},
}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]+)")


_BITS = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kMGT]?)(?:bit/s|bps)")


def parse_rate(text: str) -> float:
    """Return bytes a second: of ``50GB/s``, and of bits as ``400Gbit/s``.

    Raises:
        LayoutError: It is not a number with a unit, or 0.
    """
    bits = _BITS.fullmatch(text)
    if bits is not None:
        rate = float(bits[1]) * 1000.0 ** " kMGT".index(bits[2] or " ") / 8
    else:
        number, slash, second = text.rpartition("/")
        if (slash, second) != ("/", "s"):
            raise LayoutError(
                f"{text!r} is not a bandwidth; write 50GB/s, 40GiB/s or 400Gbit/s"
            )
        rate = parse_size(number)
    if not rate:
        raise LayoutError(f"{text!r} is a bandwidth of nothing")
    return rate


def parse_size(text: str) -> float:
    """Return a number of bytes.

    Raises:
        LayoutError: It is not a number with a unit.
    """
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise LayoutError(
            f"{text!r} is not a number of bytes; write a number and one of "
            f"{', '.join(_UNITS)}, such as 16GiB"
        )
    return float(match[1]) * _UNITS[match[2]]
