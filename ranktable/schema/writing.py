"""Write a table: to the plain data of a format, and to canonical bytes."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ranktable.schema.atomic_files import replace_file
from ranktable.schema.check import WRAPPED
from ranktable.schema.diagnostic import (
    Finding,
    Location,
    Options,
    Quota,
    RankTableError,
    Severity,
)
from ranktable.schema.document import Document
from ranktable.schema.format import LAYOUT_KEY, SPARES_KEY, TOPOLOGY_KEY, Kind, Role
from ranktable.schema.formats import by_name
from ranktable.schema.json_parser import parse
from ranktable.schema.rules.ranks import NOT_FROM_ZERO, RANK_GAP, WRONG_LOCAL_RANK

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ranktable.schema.format import Field, Format
    from ranktable.schema.model import Device, Layout, Node, RankTable

# A key is at the beginning of its line; a value may also begin with ": ".
_KEY = re.compile(rb'^ *"[^"\\]*(?:\\.[^"\\]*)*": ', re.MULTILINE)

OF_GAPS = (RANK_GAP.code, NOT_FROM_ZERO.code, WRONG_LOCAL_RANK.code)
"""Errors of a table in which ranks are missing."""

IN_MEMORY = "<table>"
"""Name of a table that is not in a file."""

INDENT = 4
"""Spaces for each level, as in the files of the vendor's generator."""


def dumps(table: RankTable, *, format: str | None = None) -> bytes:  # noqa: A002
    """Return the bytes of a table's file; equal tables give equal bytes.

    A table that was read is written in the same form: the same keys in the same order,
    strings or integers, with unknown keys. The layout is that of the vendor's
    generator: four spaces for each level, and no blank after a colon.

    Args:
        table: The table.
        format: Name of the format; by default the one it was read from.

    Raises:
        RankTableError: The table is not sound, for example a rank occurs twice.
        ValueError: There is no such format.
    """
    return dumps_judged(table, format=format)[0]


def dumps_judged(
    table: RankTable,
    *,
    format: str | None = None,  # noqa: A002 - as in dumps
    options: Options | None = None,
    may_have_gaps: bool = False,
) -> tuple[bytes, list[Finding]]:
    """Return the bytes of ``dumps``, and the notes about the table.

    Args:
        table: The table.
        format: Name of the format; by default the one it was read from.
        options: Facts about the hosts, as for a check.
        may_have_gaps: Whether ranks may be missing.

    Raises:
        RankTableError: The table is not sound.
        ValueError: There is no such format.
    """
    if (format is None and table.wrapper) or format == WRAPPED != table.format:
        return _dumps_wrapped(table, options, may_have_gaps=may_have_gaps)
    target = by_name(format if format is not None else table.format)
    document = target.write(table)
    options = options or Options()
    quota = Quota(options.limit)
    but = OF_GAPS if may_have_gaps else ()
    plain = _judged_plain(target, document, options, quota)
    if plain is not None:
        _refuse_errors(plain[1], but)
        return plain
    found = _judged_closely(target, document, options, quota)
    _refuse_errors(found, but)
    data = encode(document)
    if _has_extra(table):
        _refuse_unreadable(data)
    return data, found


def _dumps_wrapped(
    table: RankTable, options: Options | None, *, may_have_gaps: bool
) -> tuple[bytes, list[Finding]]:
    """Return a table in its ConfigMap, or in a new one."""
    from ranktable.schema.config_map import new_config_map  # noqa: PLC0415 - rare

    data, found = dumps_judged(
        table, format=table.format, options=options, may_have_gaps=may_have_gaps
    )
    wrapper = table.wrapper
    return wrapper.with_table(data) if wrapper else new_config_map(data), found


def _has_extra(table: RankTable) -> bool:
    return bool(table.extra) or any(
        node.extra or any(device.extra for device in node.devices)
        for node in table.nodes
    )


def _refuse_unreadable(data: bytes) -> None:
    """Raise RankTableError if unknown keys have values that cannot be read again."""
    parsed = parse(data.decode())
    _refuse_errors([parsed] if isinstance(parsed, Finding) else parsed[1])


