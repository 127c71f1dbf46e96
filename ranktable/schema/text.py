"""Values as text for messages: quoted, counted, folded, and safe to print."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_VALUE_LENGTH = 60
"""Most characters of a value in a message; the excerpt shows the rest."""

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
    r"""Return text in which everything that could control a terminal is escaped.

    Control characters, surrogates and invisible marks, such as those that change the
    direction of writing, are not printable in Python's sense.

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
    return "twice" if count == 2 else f"{count} times"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{count} {singular if count == 1 else plural or plural_of(singular)}"


def plural_of(name: str) -> str:
    """Return ``racks``, ``switches`` or ``chassis``."""
    if name.endswith("s"):
        return name
    return f"{name}{'es' if name.endswith(('ch', 'sh', 'x')) else 's'}"


def fold_numbers(numbers: Iterable[int]) -> str:
    """Return numbers in their order, runs of three or more as ranges.

    >>> fold_numbers([0, 1, 2, 3]), fold_numbers([0, 2, 6, 7]), fold_numbers([3, 2, 1])
    ('0-3', '0,2,6,7', '3-1')
    """
    return ",".join(_runs(list(numbers)))


def folded(numbers: Iterable[int], limit: int = 8) -> str:
    """Return the first numbers for a sentence, with runs as ranges.

    >>> folded([0, 1, 2, 3, 5, 8, 9])
    '0-3, 5, 8, 9'
    """
    runs = list(islice(_runs(list(numbers)), limit + 1))
    return ", ".join(runs[:limit]) + (", ..." if len(runs) > limit else "")


MAX_NAMED = 4
"""Most names in a message; the others are counted."""


def first_few(names: Iterable[object], separator: str = ", ") -> str:
    """Return the first names and how many others there are: ``a, b, c, d and 2 more``.

    Args:
        names: The names.
        separator: ``"; "`` between names that have commas.
    """
    listed = list(map(str, names))
    left = len(listed) - MAX_NAMED
    more = f"{separator.rstrip(', ')} and {left} more" if left > 0 else ""
    return separator.join(listed[:MAX_NAMED]) + more


def named_ranks(ranks: list[int]) -> str:
    """Return ranks as the subject of a sentence: ``rank 3``, ``the ranks 3, 5``."""
    return f"{'rank' if len(ranks) == 1 else 'the ranks'} {folded(ranks)}"


def _runs(numbers: list[int]) -> Iterator[str]:
    """Yield runs that count up or down by one, and the numbers between them."""
    at = 0
    while at < len(numbers):
        ends = [_run_end(numbers, at, step) for step in (1, -1)]
        end = max(ends)
        if end - at > 1:
            yield f"{numbers[at]}-{numbers[end]}"
        else:
            end = at
            yield str(numbers[at])
        at = end + 1


def _run_end(numbers: list[int], at: int, step: int) -> int:
    while at + 1 < len(numbers) and numbers[at + 1] == numbers[at] + step:
        at += 1
    return at
