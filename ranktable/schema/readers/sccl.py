"""SCCL's C++ reader, the public header ``rank_table.h``: ``get_device_id(rank)``.

It reads the file with ``nlohmann::json::parse``, walks the devices in document order
and answers the ``device_id`` of the first one whose ``rank`` fits, else -1. Nothing
catches what it throws, so the process ends.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARSE_ERROR = "nlohmann parse_error.101"
OUT_OF_RANGE = "nlohmann out_of_range.406"
TYPE_ERROR = "nlohmann type_error.305"
NOT_KNOWN = "not known: nested too deeply to say"

_UINT64_END = 1 << 64
_INT64_START = -(1 << 63)
_MAX_INTEGER_LENGTH = 20
"""Characters of the longest integer of 64 bits, the sign included."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL
)


class CppError(Exception):
    """An exception of the C++ library; its text names it."""


def parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the data of a JSON file as SCCL reads it.

    Strict JSON in UTF-8, but a byte order mark is skipped and a zero byte ends the
    file. The last of repeated keys wins. An integer is an ``int`` when 64 bits hold
    it, else a ``float``. In a file with several defects that end the parse, the one
    that is named may not be the first.

    Raises:
        CppError: The library throws, or would exhaust its stack for all we know.
    """
    text = data.removeprefix(codecs.BOM_UTF8).partition(b"\0")[0]
    try:
        document = json.loads(
            text.decode(),
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_constant,
        )
    except RecursionError as error:
        # The parser has no recursion, but what is parsed is copied recursively.
        raise CppError(NOT_KNOWN) from error
    except ValueError as error:
        raise CppError(PARSE_ERROR) from error
    # Escapes stand in strings only, since the text is JSON by now.
    if any(escape[1] for escape in _ESCAPE.finditer(text.decode())):
        raise CppError(PARSE_ERROR)
    return document


def _integer(text: str) -> int | float:
    if len(text) <= _MAX_INTEGER_LENGTH and _INT64_START <= int(text) < _UINT64_END:
        return int(text)
    return _real(text)


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CppError(OUT_OF_RANGE)
    return number


def _constant(_: str) -> NoReturn:
    raise CppError(PARSE_ERROR)  # NaN and Infinity are Python's


NO_DEVICE = -1
"""The answer for a rank that no device has, and for a value that is not a number."""

_INT_BITS = 32
_INT_END = 1 << (_INT_BITS - 1)
_STOI = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_MAX_DIGITS = 4000
"""Digits that are looked at; Python refuses to convert more than 4300."""


class Sccl:
    """SCCL's rank_table.h."""

    name = "sccl"
    title = "SCCL's rank_table.h: get_device_id(rank)"

    def outcomes(self, data: bytes, ranks: Sequence[int]) -> list[str]:
        """Return what the process of each rank gets."""
        wanted = frozenset(ranks)
        found: dict[int, str] = {}
        rest = str(NO_DEVICE)
        try:
            for device in _devices(parse(data)):
                rank = _number(device, "rank")
                if rank in wanted and rank not in found:
                    found[rank] = _chip(device)
        except CppError as error:
            rest = str(error)
        return [found.get(rank, rest) for rank in ranks]


def _devices(document: Any) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    for node in _values(_member(document, "node_list")):
        yield from _values(_member(node, "device_list"))


def _member(value: Any, key: str) -> Any:  # noqa: ANN401 - any JSON
    """Return ``value[key]``, which the library adds as null where it is missing.

    Raises:
        CppError: The value is neither an object nor null, which becomes an object.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CppError(TYPE_ERROR)
    return value.get(key)


def _values(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    """Yield what the library iterates over: null is empty, a string is one value."""
    if isinstance(value, dict):
        # Objects of the library are sorted by the bytes of their keys, which is the
        # order of their code points.
        yield from (value[key] for key in sorted(value))
    elif isinstance(value, list):
        yield from value
    elif value is not None:
        yield value


def _chip(device: Any) -> str:  # noqa: ANN401 - any JSON
    try:
        chip = _number(device, "device_id")
    except CppError as error:
        return str(error)
    return "undefined: beyond the range of int" if chip is None else str(chip)


def _number(device: Any, key: str) -> int | None:  # noqa: ANN401 - any JSON
    """Return a value as C++ ``int``, None where the language leaves it undefined.

    Raises:
        CppError: The value is a text without a number, or the device is not an object.
    """
    value = _member(device, key)
    if isinstance(value, str):
        return _stoi(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NO_DEVICE
    if isinstance(value, float):
        number = int(value)  # truncates towards zero, as static_cast does
        return number if -_INT_END <= number < _INT_END else None
    # A wider integer keeps its low bits.
    return (value + _INT_END) % (1 << _INT_BITS) - _INT_END


def _stoi(text: str) -> int:
    """Return what ``std::stoi`` reads: blanks, a sign, digits, and then anything.

    Raises:
        CppError: There are no digits, or the number does not fit an ``int``.
    """
    match = _STOI.match(text)
    if match is None:
        raise CppError("std::invalid_argument: stoi")
    digits = match[1][:1] + match[1][1:].lstrip("0")
    number = int(digits[:_MAX_DIGITS]) if digits not in ("+", "-") else 0
    if not -_INT_END <= number < _INT_END:
        raise CppError("std::out_of_range: stoi")
    return number
