"""Nested lists on a command line: ``[[0..7],['4','5']]``, with the place of each item.

The vendor's tools evaluate such an argument as Python. This reads the same texts, and
says where in the argument something is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ranktable.cluster.argument import ArgumentError

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<mark>[\[\],])
    | '(?P<single>[^'\\]*)'
    | "(?P<double>[^"\\]*)"
    | (?P<word>[^\[\],'"\s]+)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list.

    Attributes:
        text: The item without its quotation marks.
        is_quoted: Whether it had any.
        position: Offset in the argument.
    """

    text: str
    is_quoted: bool
    position: int


@dataclass(frozen=True, slots=True)
class ItemList:
    """A list and the offset of its opening bracket."""

    items: tuple[Item | ItemList, ...]
    position: int


def parse_nested_list(text: str) -> ItemList:
    """Return the nested lists in an argument, whatever their depth.

    A comma after the last item is accepted, as in Python.

    Raises:
        ArgumentError: It is no list; the error shows the place.
    """
    stack: list[tuple[int, list[Item | ItemList]]] = []
    after_item = False
    at = 0
    while match := _TOKEN.match(text, at):
        position, at = match.start(match.lastgroup or 0), match.end()
        mark = match["mark"]
        if mark == "]" and stack:
            position, items = stack.pop()
            done = ItemList(tuple(items), position)
            if not stack:
                return _only(text, at, done)
            stack[-1][1].append(done)
        elif mark == "," and after_item:
            after_item = False
            continue
        elif after_item or mark in ("]", ","):
            expected = "a comma" if after_item else "a number or a list"
            raise _wrong(text, position, f"{expected} is expected here")
        elif mark == "[":
            stack.append((position, []))
            continue
        elif not stack:
            raise _wrong(text, position, "a list begins with a bracket")
        else:
            stack[-1][1].append(_item(match))
        after_item = True
    raise _unfinished(text, at, len(stack))


def _item(match: re.Match[str]) -> Item:
    kind = match.lastgroup or ""
    # The group begins after the quotation mark; the item begins with it.
    is_quoted = kind != "word"
    return Item(match[kind], is_quoted, match.start(kind) - is_quoted)


def _unfinished(text: str, at: int, depth: int) -> ArgumentError:
    """Return the error for a text that ends, or stops making sense, within a list."""
    rest = text[at:]
    if rest.strip():
        position = at + len(rest) - len(rest.lstrip())
        return _wrong(text, position, "this quotation mark is not closed")
    if depth == 0:
        return ArgumentError("the list is empty", hint="write, for example, [[0..7]]")
    return _wrong(text, len(text), f"{depth * ']'} is missing at the end")


def _only(text: str, at: int, done: ItemList) -> ItemList:
    rest = text[at:]
    if rest.strip():
        position = at + len(rest) - len(rest.lstrip())
        raise _wrong(text, position, "there is more text after the list")
    return done


def _wrong(text: str, position: int, reason: str) -> ArgumentError:
    hint = None
    if not text.lstrip().startswith("["):
        hint = f"one node is written in two pairs of brackets: [[{text.strip()}]]"
    return ArgumentError(reason, text=text, position=position, hint=hint)
