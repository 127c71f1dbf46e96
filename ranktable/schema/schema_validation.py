"""JSON Schemas of small documents, with strict rules about integers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def items(
        validator: Any, item: Schema, value: object, schema: Schema
    ) -> Iterator[ValidationError]:
        if not isinstance(value, list) or len(value) > schema.get("maxItems", 1 << 30):
            return
        for at, each in enumerate(value):
            yield from validator.descend(each, item, path=at)

    strict: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator,
        {"items": items, "uniqueItems": lambda *_: ()},
        type_checker=types,
    )
    made: Validator = strict(json.loads(schema_text(name)))
    return made


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