def encode(document: object) -> bytes:
    """Return plain data in the generator's layout, with a newline at the end."""
    compact = msgspec.json.encode(document)
    pretty = msgspec.json.format(compact, indent=INDENT)
    # No value contains it, so it is only after keys: ten times faster.
    if b'": ' not in compact:
        return pretty.replace(b'": ', b'":') + b"\n"
    # A function is twice as fast as a template, which re expands in Python.
    return _KEY.sub(_without_blank, pretty) + b"\n"


def _without_blank(key: re.Match[bytes]) -> bytes:
    return key[0][:-1]


def judge_document(
    format_: Format, document: dict[str, object], options: Options, quota: Quota
) -> list[Finding]:
    """Return the errors in the plain data of a table before it is written."""
    plain = _judged_plain(format_, document, options, quota)
    if plain is not None:
        return plain[1]
    return _judged_closely(format_, document, options, quota)


def _judged_plain(
    format_: Format, document: dict[str, object], options: Options, quota: Quota
) -> tuple[bytes, list[Finding]] | None:
    """Return the bytes and findings of a table of the usual shape, else None."""
    with contextlib.suppress(UnicodeError, OverflowError):  # a file cannot have these
        data = encode(document)
        columns = format_.decode(data)
        if columns is not None:
            columns.quota = quota
            return data, [*columns.found, *columns.judged(options)]
    return None


def _judged_closely(
    format_: Format, document: dict[str, object], options: Options, quota: Quota
) -> list[Finding]:
    columns, found = format_.read(Document(text="", data=document), quota)
    return [*found, *columns.judged(options)]


def refuse_unsound(table: RankTable) -> None:
    """Raise RankTableError if a table has an error; a script may have made it."""
    format_ = by_name(table.format)
    document = Document(text="", data=format_.write(table))
    columns, found = format_.read(document, Quota())
    _refuse_errors([*found, *columns.judged(Options())])


def _refuse_errors(found: Iterable[Finding], but: Collection[str] = ()) -> None:
    """Raise RankTableError if one of the findings is an error.

    Args:
        found: The findings.
        but: Codes of errors that do not matter.
    """
    errors = [
        finding.diagnostic(
            Location(
                file=IN_MEMORY, pointer=finding.span.pointer if finding.span else None
            )
        )
        for finding in found
        if finding.severity is Severity.ERROR and finding.rule.code not in but
    ]
    if errors:
        raise RankTableError(errors)


def dump(
    table: RankTable,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - a fixed name
) -> None:
    """Write a table to a file, which has the old or the new bytes at every moment.

    Args:
        table: The table.
        path: Path of the file; a symbolic link is followed.
        format: Name of the format; by default the one it was read from.

    Raises:
        RankTableError: The table is not sound, or the path is not a regular file.
        OSError: The file cannot be written; no temporary file is left.
    """
    replace_file(path, dumps(table, format=format))


def to_document(table: RankTable, format_: Format) -> dict[str, object]:
    """Return a table as the plain data of a file in a format."""
    is_own = table.format == format_.name
    if not is_own:
        table = _without_own_keys(table, format_)
    nodes = [_node(node, format_, is_own=is_own) for node in table.nodes]
    version = table.version if is_own else format_.versions[0]
    values: dict[str, object] = {"version": version}
    for field in format_.table_fields:
        if field.role is Role.COUNT:
            spell = str if field.kind is Kind.NUMERAL else int
            values[field.key] = spell(len(nodes))
        elif field.is_required and field.examples and field.key not in table.extra:
            values[field.key] = field.examples[0]
    values[format_.nodes_key] = nodes
    extra = {"version": version, **table.extra}
    top = _spelt(values, extra, table.layout if is_own else None)
    # Finding the end of the nodes takes long in a large file.
    known = {key for key, _ in table.layout or ()}
    own = (LAYOUT_KEY, TOPOLOGY_KEY, SPARES_KEY)
    late = [key for key in own if key in top.keys() - known]
    order = [key for key in top if key not in late]
    at = order.index(format_.nodes_key)
    return {key: top[key] for key in (*order[:at], *late, *order[at:])}


