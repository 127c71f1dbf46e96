"""Numeric IP addresses."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_MANY = 1_000
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")


def is_address(text: str) -> bool:
    """Whether a text is a numeric IPv4 or IPv6 address."""
    return is_ipv4(text) or is_ipv6(text)


def is_ipv4(text: str) -> bool:
    """Whether a text is a numeric IPv4 address."""
    return _IPV4.fullmatch(text) is not None


def is_ipv6(text: str) -> bool:
    """Whether a text is a numeric IPv6 address."""
    if ":" not in text:
        return False
    import ipaddress  # noqa: PLC0415 - 5 ms, for the few tables that have IPv6

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def are_addresses(texts: Collection[str]) -> bool:
    """Whether all texts are numeric IP addresses."""
    if len(texts) > _MANY:
        # The C library takes IPv4 as strictly as the pattern, in half of the time.
        from socket import AF_INET, inet_pton  # noqa: PLC0415 - 3 ms

        with contextlib.suppress(OSError, ValueError):
            deque(map(inet_pton, repeat(AF_INET), texts), maxlen=0)
            return True
    return all(map(is_address, set(texts)))
