"""Read values of variables: plain decimal numbers in range, and addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from ranktable.runtime.errors import InvalidVariableError
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Value = int | str | tuple[int, ...]
"""A number, an address, or the chips of a node by local rank."""

Read = TypeVar("Read")

MAX_PORT = 65535
_MAX_DIGITS = 9
_PLAIN = re.compile(r"0|[1-9][0-9]{0,8}")
# A name, an IPv4 or an IPv6 address with its zone; torch does not accept brackets. A
# hyphen at the beginning would make it an option of torchrun; DNS allows 253
# characters.
_ADDRESS = re.compile(r"[A-Za-z0-9._:%][A-Za-z0-9._:%-]{0,254}")
_MAX_SHOWN = 120
_SIZES = ("world_size", "local_world_size", "num_nodes")


def is_plain(text: str) -> bool:
    """Whether a text is a plain decimal number of at most nine digits."""
    return _PLAIN.fullmatch(text) is not None


def said(variable: str, text: str) -> str:
    """Return ``VARIABLE=value`` for a message, on one line and not too long."""
    return f"{variable}={printable(_cut(text))}"


def quoted(text: str) -> str:
    """Return a value in quotes for a message, on one line and not too long."""
    return repr(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


def read_number(field: str, variable: str, text: str) -> int:
    """Return the number in a variable.

    Args:
        field: Field of the environment, which has a range.
        variable: Name of the variable.
        text: Its value.

    Raises:
        InvalidVariableError: It is not a plain decimal number within the range.
    """
    if text.isascii() and text.isdigit() and len(text) > _MAX_DIGITS:
        what = f"a number of at most {_MAX_DIGITS} digits"
    elif not is_plain(text):
        what = "a plain decimal number"
    elif field in _SIZES and int(text) == 0:
        what = "a number of at least 1"
    elif field == "master_port" and not 0 < int(text) <= MAX_PORT:
        what = f"a port from 1 to {MAX_PORT}"
    else:
        return int(text)
    raise InvalidVariableError(
        "RT302",
        f"{variable} is {quoted(text)}, not {what}; correct or unset it",
        {variable: text},
    )


def read_again(
    env: Mapping[str, str], pairs: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, int, str]]:
    """Yield field, number and variable of each variable that is set.

    Raises:
        InvalidVariableError: One is not a plain decimal number within its range.
    """
    for name, variable in pairs:
        if env.get(variable):
            yield name, read_number(name, variable, env[variable]), variable


def read_address(field: str, variable: str, text: str) -> str:
    """Return the host name or address in a variable; it is not looked up.

    Raises:
        InvalidVariableError: It has characters that no host name or address has.
    """
    if _ADDRESS.fullmatch(text) and text.count(":") != 1:
        return text
    raise InvalidVariableError(
        "RT302",
        f"{variable} is {quoted(text)}, but {field} has to be a host name or an "
        "address: node-1, 10.0.0.1, fd00::1, without a port; correct or unset it",
        {variable: text},
    )


def read_list(
    read: Callable[[str, str, str], Read], field: str, variable: str, text: str
) -> list[Read]:
    """Return the items of a list in a variable, which are separated by commas.

    Args:
        read: Reads one item: ``read_number``.
        field: Field of the environment for each item.
        variable: Name of the variable.
        text: Its value.

    Raises:
        InvalidVariableError: An item is wrong; the error names which.
    InvalidVariableError: An item is wrong; the error names the item.
    """
    items = enumerate(text.split(","), 1)
    try:
        return [read(field, f"{variable}, item {at},", item) for at, item in items]
    except InvalidVariableError as error:
        whole = {variable: text}
        raise InvalidVariableError(error.code, error.message, whole) from None
