"""SCCL's C++ reader, the public header ``rank_table.h``: ``get_device_id(rank)``.

It reads the file with ``nlohmann::json::parse``, and looks at the devices in document
order. The result is the ``device_id`` of the first one with the same ``rank``, else -1.
No exception is caught, so the process ends with it.
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
"""Characters of the longest 64-bit integer, with its sign."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL
)


class CppError(Exception):
    """An exception of the C++ library; its text is the message."""


def parse(data: bytes) -> Any:
    """Return the data of a JSON file as SCCL reads it.

    It is strict JSON in UTF-8, but a byte order mark is skipped, and a zero byte ends
    the file. The last of repeated keys is used. An integer is an ``int`` if it fits
    into 64 bits, else a ``float``. If several defects end the parse, the message may be
    about another one than that of the library.

    Raises:
        CppError: The library throws, or might exhaust its stack.
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
        # The parser is not recursive, but copying its result is.
        raise CppError(NOT_KNOWN) from error
    except ValueError as error:
        raise CppError(PARSE_ERROR) from error
    # Escapes can only be in strings, because the text is JSON.
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
    raise CppError(PARSE_ERROR)  # only Python reads NaN and Infinity


NO_DEVICE = -1
"""The result for a rank without a device, or for a value that is not a number."""

_INT_BITS = 32
_INT_END = 1 << (_INT_BITS - 1)
_STOI = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_MAX_DIGITS = 4000
"""Most digits that are read; Python refuses to convert more than 4300."""


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


def _devices(document: Any) -> Iterator[Any]:
    for node in _values(_member(document, "node_list")):
        yield from _values(_member(node, "device_list"))


def _member(value: Any, key: str) -> Any:
    """Return ``value[key]``; the library adds a missing key as null.

    Raises:
        CppError: The value is neither an object nor null (null becomes an object).
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CppError(TYPE_ERROR)
    return value.get(key)


def _values(value: Any) -> Iterator[Any]:
    """Yield what the library iterates over: nothing for null, a string itself."""
    if isinstance(value, dict):
        # The library sorts objects by the bytes of their keys; in UTF-8 this is the
        # order of their code points.
        yield from (value[key] for key in sorted(value))
    elif isinstance(value, list):
        yield from value
    elif value is not None:
        yield value


def _chip(device: Any) -> str:
    try:
        chip = _number(device, "device_id")
    except CppError as error:
        return str(error)
    return "undefined: beyond the range of int" if chip is None else str(chip)


def _number(device: Any, key: str) -> int | None:
    """Return a value as a C++ ``int``, None if the language does not define it.

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
    # A wider integer is cut to its low bits.
    return (value + _INT_END) % (1 << _INT_BITS) - _INT_END


def _stoi(text: str) -> int:
    """Return what ``std::stoi`` reads: blanks, a sign, digits, then any text.

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
