"""How values and numbers are put into messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_VALUE_LENGTH = 60
"""Characters of a value that a message shows; the excerpt shows the rest."""

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def quoted(value: object) -> str:
    """Return a value as JSON, shortened, on one line and without control characters.

    >>> quoted("5"), quoted(5), quoted([1, 2]), quoted("x" * 99)[-8:]
    ('"5"', '5', 'a list', 'xxxx..."')
    """
    if isinstance(value, (dict, list)) or type(value) not in _KINDS:
        return _KINDS.get(type(value), "a number")
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_VALUE_LENGTH:
        text = text[:MAX_VALUE_LENGTH] + '..."'
    return printable(text)


def printable(text: str) -> str:
    r"""Return text with everything that could steer a terminal as an escape.

    Control characters, surrogates and invisible marks (such as those that turn the
    direction of writing) are not printable in Python's sense.

    >>> printable("a\x1b[31mb\u202ec")
    'a\\x1b[31mb\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def times(count: int) -> str:
    """Return ``twice``, ``3 times`` and so on."""
    return "twice" if count == 2 else f"{count} times"  # noqa: PLR2004


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def folded(numbers: Iterable[int], limit: int = 8) -> str:
    """Return increasing numbers as ranges, the first few of them.

    >>> folded([0, 1, 2, 3, 5, 8, 9])
    '0-3, 5, 8, 9'
    """
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    parts = []
    for first, last in spans[:limit]:
        gap = last - first
        parts.append(
            f"{first}-{last}" if gap > 1 else f"{first}, {last}" if gap else f"{first}"
        )
    return ", ".join(parts) + (", ..." if len(spans) > limit else "")