def _without_own_keys(table: RankTable, target: Format) -> RankTable:
    """Return a table without the keys that only its own format defines."""
    source = by_name(table.format)

    def kept(
        extra: Mapping[str, object], old: Sequence[Field], new: Sequence[Field]
    ) -> dict[str, object]:
        own = {field.key for field in old} - {field.key for field in new}
        return {key: value for key, value in extra.items() if key not in own}

    def of_device(device: Device) -> Device:
        extra = kept(device.extra, source.device_fields, target.device_fields)
        return structs.replace(device, extra=extra)

    nodes = [
        structs.replace(
            node,
            extra=kept(node.extra, source.node_fields, target.node_fields),
            devices=tuple(
                of_device(device) if device.extra else device for device in node.devices
            ),
        )
        for node in table.nodes
    ]
    extra = kept(table.extra, source.table_fields, target.table_fields)
    return table.with_changes(nodes=nodes, extra=extra)


def _node(node: Node, format_: Format, *, is_own: bool) -> dict[str, object]:
    values: dict[str, object] = {}
    if node.host is not None:
        values[format_.host_key] = node.host
    values[format_.devices_key] = _devices(node, format_, is_own=is_own)
    return _spelt(values, node.extra, node.layout if is_own else None)


def _devices(node: Node, format_: Format, *, is_own: bool) -> list[dict[str, object]]:
    """Return the devices of a node, in the form of their layout or of the format."""
    found = []
    last: object = None
    for local_rank, device in enumerate(node.devices):
        form = (device.layout if is_own else None, device.is_emulated)
        if form != last:  # mostly all have the same form
            last, (keys, has_blank) = form, _spelling(format_, *form)
        numbers = (device.device_id, local_rank, device.rank)
        address, extra = device.address, device.extra
        members: dict[str, object] = {}
        for key, place, is_text in keys:
            if place < _ADDRESS:
                members[key] = str(numbers[place]) if is_text else numbers[place]
            elif place == _OTHER:
                if key in extra:
                    members[key] = extra[key]
            elif address is not None or has_blank:
                members[key] = address or ""
        if extra and not extra.keys() <= members.keys():
            # known keys come first and are not replaced
            members = {**members, **extra, **members}
        found.append(members)
    return found


_NUMBERS = (Role.DEVICE_ID, Role.LOCAL_RANK, Role.RANK)
_ADDRESS = len(_NUMBERS)
_OTHER = _ADDRESS + 1
"""The value of a key: a number by its index in ``_NUMBERS``, or one of these."""


@lru_cache(maxsize=256)
def _spelling(
    format_: Format,
    layout: Layout | None,
    is_emulated: bool,  # noqa: FBT001 - a part of the key
) -> tuple[tuple[tuple[str, int, bool], ...], bool]:
    """Return the form in which devices of this layout are written.

    Returns:
        The known keys in order, each with its kind of value and whether that is quoted;
        and whether a missing address is written as an empty text.
    """
    numbers = {
        field.key: field for field in format_.device_fields if field.role in _NUMBERS
    }
    address_keys = format_.address_keys or ("device_ip",)
    address_key = address_keys[-1] if is_emulated else address_keys[0]
    types = dict(layout or _new_layout(format_, address_key))
    keys = []
    for name, type_ in types.items():
        key = address_key if name == "address" else name  # of a device with either key
        place = _ADDRESS if key == address_key else _OTHER
        if key in numbers:
            place = _NUMBERS.index(numbers[key].role)
        keys.append((key, place, type_ is not int))
    if layout:
        return tuple(keys), format_.has_blank_addresses
    return tuple(keys), format_.writes_blank_addresses


def _new_layout(format_: Format, address_key: str) -> Layout:
    """Return the form of a new device: the address follows the chip."""
    found: list[tuple[str, type]] = []
    for field in format_.device_fields:
        if field.role in _NUMBERS and (field.is_written or field.is_required):
            found.append((field.key, int if field.kind is Kind.INTEGER else str))
        if field.role is Role.DEVICE_ID:
            found.append((address_key, str))
    return tuple(found)


def _spelt(
    values: dict[str, object], extra: Mapping[str, object], layout: Layout | None
) -> dict[str, object]:
    """Return values and unknown keys in the order of a layout, new ones last."""
    everything = {**extra, **values}
    order = [key for key, _ in layout or () if key in everything]
    return {key: everything[key] for key in (*order, *everything)}
