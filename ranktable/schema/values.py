"""What one value of a file is: a plain number, an unusual number, an IP address."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from typing import Any, NamedTuple

from ranktable.schema.text import quoted

MAX_NUMBER = 999_999_999
"""Largest rank, chip or count: nine digits, below the 32-bit int of SCCL's reader."""

_PLAIN = re.compile(r"0|-?[1-9][0-9]{0,8}")
_SMALL = {str(number): number for number in range(4096)}


def plain_number(value: object) -> int | None:
    """Return the integer that all readers see in a value, None if they differ.

    All readers accept a JSON integer, and a string of plain ASCII decimal digits
    without sign, blanks or leading zeros. A minus sign is read too; a rule explains it
    later. True is not a number, although it is an int in Python.
    """
    if type(value) is str:
        number = _SMALL.get(value)
        if number is None and _PLAIN.fullmatch(value):
            number = int(value)
        return number
    if type(value) is int and -MAX_NUMBER <= value <= MAX_NUMBER:
        return value
    return None


def plain_numbers(values: list[Any]) -> list[int] | None:
    """Return ``plain_number`` of every value, None if one of them is not plain."""
    if set(map(type, values)) == {str}:
        # Ranks mostly count up; comparing is faster than so many conversions.
        number = plain_number(values[0])
        if number is not None:
            numbers = list(range(number, number + len(values)))
            if values[-1] == str(numbers[-1]) and values == list(map(str, numbers)):
                return numbers
        with contextlib.suppress(KeyError):
            return list(map(_SMALL.__getitem__, values))
    found = list(map(plain_number, values))
    return None if None in found else found  # type: ignore[return-value]


MAX_DEPTH = 64
"""Most levels of nesting; a rank table needs five."""


def is_too_deep(value: object, levels: int) -> bool:
    """Whether a value holds more than this many levels of lists and objects."""
    items: list[object] = [value]
    for _ in range(levels + 1):
        below: list[object] = []
        for item in items:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        items = below
        if not items:
            return False
    return True


class BadNumber:
    """Placeholder for a number that JSON does not allow or that is too long."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Store the text."""
        self.text = text


_LEADING = r"[ \t\n\v\f\r]*\+?(?!0[xX])0*([0-9]{1,9})(?![0-9])"


def leading_digits(text: str) -> int | None:
    """Return the number that C++'s ``stoull`` reads from a text, None if none.

    A hexadecimal number is not one: only its leading 0 would be read.

    >>> leading_digits("3x"), leading_digits(" 3"), leading_digits("0x3")
    (3, 3, None)
    """
    match = re.match(_LEADING, text)
    return int(match[1]) if match else None


class OddNumber(NamedTuple):
    """Why a value is not a plain number.

    Attributes:
        reason: The end of the sentence "device_id is ...".
        reading: The number that all readers see that accept it, None if they differ.
        is_number: False for null, true, lists and objects.
    """

    reason: str
    reading: int | None = None
    is_number: bool = True


def odd_number(value: object) -> OddNumber:
    """Explain a value for which ``plain_number`` is None."""
    if isinstance(value, (dict, list)):
        return OddNumber(f"{quoted(value)}, not a number", is_number=False)
    return _odd_scalar(value)


# One mistake may occur in thousands of values. Typed, because 1 == 1.0 == True.
@lru_cache(maxsize=256, typed=True)
def _odd_scalar(value: object) -> OddNumber:
    if isinstance(value, str):
        return _odd_string(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) <= MAX_NUMBER:
            return OddNumber(f"{value}, not a plain integer", int(value))
        return OddNumber(f"{value}, which is not an integer")
    if isinstance(value, BadNumber) or type(value) is int:
        return OddNumber(f"a number beyond {MAX_NUMBER}")
    return OddNumber(f"{quoted(value)}, not a number", is_number=False)


_SPELLINGS = (
    (r"(-?)0+([0-9]{1,9})", "with a leading zero", r"\1\2"),
    (r"[0-9]{10,}", f"a number beyond {MAX_NUMBER}", None),
    (r"\+([0-9]{1,9})", "with a sign", r"\1"),
    (r"([0-9]{1,9})\.0*", "with a fraction", r"\1"),
)
"""Other ways to write a number: pattern, name, and the plain form if it is certain."""


def _odd_string(text: str) -> OddNumber:
    shown = quoted(text)
    if not text.strip():
        return OddNumber(f"{shown}, an empty string")
    if plain_number(text.strip()) is not None:
        return OddNumber(f"{shown}, with blanks around", plain_number(text.strip()))
    for pattern, name, number in _SPELLINGS:
        if match := re.fullmatch(pattern, text):
            reading = None if number is None else int(match.expand(number))
            return OddNumber(f"{shown}, {name}", reading)
    if text.isdecimal() and not text.isascii():
        reading = int(text) if len(text) <= len(str(MAX_NUMBER)) else None
        return OddNumber(f"{shown}, in digits that are not ASCII", reading)
    return OddNumber(f"{shown}, not a decimal number")


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_NO_HOST = 224  # the first octet from which addresses are of no host
UNSET_ADDRESS = "0.0.0.0"  # noqa: S104 - is compared


def is_address(text: str) -> bool:
    """Whether a text is a numeric IPv4 or IPv6 address."""
    return is_ipv4(text) or is_ipv6(text)


# A process that connects to 0.0.0.0 or :: reaches its own machine.
_LOOPBACK = re.compile(
    r"(?i)(ip6-)?localhost[46]?(\.localdomain[46]?)?|127(\.[0-9]{1,3}){1,3}"
    r"|0(\.0){3}|::1?|(0{1,4}:){7}0{0,3}[01]"
)


def is_loopback(address: object) -> bool:
    """Whether every host takes a name or an address for itself."""
    return isinstance(address, str) and _LOOPBACK.fullmatch(address) is not None


def is_device_address(text: str) -> bool:
    """Whether a text is an address that an Ascend device can have.

    HCCL reads 0.0.0.0 as "no address"; a multicast address and those from 224.0.0.0 on
    belong to no device (RFC 1112, RFC 4291).
    """
    if is_ipv4(text):
        return text != UNSET_ADDRESS and int(text.partition(".")[0]) < _NO_HOST
    return is_ipv6(text) and not text.lower().startswith("ff")


def is_ipv4(text: str) -> bool:
    """Whether a text is a numeric IPv4 address."""
    return re.fullmatch(_IPV4, text) is not None


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
