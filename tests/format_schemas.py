"""The JSON Schema of each format as a validator."""

from __future__ import annotations

from functools import cache

from jsonschema import Draft202012Validator

from ranktable.schema.formats import by_name
from ranktable.schema.json_schema import schema_of


@cache
def validator(format_name: str) -> Draft202012Validator:
    """Return a validator of the shape of a format."""
    return Draft202012Validator(schema_of(by_name(format_name)))
