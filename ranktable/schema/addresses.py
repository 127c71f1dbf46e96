"""Whether a text is an IP address, as tables write it."""

from __future__ import annotations

import re

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
UNSET_ADDRESS = "0.0.0.0"  # noqa: S104 - is compared
_IPV4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")


def is_address(text: str) -> bool:
    """Whether a text is a numeric IPv4 or IPv6 address."""
    return is_ipv4(text) or is_ipv6(text)


def is_device_address(text: str) -> bool:
    """Whether a text is an address that an Ascend device can have.

    HCCL reads 0.0.0.0 as "no address".
    """
    return is_address(text) and text != UNSET_ADDRESS


def is_ipv4(text: str) -> bool:
    """Whether a text is a numeric IPv4 address."""
    return _IPV4.fullmatch(text) is not None


def is_ipv6(text: str) -> bool:
    """Whether a text is a numeric IPv6 address."""
    if ":" not in text:
        return False
    import ipaddress

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
