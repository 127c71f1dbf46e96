"""Files drawn from the ``Record`` of a format: sound, with one defect, with any change.

What a key allows is read from its declaration, so that a new format, key or limit is
tested as soon as it is declared.
"""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ranktable.schema.declare import (
    ADDRESSES,
    NUMBERS,
    SPARES_KEY,
    Key,
    KeyRole,
    Kind,
    Record,
)
from ranktable.schema.formats import by_name
from ranktable.schema.formats.hccl_2_0 import ADDRESS, LEVEL
from ranktable.schema.json_schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = tuple[str | int, ...]

SHAPE_CODES = {f"RT{n}" for n in (112, 113, 114, 115, 116, 117, 260, 261, 270)}
"""Codes of what a record says of an object."""


LONGEST = 200
"""Most entries of a list that is drawn to be too long."""


@cache
def validator(format_name: str) -> Draft202012Validator:
    """Return a validator of the shape of a format."""
    return Draft202012Validator(schema_of(by_name(format_name)))


def full(record: Record) -> Any:
    """Return an object in which every key occurs; lists have two entries alike."""
    found = {}
    for key in record.keys:
        examples: tuple[Any, ...] = key.examples or key.values or (record.example,)
        value = copy.deepcopy(examples[0])
        if isinstance(key.each, Record):
            value = full(key.each)
            value = [value] if key.kind is Kind.LIST else value
        if key.kind is Kind.LIST:
            value = value[:1] + copy.deepcopy(value[:1])
        found[key.key] = value
    return found


def at(document: Any, path: Path) -> Any:
    """Return what is at a place of a document."""
    value: Any = document
    for step in path:
        value = value[step]
    return value


def declared(
    record: Record, document: Any, path: Path = ()
) -> Iterator[tuple[Path, Key | Record]]:
    """Yield the place of every object and value, with what is declared of it."""
    yield path, record
    for key in record.keys:
        if key.key in document:
            yield from _declared_of(key, document[key.key], (*path, key.key))


def _declared_of(
    key: Key, value: Any, path: Path
) -> Iterator[tuple[Path, Key | Record]]:
    yield path, key
    is_list = key.kind is Kind.LIST
    entries = [((*path, n), one) for n, one in enumerate(value)] if is_list else []
    if key.kind is Kind.OBJECT:
        entries = [(path, value)]
    for place, one in entries:
        if isinstance(key.each, Record):
            yield from declared(key.each, one, place)
        elif key.each is not None:
            yield from _declared_of(key.each, one, place)


def outline(record: Record, within: str = "") -> Iterator[str]:
    """Yield a line for each key below a record: its kind, role and limits."""
    for key in record.keys:
        path = f"{within}{key.key}"
        yield f"{path}: {_limits_told(key, key.key in record.one_of)}"
        each = f"{path}[]" if key.kind is Kind.LIST else path
        if isinstance(key.each, Record):
            yield from outline(key.each, f"{each}.")
        elif key.each is not None:
            yield f"{each}: {_limits_told(key.each)}"


def _limits_told(key: Key, is_one_of: bool = False) -> str:
    ends = ["" if end is None else str(end) for end in (key.minimum, key.maximum)]
    words = [key.kind.value, "..".join(ends) if any(ends) else "", *key.values]
    words += [key.role.value] if key.role is not KeyRole.OTHER else []
    flags = (key.is_required, is_one_of, key.is_written)
    marks = zip(flags, ("required", "or another", "written"), strict=True)
    return ", ".join(filter(None, [*words, *(mark for is_so, mark in marks if is_so)]))


class Broken(NamedTuple):
    """A document with one defect of its shape: the code, and the place that is told."""

    code: str
    place: Path
    document: Any


