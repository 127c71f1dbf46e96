"""The JSON Schema of each format: its shape, for editors and other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ranktable.schema.declare import Format, Key, Kind, Record
from ranktable.schema.values import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

Schema = dict[str, Any]

ANY = "rank-table"
"""The name of the schema of a table of any format."""

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
_SHARED: dict[Kind, Schema] = {
    Kind.NUMBER: {
        "title": "Number",
        "description": f"A number from 0 to {MAX_NUMBER}, as a string of plain decimal "
        "digits or as an integer. Signs, blanks, leading zeros and fractions are read "
        "differently by different libraries.",
        "examples": ["0", "7", 0, 7],
        "anyOf": [
            _DIGITS,
            {
                "title": "Integer",
                "description": "A JSON integer.",
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_NUMBER,
            },
        ],
    },
    Kind.NUMERAL: {
        **_DIGITS,
        "title": "Number",
        "description": f"A number from 0 to {MAX_NUMBER}, as a string of plain decimal "
        "digits.",
        "examples": ["0", "7"],
    },
    Kind.ADDRESS: {
        "title": "IP address",
        "description": "A numeric IPv4 or IPv6 address.",
        "examples": ["10.20.0.5", "2001:db8::5"],
        "type": "string",
        "anyOf": [
            {"title": "IPv4 address", "format": "ipv4"},
            {"title": "IPv6 address", "format": "ipv6"},
        ],
    },
}
"""Definitions of values that occur under several keys."""

_TYPES: dict[Kind, Schema] = {
    Kind.TEXT: {"type": "string"},
    Kind.HOST: {"type": "string", "pattern": "\\S"},
    Kind.ADDRESSES: {"type": "string"},
    Kind.INTEGER: {"type": "integer"},
    Kind.LIST: {"type": "array"},
    Kind.OBJECT: {"type": "object"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.ANY: {},
}
_LIMITS = {
    Kind.INTEGER: ("minimum", "maximum"),
    Kind.LIST: ("minItems", "maxItems"),
    Kind.TEXT: ("minLength", "maxLength"),
    Kind.HOST: ("minLength", "maxLength"),
}


def schema_of(format_: Format) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a format.

    It accepts a document exactly if ``check`` finds no defect of its shape and no
    negative number. JSON Schema requires two exceptions: 5.0 is an integer, and the
    limits of a string of digits, such as a port, are not expressed. The formats of
    addresses are annotations and are not judged.
    """
    definitions: Schema = {}
    return {
        **_head(
            format_.name, format_.title.partition(" (")[0], format_.description + " "
        ),
        "examples": [format_.example],
        **_object(format_.record, definitions),
        "$defs": dict(sorted(definitions.items(), key=_is_shared)),
    }


def schema_of_any(formats: Sequence[Format]) -> Schema:
    """Return the JSON Schema of a table of any of these formats.

    An editor shows the defects of one format: of the one whose list the document has,
    and, if several have that list, whose version.
    """
    definitions: Schema = {}
    of_list: dict[str, Schema] = {}
    for format_ in reversed(formats):
        branch = _object(format_.record, definitions, format_.name)
        branch = {"title": format_.title.partition(" (")[0], **branch}
        if format_.nodes_key in of_list:
            version = {"version": {"enum": list(format_.versions)}}
            other = of_list[format_.nodes_key]
            branch = {"if": {"properties": version}, "then": branch, "else": other}
        of_list[format_.nodes_key] = branch
    return {
        **_head(ANY, "Rank table", "A rank table of any format. "),
        "examples": [format_.example for format_ in formats],
        "type": "object",
        "anyOf": [{"required": [key]} for key in of_list],
        "allOf": [
            {"if": {"required": [key]}, "then": branch}
            for key, branch in of_list.items()
        ],
        "$defs": definitions,
    }


def encode_schema(schema: Schema) -> bytes:
    """Return a JSON Schema as UTF-8 text."""
    return (json.dumps(schema, indent=2, ensure_ascii=False) + "\n").encode()


def _head(name: str, title: str, description: str) -> Schema:
    return {
        "$schema": DRAFT,
        "$id": f"urn:ranktable:schema:{name}",
        "title": title,
        "description": f"{description}This schema judges the shape; ranktable validate "
        "judges the meaning too.",
    }


def _is_shared(definition: tuple[str, Schema]) -> bool:
    return definition[1] in _SHARED.values()


def _object(record: Record, definitions: Schema, prefix: str = "") -> Schema:
    schema: Schema = {
        "type": "object",
        "required": [key.key for key in record.keys if key.is_required],
        "properties": {
            key.key: _value(key, definitions, prefix) for key in record.keys
        },
    }
    if record.one_of:
        schema["anyOf"] = [
            {"title": f"With {key}", "required": [key]} for key in record.one_of
        ]
    return schema


def _value(key: Key, definitions: Schema, prefix: str) -> Schema:
    schema: Schema = {
        "description": key.description,
        "examples": list(key.examples or key.values),
    }
    if key.values:
        one = len(key.values) == 1
        schema |= {"const": key.values[0]} if one else {"enum": list(key.values)}
    elif key.kind in _SHARED:
        name = key.kind.name.lower()
        definitions[name] = _SHARED[key.kind]
        schema["$ref"] = f"#/$defs/{name}"
    elif isinstance(key.each, Record) and key.kind is Kind.OBJECT:
        schema |= _reference(key.each, definitions, prefix)
    else:
        schema |= {**_TYPES[key.kind], **_limits(key)}
        if isinstance(key.each, Record):
            schema["items"] = _reference(key.each, definitions, prefix)
        elif key.each is not None:
            schema["items"] = _value(key.each, definitions, prefix)
    return schema


def _limits(key: Key) -> Schema:
    limits = zip(_LIMITS.get(key.kind, ()), (key.minimum, key.maximum), strict=False)
    found = {word: limit for word, limit in limits if limit is not None}
    if key.kind is Kind.INTEGER:
        return {"minimum": -MAX_NUMBER, "maximum": MAX_NUMBER, **found}
    return found


def _reference(record: Record, definitions: Schema, prefix: str) -> Schema:
    name = f"{prefix} {record.name}".strip()
    if name not in definitions:
        definitions[name] = {}  # comes before the records that it refers to
        definitions[name] = {
            "description": record.description,
            "examples": [record.example],
            **_object(record, definitions, prefix),
        }
    return {"$ref": f"#/$defs/{name}".replace(" ", "%20")}
