"""JSON Schemas of small documents, judged by jsonschema as strictly as we read."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator


def schema_text(name: str) -> bytes:
    """Return a JSON Schema (draft 2020-12) of this package as UTF-8 text."""
    return (files("ranktable.cluster") / "data" / name).read_bytes()


@cache
def validator_of(name: str) -> Validator:
    """Return what judges documents by a JSON Schema of this package.

    An integer is written as one: 1.0 is none, and neither is true. Of a list that is
    too long the items are not looked at. That items are unique is left to the reader,
    which says where they are not.
    """
    # Imported only where a spec or a bad probe line is read.
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415

    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    )
    judge_items = Draft202012Validator.VALIDATORS["items"]

    def bounded_items(
        validator: Validator, items: object, value: object, schema: dict[str, Any]
    ) -> Iterator[ValidationError]:
        if isinstance(value, list) and len(value) <= schema.get("maxItems", len(value)):
            yield from judge_items(validator, items, value, schema)

    strict: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator,
        {"items": bounded_items, "uniqueItems": lambda *_: ()},
        type_checker=types,
    )
    made: Validator = strict(json.loads(schema_text(name)))
    return made


def errors_of(
    name: str,
    document: Any,  # noqa: ANN401 - plain data
) -> Iterator[ValidationError]:
    """Yield what a JSON Schema refuses, as narrowly as one alternative tells.

    Of several alternatives the one counts whose type the value has; where it has none
    of them, the error is that of all alternatives.
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
    """Whether an error is that the whole value has another type."""
    is_whole = error.absolute_path == whole.absolute_path
    return is_whole and error.validator in ("type", "anyOf")
