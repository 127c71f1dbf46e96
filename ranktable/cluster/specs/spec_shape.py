"""Judge the shape of a cluster spec by its JSON Schema, with our own messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ranktable.cluster.schema_errors import called, told
from ranktable.cluster.specs import spec_rules as rules
from ranktable.cluster.specs.spec import ORDERS, SCHEMA_FILE
from ranktable.schema.document import Document, Path, SourceSpan
from ranktable.schema.schema_validation import errors_of, validator_of
from ranktable.schema.text import quoted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from jsonschema import ValidationError

    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Offsets
    from ranktable.schema.finding import Rule

_KINDS = {
    "Nodes": "a host list or a count",
    "Host list": "a host list",
    "Chips": "a number of chips or a list of them, for all nodes or by hosts",
    "Chips of a node": "a number of chips or a list of them",
    "Chip": "a chip",
    "Racks": "a number of hosts or a mapping of racks to their hosts",
}
"""Expected value, by the title of its part of the schema; other values are text."""

_LEFT_TO_THE_READER = ("pattern", "required", "additionalProperties")


@dataclass(frozen=True, slots=True)
class SpecDocument:
    """A spec that is a mapping, with a method to report wrong values.

    Attributes:
        source: The text.
        document: The document.
        values: Values of the keys; some items of a list or a mapping may be wrong.
        wrong: Paths of the values and keys whose shape is wrong.
    """

    source: SourceText
    document: Document
    values: dict[str, Any] = field(default_factory=dict)
    wrong: set[tuple[Path, bool]] = field(default_factory=set)

    def report(
        self,
        rule: Rule,
        path: Path,
        message: str,
        *,
        hint: str | None = None,
        of_key: bool = False,
        offsets: Offsets | None = None,
    ) -> None:
        """Report a finding; the offsets are those of a part of the value."""
        span = self.document.span_of(*path, of_key=of_key)
        if offsets is not None:
            span = SourceSpan(span.path, offsets=offsets)
        self.source.report(rule, span, message, hint=hint)


def read_shape(source: SourceText) -> SpecDocument | None:
    """Return the only document of a text, None if it is not a mapping."""
    documents, findings = parse_yaml(source.text, source.found.limit)
    source.found.extend(findings)
    if not source.is_sound:
        return None
    documents = [document for document in documents if document.data is not None]
    if not documents:
        message = "the spec is empty; it needs nodes and chips"
        source.report(rules.MISSING_KEY, None, message)
        return None
    first, *others = documents
    for document in others:
        message = "there is a second document; a spec is one"
        source.report(rules.WRONG_TYPE, document.span_of(), message)
    if not isinstance(first.data, dict):
        message = f"the spec is {quoted(first.data)}, not a mapping of names to values"
        source.report(rules.WRONG_TYPE, first.span_of(), message)
        return None
    spec = SpecDocument(source, first)
    _check_keys(spec, first.data)
    _check_values(spec)
    for key, value in first.data.items():
        if ((key,), False) not in spec.wrong:
            spec.values[key] = value
    return spec


def _check_keys(spec: SpecDocument, data: dict[str, object]) -> None:
    """Report unknown keys and missing keys."""
    schema: Any = validator_of(SCHEMA_FILE).schema
    keys = [key for key in schema["properties"] if not key.startswith("$")]
    for key in data:
        if key not in schema["properties"]:
            close = get_close_matches(key, keys, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(keys)}"
            message = f"a cluster spec has no key {quoted(key)}"
            spec.report(rules.UNKNOWN_KEY, (key,), message, hint=hint, of_key=True)
    for key in schema["required"]:
        if key not in data:
            start, end = spec.document.span_of().offsets or (0, 0)
            line = spec.source.text.find("\n", start, end)
            offsets = (start, end if line < 0 else line)
            message = f"the key {key} is missing"
            spec.report(rules.MISSING_KEY, (), message, offsets=offsets)


def _check_values(spec: SpecDocument) -> None:
    """Report values and keys with a wrong shape."""
    for error in errors_of(SCHEMA_FILE, spec.document.data):
        of_key = "propertyNames" in error.absolute_schema_path
        path = (*error.absolute_path, *((error.instance,) if of_key else ()))
        left_out = error.validator in _LEFT_TO_THE_READER
        if not left_out and (path, of_key) not in spec.wrong:
            spec.wrong.add((path, of_key))
            _report(spec, error, path, of_key=of_key)


def _report(
    spec: SpecDocument, error: ValidationError, path: Path, *, of_key: bool
) -> None:
    """Report one error of the schema."""
    value: Any = error.instance
    schema: Any = error.schema
    kind = _KINDS.get(str(schema.get("title")), "a text")
    rule, hint = rules.WRONG_TYPE, None
    message = told(error, called(path), kind)
    if error.validator in ("minimum", "maximum", "minItems", "maxItems"):
        rule = rules.BAD_NUMBER
    elif error.validator == "enum" and isinstance(value, str) and value:
        rule, message = rules.UNKNOWN_ORDER, f"there is no order {quoted(value)}"
        hint = f"write {', '.join(ORDERS[:-1])} or {ORDERS[-1]}"
    elif (
        kind == "a chip" and isinstance(value, str) and (".." in value or "-" in value)
    ):
        hint = "for the chips 0 to 7 write 8, or every number"
    spec.report(rule, path, message, hint=hint, of_key=of_key)
