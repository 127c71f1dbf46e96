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


def parse_size(text: str) -> float:
    """Return a number of bytes.

    Raises:
        LayoutError: It is no number with a unit.
    """
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise LayoutError(
            f"{text!r} is no number of bytes; write a number and one of "
            f"{', '.join(_UNITS)}, such as 16GiB"
        )
    return float(match[1]) * _UNITS[match[2]]
