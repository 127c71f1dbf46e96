"""The document of a cluster spec: one mapping with the keys that a spec has."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ranktable.cluster.specs import spec_rules as rules
from ranktable.cluster.specs.spec import KEYS, REQUIRED_KEYS
from ranktable.schema.document import Document, SourceSpan
from ranktable.schema.messages import quoted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value of a spec stands, or the key before it."""

    path: tuple[str | int, ...]
    is_key: bool = False

    def __str__(self) -> str:
        """Return the path as people write it: ``racks.r1``."""
        return ".".join(str(step) for step in self.path)

    def item(self, step: str | int) -> Place:
        """Return the place of a member or an item of this value."""
        return Place((*self.path, step))


@dataclass(frozen=True, slots=True)
class Shape:
    """The members of a spec, and where to say what is wrong with them."""

    source: SourceText
    document: Document
    members: dict[str, object]

    def span(self, place: Place) -> tuple[int, int]:
        """Return the offsets of a value or a key in the text."""
        return self.document.span_of(*place.path, of_key=place.is_key).offsets or (0, 0)

    def report(
        self,
        rule: Rule,
        place: Place,
        message: str,
        *,
        hint: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        """Add a finding; the span is a part of the value."""
        spot = SourceSpan(place.path, offsets=span or self.span(place))
        self.source.report(rule, spot, message, hint=hint)

    def wrong_type(
        self, place: Place, value: object, wanted: str, *, hint: str | None = None
    ) -> None:
        """Say that a value is not of the kind that is wanted."""
        message = f"{place} is {quoted(value)}, not {wanted}"
        self.report(rules.WRONG_TYPE, place, message, hint=hint)

    def number(self, place: Place, value: int, least: int, most: int) -> int | None:
        """Return a number, None after saying that it is out of its range."""
        if least <= value <= most:
            return value
        message = f"{place} is {value}; it is from {least} to {most}"
        self.report(rules.BAD_NUMBER, place, message)
        return None

    def text(self, key: str) -> str | None:
        """Return the text of a key, None if it is absent, or after saying otherwise."""
        if key not in self.members:
            return None
        value = self.members[key]
        if isinstance(value, str) and value:
            return value
        self.wrong_type(Place((key,)), value, "a text")
        return None


def read_shape(source: SourceText) -> Shape | None:
    """Return the members of the one document of a text."""
    documents, findings = parse_yaml(source.text, source.quota)
    source.add(findings)
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
    shape = Shape(source, first, first.data)
    _refuse_keys(shape)
    return shape


def _refuse_keys(shape: Shape) -> None:
    """Say which keys are unknown and which are missing."""
    for key in shape.members:
        if key not in KEYS:
            close = get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(KEYS)}"
            message = f"a cluster spec has no key {quoted(key)}"
            place = Place((key,), is_key=True)
            shape.report(rules.UNKNOWN_KEY, place, message, hint=hint)
    for key in REQUIRED_KEYS:
        if key not in shape.members:
            start, end = shape.span(Place(()))
            line = shape.source.text.find("\n", start, end)
            span = (start, end if line < 0 else line)
            message = f"the key {key} is missing"
            shape.report(rules.MISSING_KEY, Place(()), message, span=span)
