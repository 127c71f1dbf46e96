"""Values of variables: plain ASCII decimal numbers within range, or an error."""

from __future__ import annotations

import re

from ranktable.runtime.errors import InvalidVariableError

MAX_PORT = 65535
_PLAIN = re.compile(r"0|[1-9][0-9]{0,8}")
_SIZES = ("world_size", "local_world_size", "num_nodes")


def is_plain(text: str) -> bool:
    """Whether a text is a plain decimal number of at most nine digits."""
    return _PLAIN.fullmatch(text) is not None


def read_number(field: str, variable: str, text: str) -> int:
    """Return the number in a variable.

    Args:
        field: Field of the environment it is for, which gives its range.
        variable: Name of the variable.
        text: Its value.

    Raises:
        InvalidVariableError: It is no plain decimal number within the range.
    """
    if not is_plain(text):
        what = "a plain decimal number"
    elif field in _SIZES and int(text) == 0:
        what = "a number of at least 1"
    elif field == "master_port" and not 0 < int(text) <= MAX_PORT:
        what = f"a port from 1 to {MAX_PORT}"
    else:
        return int(text)
    raise InvalidVariableError(
        "RT302", f"{variable} is {text!r}, not {what}", {variable: text}
    )
