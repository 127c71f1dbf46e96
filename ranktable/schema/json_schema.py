"""The JSON Schema of each format: its shape, for editors and for other programs."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from ranktable.schema.formats.detect import by_name

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator


def schema_text(format_name: str) -> bytes:
    """Return the JSON Schema (draft 2020-12) of a format as UTF-8 text.

    Args:
        format_name: Name of the format, such as ``sccl-1.0``.

    Raises:
        ValueError: There is no such format.
    """
    name = by_name(format_name).schema_file
    return (files("ranktable.schema") / "data" / name).read_bytes()


@cache
def validator(format_name: str) -> Draft202012Validator:
    """Return a validator of the shape of a format.

    It accepts a document exactly when ``check`` finds no defect of its shape and no
    negative number, with one exception that JSON Schema demands: 5.0 is an integer
    there. Formats of addresses are annotations and not judged.

    Args:
        format_name: Name of the format, such as ``sccl-1.0``.

    Raises:
        ValueError: There is no such format.
    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 100 ms, rarely used

    return Draft202012Validator(json.loads(schema_text(format_name)))
