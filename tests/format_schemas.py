"""The JSON Schema of each format as a validator, and documents near its shape."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ranktable.schema.declare import Key, Kind, Record
from ranktable.schema.formats import by_name
from ranktable.schema.json_schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPELLINGS = (
    *("", " ", "0", "00", "05", "5", " 5", "5 ", "5\n", "\n5", "+5", "-5", "-0", "5x"),
    *("5.0", "5.", "1_5", "0x5", "1e1", "999999999", "1000000000", "-1", "-999999999"),
    *("-1000000000", "\u0665", "\uff15", "1.0", "1.2", "n0", "10.20.0.5", "\u3000"),
)
_ODD = st.one_of(
    st.sampled_from(_SPELLINGS),
    st.integers(-3, 70),
    st.sampled_from([999_999_999, 10**9, 10**18, -(10**9), -999_999_999]),
    # JSON Schema takes 5.0 for the integer 5 (draft 2020-12, validation, 6.1.1); to
    # the checker it is oddly spelt, because int() in Python takes "5" and not "5.0".
    st.floats(-9, 9).filter(lambda number: not number.is_integer()),
    st.none(),
    st.booleans(),
    st.text(max_size=2),
    # Made anew for every draw, because a later change may be made inside.
    st.sampled_from(["[]", "{}", "[[]]", "[{}]"]).map(json.loads),
)


@cache
def validator(format_name: str) -> Draft202012Validator:
    """Return a validator of the shape of a format."""
    return Draft202012Validator(schema_of(by_name(format_name)))


def full(record: Record) -> Any:
    """Return an object in which every key occurs, from its examples."""
    found = {}
    for key in record.keys:
        value = copy.deepcopy((key.examples or key.values or (record.example,))[0])
        if isinstance(key.each, Record):
            value = full(key.each)
            value = [value, copy.deepcopy(value)] if key.kind is Kind.LIST else value
        found[key.key] = value
    return found


def _keys(record: Record) -> Iterator[Key]:
    for key in record.keys:
        yield key
        yield from _keys(key.each) if isinstance(key.each, Record) else ()
        yield from [key.each] if isinstance(key.each, Key) else ()


def _limits(key: Key) -> Iterator[object]:
    """Yield values at and beside the limits of a key, and those that it allows."""
    yield from (*key.values, *key.examples)
    for limit in (key.minimum, key.maximum):
        for number in () if limit is None else (limit - 1, limit, limit + 1):
            yield from (number, str(number), "x" * min(max(number, 0), 300))


@cache
def _values(format_name: str) -> st.SearchStrategy[Any]:
    keys = _keys(by_name(format_name).record)
    found = {repr(value): value for key in keys for value in _limits(key)}
    return st.sampled_from(list(found.values())).map(copy.deepcopy) | _ODD


@st.composite
def changed(draw: st.DrawFn, format_name: str, most: int = 4) -> Any:
    """Draw a document of a format with a few changes, anywhere in it."""
    format_ = by_name(format_name)
    keys = sorted({key.key for key in _keys(format_.record)} | {"note", "placement"})
    is_example = draw(st.booleans())
    document = copy.deepcopy(format_.example) if is_example else full(format_.record)
    for _ in range(draw(st.integers(0, most))):
        holder, key = draw(st.sampled_from(list(_places(document)) or [({}, "")]))
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "replace":
                holder[key] = draw(_values(format_name))
            case "remove" if holder:
                del holder[key]
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from(keys))] = draw(_values(format_name))
            case _:
                holder.append(draw(_values(format_name)))
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a document: what holds it, and the key."""
    for key in document if isinstance(document, dict) else range(len(document)):
        yield document, key
        if isinstance(document[key], (dict, list)):
            yield from _places(document[key])