def broken(record: Record, document: Any, *, is_hccl_1: bool) -> Iterator[Broken]:
    """Yield a document once for everything that its record forbids.

    Of lists, the last entries are changed, so that a place says which one it is.
    """

    def with_value(path: Path, value: Any) -> Any:
        if not path:
            return value
        changed = copy.deepcopy(document)
        at(changed, path[:-1])[path[-1]] = copy.deepcopy(value)
        return changed

    for path, one in declared(record, document):
        value = at(document, path)
        if 0 in path:
            continue
        if isinstance(one, Key):
            for code, wrong in _wrong_values(one, value, is_hccl_1=is_hccl_1):
                yield Broken(code, path, with_value(path, wrong))
            continue
        for code, step, wrong in _wrong_objects(one, value):
            yield Broken(code, (*path, *step), with_value(path, wrong))
        for wrong in (None, "x", 5, []) if path else ():
            yield Broken("RT113", path, with_value(path, wrong))


def _wrong_objects(record: Record, value: Any) -> Iterator[tuple[str, Path, Any]]:
    """Yield an object without each key that must be there, and with each misspelt."""

    def without(*keys: str) -> Any:
        return {key: item for key, item in value.items() if key not in keys}

    for key in value:
        is_needed = key in record.required
        code, odd = "RT112" if is_needed else "RT117", f"{key}_"
        yield code, (odd,), {**without(key), odd: value[key]}
        if is_needed:
            yield code, (), without(key)
    if record.one_of:
        yield "RT112", (), without(*record.one_of)


def _wrong_values(
    key: Key, value: Any, *, is_hccl_1: bool
) -> Iterator[tuple[str, Any]]:
    """Yield values that a key does not allow, each with the code of its defect."""
    kinds = {Kind.LIST: list, Kind.BOOLEAN: bool, Kind.INTEGER: int}
    own = (str, int) if key.kind is Kind.NUMBER else kinds.get(key.kind, str)
    if key.kind in (Kind.OBJECT, Kind.ANY):
        return
    samples: tuple[Any, ...] = (None, True, [], {}, 5, "5")
    for wrong in samples:
        if not isinstance(wrong, own) or (wrong is True and own is not bool):
            yield "RT113", wrong
    if key.kind in NUMBERS:
        is_read = is_hccl_1 and key.role is not KeyRole.COUNT
        yield from (("RT114", wrong) for wrong in (3.5, "", "x", "-", "0x", 10**9))
        for wrong in ("05", " 5", "5 ", "5x", "5.0"):
            yield "RT270" if is_read else "RT114", wrong
    elif key.kind is Kind.HOST:
        yield from (("RT113", wrong) for wrong in ("", " "))
    elif key.values:
        code = "RT115" if key.role is KeyRole.VERSION else "RT261"
        yield from ((code, wrong) for wrong in ("", "x"))
    for limit, step in ((key.minimum, -1), (key.maximum, 1)):
        if limit is not None:
            yield from _beyond(key, value, limit + step)


def _beyond(key: Key, value: Any, size: int) -> Iterator[tuple[str, Any]]:
    """Yield a number, or what has a length, outside a limit."""
    if key.kind in NUMBERS:
        yield "RT260", size if key.kind is Kind.INTEGER else str(size)
    elif key.kind is Kind.LIST and 0 <= size <= LONGEST:
        yield "RT260" if size else "RT116", (value * (size + 1))[:size]
    elif key.kind in (Kind.TEXT, Kind.HOST) and size >= 0:
        yield "RT260", "n" * size


