"""JSON Schemas of small documents, with strict rules about integers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

    Schema = dict[str, Any]


def schema_text(name: str) -> bytes:
    """Return a JSON Schema (draft 2020-12) of this package as UTF-8 text."""
    return (files("ranktable.schema") / "data" / name).read_bytes()


@cache
def validator_of(name: str) -> Validator:
    """Return a validator for a JSON Schema of this package.

    A number such as 1.0 is not an integer here, and neither is true. The items of a
    list that is too long are not judged. Whether items are unique is checked by the
    reader, because it knows their places.

    Args:
        name: Name of the file.
    """
    # Imported only if a spec or a wrong probe line is read.
    from jsonschema import Draft202012Validator, validators

    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    )
    of_members = Draft202012Validator.VALIDATORS["additionalProperties"]

    def items(
        validator: Validator, item: Schema, value: object, schema: Schema
    ) -> Iterator[ValidationError]:
        if not isinstance(value, list) or len(value) > schema.get("maxItems", 1 << 30):
            return
        yield from _each(validator, item, enumerate(value))

    def members(
        validator: Validator, member: object, value: object, schema: Schema
    ) -> Iterator[ValidationError]:
        if isinstance(value, dict) and isinstance(member, dict):
            known = schema.get("properties", {})
            others = [pair for pair in value.items() if pair[0] not in known]
            yield from _each(validator, member, others)
        else:
            yield from of_members(validator, member, value, schema)

    strict: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator,
        {
            "items": items,
            "additionalProperties": members,
            "uniqueItems": lambda *_: (),
        },
        type_checker=types,
    )
    schema = json.loads(schema_text(name))
    made: Validator = strict(_with_definitions(schema, schema.get("$defs", {})))
    return made


def _each(
    validator: Any,
    schema: Schema,
    pairs: Iterable[tuple[str | int, object]],
) -> Iterator[ValidationError]:
    """Yield the errors of values by their keys; equal texts and numbers count once."""
    sound: set[tuple[type, object]] = set()
    for key, value in pairs:
        is_plain = isinstance(value, (int, str))
        if is_plain and (type(value), value) in sound:
            continue
        errors = list(validator.descend(value, schema, path=key))
        if is_plain and not errors:
            sound.add((type(value), value))
        yield from errors


def _with_definitions(part: Any, definitions: Schema) -> Any:
    """Return a part of a schema with definitions in place of references to them.

    Looking up a definition takes as long as judging a value by it.
    """
    if isinstance(part, list):
        return [_with_definitions(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    name = part.get("$ref", "").removeprefix("#/$defs/")
    if name in definitions:
        return _with_definitions(definitions[name], definitions)
    return {key: _with_definitions(value, definitions) for key, value in part.items()}


def errors_of(name: str, document: Any) -> Iterator[ValidationError]:
    """Yield the errors of a document by a JSON Schema, each at the narrowest place.

    Of several alternatives the one with the type of the value is used; if none has this
    type, the error is about all alternatives.

    Args:
        name: Name of the schema.
        document: The plain data.
    """
    for error in validator_of(name).iter_errors(document):
        yield from _narrowed(error)


def _narrowed(error: ValidationError) -> Iterator[ValidationError]:
    if error.validator != "anyOf":
        yield error
        return
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    for branch in branches.values():
        narrowed = [one for inner in branch for one in _narrowed(inner)]
        if not any(_is_of_type(one, error) for one in narrowed):
            yield from narrowed
            return
    yield error


def _is_of_type(error: ValidationError, whole: ValidationError) -> bool:
    """Whether an error says that the whole value has the wrong type."""
    is_whole = error.absolute_path == whole.absolute_path
    return is_whole and error.validator in ("type", "anyOf")
