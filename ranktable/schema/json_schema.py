"""The JSON Schema of each format: its shape, for editors and other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ranktable.schema.format import MAX_NUMBER, Field, Format, Kind, Role
from ranktable.schema.formats import by_name
from ranktable.schema.record import Member, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.record import RecordFormat

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_DIGITS: Schema = {
    "title": "Decimal string",
    "description": "Digits without sign, blanks or leading zeros.",
    "type": "string",
    "pattern": "^(0|[1-9][0-9]{0,8})$",
    "$comment": "In some dialects of regular expressions $ also matches before a final "
    "line break; the second pattern closes that gap.",
    "not": {"pattern": "[^0-9]"},
}
_INTEGER: Schema = {
    "title": "Integer",
    "description": "A JSON integer.",
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_NUMBER,
}
_NUMBERS: dict[Kind, Schema] = {
    Kind.NUMBER: {
        "title": "Number",
        "description": f"A number from 0 to {MAX_NUMBER}, as a string of plain decimal "
        "digits or as an integer. Signs, blanks, leading zeros and fractions are read "
        "differently by different libraries.",
        "examples": ["0", "7", 0, 7],
        "anyOf": [_DIGITS, _INTEGER],
    },
    Kind.NUMERAL: {
        **_DIGITS,
        "title": "Number",
        "description": f"A number from 0 to {MAX_NUMBER}, as a string of plain decimal "
        "digits.",
        "examples": ["0", "7"],
    },
}


def schema_text(format_name: str) -> bytes:
    """Return the JSON Schema (draft 2020-12) of a format as UTF-8 text.

    It accepts a document exactly if ``check`` finds no defect of its shape and no
    negative number. One exception is required by JSON Schema: 5.0 is an integer. The
    formats of addresses are annotations and are not judged.

    Args:
        format_name: Name of the format, such as ``sccl-1.0``.

    Raises:
        ValueError: There is no such format.
    """
    schema = by_name(format_name).json_schema()
    return (json.dumps(schema, indent=2, ensure_ascii=False) + "\n").encode()


def node_list_schema(format_: Format) -> Schema:
    """Return the JSON Schema of a format of nodes that list devices."""
    nodes = format_.example[format_.nodes_key]
    devices = nodes[0][format_.devices_key]
    node_name = format_.node_title.lower()
    ranks = [field for field in format_.device_fields if field.role is Role.RANK]
    one_of_ranks: Schema = {}
    if not any(field.is_required for field in ranks):
        one_of_ranks["anyOf"] = [
            {"title": f"With {field.key}", "required": [field.key]} for field in ranks
        ]
    return {
        **_head(format_),
        **_object(
            format_.table_fields,
            _list(format_.nodes, nodes, node_name),
        ),
        "$defs": {
            node_name: {
                "title": format_.node_title,
                "description": format_.node_description,
                "examples": nodes[:1],
                **_object(
                    format_.node_fields,
                    _list(format_.devices, devices, "device"),
                ),
            },
            "device": {
                "title": "Device",
                "description": format_.device_description,
                "examples": devices[:1],
                **_object(format_.device_fields),
                **one_of_ranks,
            },
            **_definitions(format_),
        },
    }


def record_schema(format_: RecordFormat) -> Schema:
    """Return the JSON Schema of a format of records."""
    definitions: Schema = {}
    root = _root(format_.record, definitions)
    return {**_head(format_), **root, "$defs": definitions}


def record_schema_of(format_: Format, records: Sequence[Record]) -> Schema:
    """Return the JSON Schema of a format with several kinds of files."""
    definitions: Schema = {}
    references = [_reference(record, definitions) for record in records]
    return {**_head(format_), "anyOf": references, "$defs": definitions}


def _head(format_: Format) -> Schema:
    return {
        "$schema": DRAFT,
        "$id": f"urn:ranktable:schema:{format_.name}",
        "title": format_.title.partition(" (")[0],
        "description": f"{format_.description} This schema judges the shape; "
        "ranktable validate judges the meaning too.",
        "examples": [format_.example],
    }


def _root(record: Record | Member, definitions: Schema) -> Schema:
    if isinstance(record, Record):
        return _record(record, definitions)
    kept = ("type", "items")
    return {key: _member(record, definitions)[key] for key in kept}


def _record(record: Record, definitions: Schema) -> Schema:
    schema: Schema = {
        "type": "object",
        "required": [member.key for member in record.members if member.is_required],
        "properties": {
            member.key: _member(member, definitions) for member in record.members
        },
    }
    if record.one_of:
        schema["anyOf"] = [{"required": [key]} for key in record.one_of]
    return schema


def _reference(record: Record, definitions: Schema) -> Schema:
    if record.name not in definitions:
        definitions[record.name] = {}  # comes before the records that it refers to
        definitions[record.name] = {
            "title": record.title,
            "description": record.description,
            "examples": [record.example],
            **_record(record, definitions),
        }
    return {"$ref": f"#/$defs/{record.name}"}


def _member(member: Member, definitions: Schema) -> Schema:
    """Return the schema of a key of a record."""
    schema = _value(member)
    kind = member.kind
    if kind in _NUMBERS:
        definitions[kind.name.lower()] = _NUMBERS[kind]
        if member.minimum is not None and member.minimum < 0:
            schema["anyOf"] = [
                {"const": str(member.minimum)},
                {"$ref": schema.pop("$ref")},
            ]
    elif kind is Kind.INTEGER:
        schema |= _limits(member, ("minimum", -MAX_NUMBER), ("maximum", MAX_NUMBER))
    elif kind is Kind.ADDRESS:
        del schema["$ref"]
        schema["type"] = "string"
    elif kind is Kind.LIST:
        schema |= _limits(member, ("minItems", None), ("maxItems", None))
        schema |= _entries(member.each, definitions)
    elif isinstance(member.each, Record):
        schema |= _reference(member.each, definitions)
    else:
        schema |= _OTHERS.get(kind, {})
        schema |= _limits(member, ("minLength", None), ("maxLength", None))
    return schema


_OTHERS: dict[Kind, Schema] = {
    Kind.OBJECT: {"type": "object"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.ANY: {"type": ["string", "number", "boolean", "null"]},
}


def _entries(each: Record | Member | None, definitions: Schema) -> Schema:
    if each is None:
        return {}
    if isinstance(each, Record):
        return {"items": _reference(each, definitions)}
    return {"items": _member(each, definitions)}


def _limits(
    member: Member, low: tuple[str, int | None], high: tuple[str, int | None]
) -> Schema:
    given = (member.minimum, member.maximum)
    found = {}
    for value, (key, default) in zip(given, (low, high), strict=True):
        limit = default if value is None else value
        if limit is not None:
            found[key] = limit
    return found


def _object(
    fields: Sequence[Field], list_: tuple[Field, Schema] | None = None
) -> Schema:
    required = [field.key for field in fields if field.is_required]
    properties = {field.key: _value(field) for field in fields}
    if list_ is not None:
        properties[list_[0].key] = list_[1]
        required.append(list_[0].key)
    return {"type": "object", "required": required, "properties": properties}


def _list(field: Field, example: Sequence[Any], item: str) -> tuple[Field, Schema]:
    return field, {
        "title": field.title,
        "description": field.description,
        "examples": [list(example)],
        "type": "array",
        "minItems": 1,
        "items": {"$ref": f"#/$defs/{item}"},
    }


def _value(field: Field) -> Schema:
    schema: Schema = {
        "title": field.title,
        "description": field.description,
        "examples": list(field.examples or field.values),
    }
    if field.values:
        one = len(field.values) == 1
        schema |= {"const": field.values[0]} if one else {"enum": list(field.values)}
    elif field.kind in _NUMBERS:
        schema["$ref"] = f"#/$defs/{field.kind.name.lower()}"
    elif field.kind is Kind.ADDRESS:
        schema["$ref"] = "#/$defs/address"
    elif field.kind is Kind.INTEGER:
        schema["type"] = "integer"
    elif field.kind is Kind.LIST:
        schema["type"] = "array"
        if field.items:
            schema["items"] = {"title": field.title, **_object(field.items)}
    elif field.kind not in (Kind.ANY, Kind.OBJECT, Kind.BOOLEAN):
        schema["type"] = "string"
    if field.kind is Kind.HOST:
        schema["pattern"] = "\\S"
    return schema


def _definitions(format_: Format) -> Schema:
    """Return the definitions that are used by fields of the format."""
    kinds = {field.kind for field in format_.all_fields}
    found = {
        kind.name.lower(): schema for kind, schema in _NUMBERS.items() if kind in kinds
    }
    if Kind.ADDRESS in kinds:
        # HCCL's tables may join addresses, so these are not judged; host_ip is not
        # empty.
        has_blank = format_.has_blank_addresses and not format_.joins_addresses
        found["address"] = _address(has_blank=has_blank)
    return found


def _address(*, has_blank: bool) -> Schema:
    schema: Schema = {
        "title": "IP address",
        "description": "A numeric IPv4 or IPv6 address.",
        "examples": ["10.20.0.5", "2001:db8::5"],
        "type": "string",
        "anyOf": [
            {"title": "IPv4 address", "format": "ipv4"},
            {"title": "IPv6 address", "format": "ipv6"},
        ],
    }
    if has_blank:
        schema["description"] = (
            "A numeric IPv4 or IPv6 address, or an empty string for none."
        )
        schema["examples"].append("")
        schema["anyOf"].append({"title": "No address", "const": ""})
    return schema