@st.composite
def sound(
    draw: st.DrawFn,
    name: str,
    *,
    nodes: tuple[int, int] = (1, 4),
    alike: bool = False,
    kinds_of_devices: int = 2,
) -> Any:
    """Draw a sound document; ``alike`` is one whose nodes are spelt in the same way."""
    format_ = by_name(name)
    document = draw(_objects(format_.record))
    size, number = draw(st.integers(1, 4)), draw(st.integers(*nodes))
    if name in _SETTLED:
        _SETTLED[name](document, size, number)
        return document
    one = _objects(format_.device)
    kinds = draw(st.lists(one, min_size=1, max_size=kinds_of_devices))
    hosts = draw(_objects(format_.node))
    if alike:  # the fast path takes one address, plain values and nodes that come last
        document.pop(SPARES_KEY, None)
        for kind in kinds:
            kind.pop("device_ip_emulator", None)
        plain = {key.key for key in format_.node.keys if key.kind is not Kind.ANY}
        hosts = {key: value for key, value in hosts.items() if key in plain}
    orders = draw(st.lists(st.permutations(range(size)), min_size=1, max_size=2))
    listed = document[format_.nodes_key] = []
    for node in range(number):
        chips = orders[node % len(orders)]
        devices = [copy.deepcopy(kinds[chip % len(kinds)]) for chip in chips]
        for place, (chip, device) in enumerate(zip(chips, devices, strict=True)):
            rank = node * size + place
            _write(format_.device, device, chip, rank=rank, local_rank=place)
        listed.append({**hosts, format_.devices_key: devices})
    for spare in document.get(SPARES_KEY, ()):
        for chip, device in enumerate(spare[format_.devices_key]):
            _write(format_.device, device, chip)
    if format_.count_key is not None:  # it is written in any case
        document[format_.count_key] = str(number)
    _number(format_.record, document, draw(st.sampled_from([1, 7, 99])))
    if "super_pod_list" in document:
        _fill_pods(document)
    return document


def _write(record: Record, device: Any, chip: int, **numbers: int) -> None:
    """Write the numbers of a device, each in the type that was drawn."""
    for key, value in device.items():
        role = record.by_key[key].role
        own = chip if role is KeyRole.DEVICE_ID else numbers.get(role.value, value)
        device[key] = type(value)(own)


def _number(record: Record, document: Any, gap: int) -> None:
    """Give each host and each address a name of its own."""
    numbers = count(1)
    for path, key in [*declared(record, document)]:
        if not isinstance(key, Key):
            continue
        number = next(numbers) * gap
        if key.kind in ADDRESSES:
            text = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            at(document, path[:-1])[path[-1]] = text
        elif key.role is KeyRole.HOST:
            at(document, path[:-1])[path[-1]] = f"n{number}"


def _fill_pods(document: Any) -> None:
    """Put two servers into each super pod."""
    servers = document["server_list"]
    named = [{"server_id": one["server_id"]} for one in servers]
    document["super_pod_list"] = [
        {"super_pod_id": f"p{node}", "server_list": named[node : node + 2]}
        for node in range(0, len(servers), 2)
    ]
    devices = [device for server in servers for device in server["device"]]
    for number, device in enumerate(devices):
        device["super_device_id"] = str(number)


def _settle_ranks(document: Any, size: int, number: int) -> None:
    """Number the ranks of a table 2.0, and connect them in two layers."""
    drawn = document["rank_list"]
    ranks = [copy.deepcopy(drawn[n % len(drawn)]) for n in range(size * number)]
    document |= {"rank_list": ranks, "rank_count": len(ranks)}
    for rank, one in enumerate(ranks):
        chip, level = rank % size, copy.deepcopy(LEVEL.example)
        one |= {"rank_id": rank, "device_id": chip, "local_id": chip}
        one.pop("replaced_local_id", None)
        one.pop("control_plane", None)
        one["level_list"] = []
        for layer, net in enumerate((f"s{rank // size}", "all")):
            address = {**ADDRESS.example, "addr": f"10.{layer}.0.{rank + 1}"}
            more = {"net_layer": layer, "net_instance_id": net}
            one["level_list"].append({**level, **more, "rank_addr_list": [address]})


def _settle_pods(document: Any, size: int, number: int) -> None:
    """Number the pods and chips of a cloud table, and count them."""
    document["group_count"] = "1"
    (group,) = document["group_list"] = document["group_list"][:1]
    group |= {"device_count": str(size * number), "instance_count": str(number)}
    group["instance_list"] = [
        {
            "pod_name": f"p{pod}",
            "server_id": f"n{pod}",
            "devices": [
                {"device_id": str(chip), "device_ip": f"10.0.{pod}.{chip + 1}"}
                for chip in range(size)
            ],
        }
        for pod in range(number)
    ]


_SETTLED = {"hccl-2.0": _settle_ranks, "hccl-cloud": _settle_pods}
_LEFT_OUT = {"layout", "topology", "container_ip", "super_pod_id", "super_device_id"}
"""Keys whose values mean more than their record says."""


