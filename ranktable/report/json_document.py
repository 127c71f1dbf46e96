"""JSON that people read too: a line for each member and for each item of a list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping


def json_document(members: Mapping[str, object], indent: str = "") -> Iterator[str]:
    """Yield a JSON object with a line for each member.

    Args:
        members: Plain data by key. The items of an iterator have a line each, and are
            asked for one by one; an item that is text is JSON already. An object that
            has such an iterator has a line for each member, too.
        indent: Blanks before the object.
    """
    mark = "{"
    for key, value in members.items():
        yield f"{mark}\n{indent}  {json.dumps(key)}: "
        if isinstance(value, Iterator):
            yield from _items(value, f"{indent}  ")
        elif isinstance(value, dict) and _has_iterator(value):
            yield from json_document(value, f"{indent}  ")
        else:
            yield json.dumps(value)
        mark = ","
    yield f"\n{indent}}}" if indent else "\n}\n"


def _has_iterator(members: Mapping[str, object]) -> bool:
    return any(isinstance(value, Iterator) for value in members.values())


def _items(items: Iterator[object], indent: str) -> Iterator[str]:
    mark = "["
    for item in items:
        text = item if isinstance(item, str) else json.dumps(item)
        yield f"{mark}\n{indent}  {text}"
        mark = ","
    yield f"\n{indent}]" if mark == "," else "[]"
