"""Values of variables: plain ASCII decimal numbers in range, addresses, or an error."""

from __future__ import annotations

import re

from ranktable.runtime.errors import InvalidVariableError

Value = int | str | tuple[int, ...]
"""A number, an address, or the chips of a node by local rank."""

MAX_PORT = 65535
_PLAIN = re.compile(r"0|[1-9][0-9]{0,8}")
# A name, an IPv4 or an IPv6 address with its zone; torch takes no brackets.
_ADDRESS = re.compile(r"[A-Za-z0-9._:%-]+")
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
        "RT302",
        f"{variable} is {text!r}, not {what}; correct or unset it",
        {variable: text},
    )


def read_address(field: str, variable: str, text: str) -> str:
    """Return the host name or address in a variable; it is not looked up.

    Raises:
        InvalidVariableError: It has characters that no host name or address has.
    """
    if _ADDRESS.fullmatch(text) and text.count(":") != 1:
        return text
    raise InvalidVariableError(
        "RT302",
        f"{variable} is {text!r}, but {field} has to be a host name or an address: "
        "node-1, 10.0.0.1, fd00::1, without a port; correct or unset it",
        {variable: text},
    )


def read_host(field: str, variable: str, text: str) -> str:
    """Return the host of ``host:port`` or of a host alone; of IPv6, ``[host]:port``.

    Raises:
        InvalidVariableError: It has characters that no host name or address has.
    """
    host, _, port = text.rpartition(":")
    has_port = port.isdigit() and host and (":" not in host or host.endswith("]"))
    bare = host if has_port else text
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    return read_address(field, variable, bare)