@st.composite
def _objects(draw: st.DrawFn, record: Record) -> Any:
    """Draw an object with some of its keys; every address, if one may be needed."""
    keys = [key.key for key in record.keys if key.key not in _LEFT_OUT]
    kept = {*record.required, *draw(st.sets(st.sampled_from(keys)))}
    kept |= {key.key for key in record.keys if key.kind in ADDRESSES[1:]} & {
        "device_ip"
    }
    if record.one_of and not kept & {*record.one_of}:
        kept.add(draw(st.sampled_from(record.one_of)))
    kept_keys = [key for key in record.keys if key.key in kept]
    return {key.key: draw(_allowed(key)) for key in draw(st.permutations(kept_keys))}


def _allowed(key: Key) -> st.SearchStrategy[Any]:
    """Draw values that a key allows."""
    if key.kind in NUMBERS and not key.values:
        numbers = st.integers(key.minimum or 0, min(key.maximum or 10**6, 10**6))
        number = numbers if key.kind is Kind.INTEGER else numbers.map(str)
        return number | numbers if key.kind is Kind.NUMBER else number
    if isinstance(key.each, Record):
        entry = _objects(key.each)
        is_list = key.kind is Kind.LIST
        return st.lists(entry, min_size=1, max_size=2) if is_list else entry
    return st.sampled_from(key.values or key.examples).map(copy.deepcopy)


@st.composite
def texts(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> bytes:
    """Draw the bytes of documents in some layout."""
    layouts: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"indent": 4}]
    layout = draw(st.sampled_from(layouts))
    return json.dumps(draw(documents), **layout).encode()


ODD_PIECES = (
    *(b"", b" ", b"\n", b"\t", b"\x00", b"\x7f", b"\xc3\xa9", b"\xff", b"x", b"X"),
    *(b"0", b"9", b"-", b"+", b".", b"e", b"_", b'"', b"\\", b"\\u0041", b"'"),
    *(b",", b":", b";", b"/", b"[", b"]", b"{", b"}", b'"rank":"0",', b'","x":"'),
)
"""Bytes of each class that matters to a reader of JSON."""
_VALUE = re.compile(rb':\s*("[^"]*"|[0-9]+)')


@st.composite
def damaged(draw: st.DrawFn, files: st.SearchStrategy[bytes]) -> bytes:
    """Draw files with some damage, above all in and beside their values."""
    data = draw(files)
    places = [at for m in _VALUE.finditer(data) for at in range(m.start(), m.end() + 1)]
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.sampled_from(places or [0]) | st.integers(0, len(data)))
        end = draw(st.sampled_from([start, start + 1, start + 40, len(data)]))
        piece = draw(st.sampled_from(ODD_PIECES) | st.just(data[start:end] * 2))
        data = data[:start] + piece + data[end:]
    return data


_SPELLINGS = (
    *("", " ", "0", "00", "05", "5", " 5", "5 ", "5\n", "\n5", "+5", "-5", "-0", "5x"),
    *("5.0", "5.", "1_5", "0x5", "1e1", "999999999", "1000000000", "-1", "-999999999"),
    *("-1000000000", "\u0665", "\uff15", "1.0", "1.2", "n0", "10.20.0.5", "\u3000"),
)
odd_values = st.one_of(
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


def _keys(record: Record) -> Iterator[Key]:
    for key in record.keys:
        yield key
        yield from _keys(key.each) if isinstance(key.each, Record) else ()
        yield from [key.each] if isinstance(key.each, Key) else ()


def limits(key: Key) -> Iterator[object]:
    """Yield values at and beside the limits of a key, and those that it allows."""
    yield from (*key.values, *key.examples)
    for limit in (key.minimum, key.maximum):
        for number in () if limit is None else (limit - 1, limit, limit + 1):
            yield from (number, str(number), "x" * min(max(number, 0), 300))


@cache
def _values(format_name: str) -> st.SearchStrategy[Any]:
    keys = _keys(by_name(format_name).record)
    found = {repr(value): value for key in keys for value in limits(key)}
    return st.sampled_from(list(found.values())).map(copy.deepcopy) | odd_values


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
