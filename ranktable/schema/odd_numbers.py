"""Numbers that are not plain: how readers take them, and why they are reported.

Only a file with a defect needs this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ranktable.schema.format import MAX_NUMBER, plain_number
from ranktable.schema.text import quoted

_LEADING = re.compile(r"[ \t\n\v\f\r]*\+?(?!0[xX])0*([0-9]{1,9})(?![0-9])")


class BadNumber:
    """Placeholder for a number that JSON does not allow or that is too long."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Store the text."""
        self.text = text


def leading_digits(text: str) -> int | None:
    """Return the number that C++'s ``stoull`` reads from a text, None if none.

    A hexadecimal number is not one: only its leading 0 would be read.

    >>> leading_digits("3x"), leading_digits(" 3"), leading_digits("0x3")
    (3, 3, None)
    """
    match = _LEADING.match(text)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class OddNumber:
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
    (re.compile(r"(-?)0+([0-9]{1,9})"), "with a leading zero", r"\1\2"),
    (re.compile(r"[0-9]{10,}"), f"a number beyond {MAX_NUMBER}", None),
    (re.compile(r"\+([0-9]{1,9})"), "with a sign", r"\1"),
    (re.compile(r"([0-9]{1,9})\.0*"), "with a fraction", r"\1"),
)
"""Other ways to write a number: pattern, name, and the plain form if it is certain."""


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
