"""Numbers in a rank table: plain decimal integers, as strings or as JSON numbers."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from typing import Any

MAX_NUMBER = 999_999_999
"""Largest rank, chip or count: nine digits, below the 32-bit int of SCCL's reader."""

_PLAIN = re.compile(r"0|-?[1-9][0-9]{0,8}")
_LEADING = re.compile(r"[ \t\n\v\f\r]*\+?(?!0[xX])0*([0-9]{1,9})(?![0-9])")
_SMALL = {str(number): number for number in range(4096)}
_EITHER: dict[object, int] = {number: number for number in range(4096)}
_EITHER.update(_SMALL)


class BadNumber:
    """Stands in the data for a number that JSON lacks or nothing can hold."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Keep the text."""
        self.text = text


def plain_number(value: object) -> int | None:
    """Return the integer that every reader sees in a value, None if they differ.

    Every reader takes a JSON integer and a string of plain ASCII decimal digits
    without sign, blanks or leading zeros; a minus sign is read (and refused later, by
    a rule that can say more). True is not a number, although Python thinks so.
    """
    if type(value) is str:
        number = _SMALL.get(value)
        if number is None and _PLAIN.fullmatch(value):
            number = int(value)
        return number
    if type(value) is int and -MAX_NUMBER <= value <= MAX_NUMBER:
        return value
    return None


def plain_numbers(values: list[Any], first: int | None = None) -> list[int] | None:
    """Return ``plain_number`` of every value, None if one of them is not plain.

    Args:
        values: Strings and integers.
        first: Where they may well count up from; that is tried before anything.
    """
    if first is not None:
        # Joined texts are compared, which is faster than len(values) conversions. No
        # text with a comma can pass: there would be more texts than numbers.
        numbers = list(range(first, first + len(values)))
        if values == numbers:
            return numbers
        with contextlib.suppress(TypeError):  # an integer among them
            if ",".join(values).encode() == msgspec.json.encode(numbers)[1:-1]:
                return numbers
    try:
        return list(map(_EITHER.__getitem__, values))
    except KeyError:
        found = list(map(plain_number, values))
    return None if None in found else found  # type: ignore[return-value]


def leading_digits(text: str) -> int | None:
    """Return the number that C++'s ``stoull`` takes from a text, None if it takes none.

    A number in base 16 is not one: only its 0 would be taken.

    >>> leading_digits("3x"), leading_digits(" 3"), leading_digits("0x3")
    (3, 3, None)
    """
    match = _LEADING.match(text)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class OddNumber:
    """What is wrong with a value that should be a number.

    Attributes:
        reason: Ends the sentence "device_id is ...".
        reading: The number that every reader which accepts it sees, if they agree.
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


# A generator makes one mistake thousands of times. Typed, because 1 == 1.0 == True.
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
    (re.compile(r"(-?)0+([0-9]{1,9})"), "with a leading zero", r"\1\2"),
    (re.compile(r"[0-9]{10,}"), f"a number beyond {MAX_NUMBER}", None),
    (re.compile(r"\+([0-9]{1,9})"), "with a sign", r"\1"),
    (re.compile(r"([0-9]{1,9})\.0*"), "with a fraction", r"\1"),
)
"""Spellings of one number each: how, what to call it, and the number if it is sure."""


def _odd_string(text: str) -> OddNumber:
    shown = quoted(text)
    if not text.strip():
        return OddNumber(f"{shown}, an empty string")
    if plain_number(text.strip()) is not None:
        return OddNumber(f"{shown}, with blanks around", plain_number(text.strip()))
    for pattern, name, number in _SPELLINGS:
        if match := pattern.fullmatch(text):
            reading = None if number is None else int(match.expand(number))
            return OddNumber(f"{shown}, {name}", reading)
    if text.isdecimal() and not text.isascii():
        reading = int(text) if len(text) <= len(str(MAX_NUMBER)) else None
        return OddNumber(f"{shown}, in digits that are not ASCII", reading)
    return OddNumber(f"{shown}, not a decimal number")
