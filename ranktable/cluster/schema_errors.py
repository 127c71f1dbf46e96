"""Say in one way what the JSON Schema of a small document finds wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from jsonschema import ValidationError

    from ranktable.schema.document import Path

_KINDS = {
    "integer": "a number",
    "string": "a string",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def called(path: Path, whole: str = "the file") -> str:
    """Return the name of a value for messages: ``racks.r1``, ``chips[0]``."""
    name = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in path)
    return name.lstrip(".") or whole


def told(error: ValidationError, name: str, kind: str | None = None) -> str:
    """Return what is wrong, as a sentence.

    Args:
        error: An error of a JSON Schema.
        name: The name of the value.
        kind: What the value should be; by default the type in the schema.
    """
    value: Any = error.instance
    limit: Any = error.validator_value
    schema: Any = error.schema
    if error.validator == "required":
        # There is one error for each of them, and only its text has the name.
        missing = next(key for key in limit if error.message.startswith(repr(key)))
        return f"{name} has no {missing}"
    if error.validator in ("minimum", "maximum", "minItems", "maxItems"):
        is_list = isinstance(value, list)
        ends = ("minItems", "maxItems") if is_list else ("minimum", "maximum")
        least, most = map(schema.get, ends)
        number = f"has {len(value)} items" if is_list else f"is {value}"
        return f"{name} {number}, not {least} to {most}"
    if error.validator in ("minLength", "minProperties"):
        return f"{name} is empty"
    if error.validator == "maxLength":
        return f"{name} is longer than {limit} characters"
    types = schema.get("type", "string")
    kinds = [_KINDS[each] for each in ([types] if isinstance(types, str) else types)]
    return f"{name} is {quoted(value)}, not {kind or ' or '.join(kinds)}"
