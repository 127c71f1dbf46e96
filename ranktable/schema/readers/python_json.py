"""How torch_tpu reads JSON: ``open(path, "r")`` and ``json.load``."""

from __future__ import annotations

import io
import json
from typing import Any

ERRORS = (
    ArithmeticError,  # int() of Infinity
    AssertionError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,  # among them JSONDecodeError and UnicodeDecodeError
)
"""What Python raises when it takes plain data for a rank table."""


def load(data: bytes) -> Any:  # noqa: ANN401 - the vendor's code takes it as it comes
    """Return the data of a JSON file as the vendor's Python code gets it.

    The last of repeated keys wins, NaN is a number, a byte order mark is refused. The
    file is opened as text, so a line break is one character in every spelling, which
    is how positions in messages are counted. The encoding is that of the locale; this
    takes UTF-8. Messages are those of the Python that runs this.

    Raises:
        ValueError: It is not UTF-8, not JSON, or has an integer of too many digits.
        RecursionError: It is nested too deeply.
    """
    return json.load(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
