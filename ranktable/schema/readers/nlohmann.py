"""How SCCL reads JSON: ``nlohmann::json::parse`` of a file."""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import Any, NoReturn

PARSE_ERROR = "nlohmann parse_error.101"
OUT_OF_RANGE = "nlohmann out_of_range.406"
TYPE_ERROR = "nlohmann type_error.305"
NOT_KNOWN = "not known: nested too deeply to say"

_UINT64_END = 1 << 64
_INT64_START = -(1 << 63)
_MAX_DIGITS = 20
"""Characters of the longest integer of 64 bits, the sign included."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL
)


class CppError(Exception):
    """An exception of the C++ library; its text names it."""


def parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the data of a JSON file as SCCL gets it.

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
    if len(text) <= _MAX_DIGITS and _INT64_START <= int(text) < _UINT64_END:
        return int(text)
    return _real(text)


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CppError(OUT_OF_RANGE)
    return number


def _constant(_: str) -> NoReturn:
    raise CppError(PARSE_ERROR)  # NaN and Infinity are Python's
