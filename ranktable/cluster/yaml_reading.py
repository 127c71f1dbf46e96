"""YAML to plain data, strict and bounded, with the place of every value and key.

Plain data is what JSON has: dictionaries with text as keys, lists, text, integers,
floats, booleans and None. YAML 1.1 and 1.2 read some plain words differently (``no``,
``0644``, ``1:30``, ``1_000``); these stay text, so that whoever needs a number or a
boolean there can say so. Aliases, merge keys and tags are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.yaml_events import Event, NotYamlError, Span, yaml_events
from ranktable.schema.finding import Finding, Path, SourceSpan
from ranktable.schema.messages import quoted
from ranktable.schema.quota import Quota
from ranktable.schema.reading import decode
from ranktable.schema.rules import descriptions as rules
from ranktable.schema.rules.reading import TOO_LARGE
from ranktable.schema.rules.syntax import DUPLICATE_KEY, NESTED_TOO_DEEPLY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.rules.rule import Rule

MAX_YAML_BYTES = 8 * 1024 * 1024
"""A manifest of a few pages is 10 kB; libyaml reads this in seconds."""

MAX_DEPTH = 64
MAX_DOCUMENTS = 1000

# What YAML does not allow; libyaml gives no place for it.
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,17}(?:[eE][-+]?[0-9]{1,2})?")
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MERGE = "<<"


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a YAML text.

    Attributes:
        data: Plain data.
        values: Offsets of every value in the text, by its JSON Pointer.
        keys: Offsets of every key, by the JSON Pointer of its value.
    """

    data: object
    values: dict[str, Span] = field(default_factory=dict, repr=False)
    keys: dict[str, Span] = field(default_factory=dict, repr=False)

    def spot(self, *path: str | int, of_key: bool = False) -> SourceSpan:
        """Return the place of a value or its key, or of what is around it."""
        while True:
            pointer = SourceSpan(path).pointer or ""
            spans = self.keys if of_key and pointer in self.keys else self.values
            if pointer in spans or not path:
                return SourceSpan(path, span=spans.get(pointer, (0, 0)))
            path = path[:-1]


def read_yaml(
    data: bytes, *, quota: Quota | None = None, max_size_bytes: int = MAX_YAML_BYTES
) -> tuple[str, list[YamlDocument], list[Finding]]:
    """Return the text of a file, its documents and what is wrong with it."""
    if len(data) > max_size_bytes:
        message = f"the file is larger than {max_size_bytes} bytes"
        return "", [], [TOO_LARGE.finding(None, message)]
    decoded = decode(data)
    if isinstance(decoded, Finding):
        return data.decode("utf-8", "replace"), [], [decoded]
    text, found = decoded
    documents, more = parse_yaml(text, quota)
    return text, documents, [*found, *more]


def parse_yaml(
    text: str, quota: Quota | None = None
) -> tuple[list[YamlDocument], list[Finding]]:
    """Return the documents of a text and what is wrong with it.

    What is repeated or refused is left out of the data; where the text is not YAML,
    the documents before that place are returned.
    """
    odd = _UNPRINTABLE.search(text)
    if odd is not None:
        spot = SourceSpan(span=(odd.start(), odd.end()))
        message = f"the character {quoted(odd[0])} is not allowed in YAML"
        return [], [rules.NOT_YAML.finding(spot, message)]
    composer = _Composer(text, quota or Quota())
    try:
        documents = list(composer.documents())
    except NotYamlError as error:
        documents = composer.done
        composer.say(
            rules.NOT_YAML, error.span, f"the text is not YAML: {error.reason}"
        )
    except _StopError:
        documents = composer.done
    return documents, composer.found


class _StopError(Exception):
    """What follows is not read; the reason has been said."""


class _Composer:
    """Builds plain data from events, so that nothing is ever expanded."""

    def __init__(self, text: str, quota: Quota) -> None:
        self.text = text
        self.quota = quota
        self.found: list[Finding] = []
        self.done: list[YamlDocument] = []
        self.events = yaml_events(text)
        self.depth = 0  # a key may be a mapping too, so a path does not tell

    def say(
        self, rule: Rule, span: Span | None, message: str, hint: str | None = None
    ) -> None:
        if not self.quota.is_spent(rule):
            spot = None if span is None else SourceSpan(span=span)
            self.found.append(rule.finding(spot, message, hint=hint))

    def documents(self) -> Iterator[YamlDocument]:
        """Yield the documents of the text."""
        for event in self.events:
            if event.kind != "DocumentStart":
                continue
            if len(self.done) == MAX_DOCUMENTS:
                message = f"the file has more than {MAX_DOCUMENTS} documents"
                self.say(rules.TOO_MANY, event.span, message)
                raise _StopError
            document = YamlDocument(None)
            data = self.value(next(self.events), document, ())
            document = YamlDocument(data, document.values, document.keys)
            self.done.append(document)
            yield document

    def value(self, event: Event, document: YamlDocument, path: Path) -> object:
        """Return the value that begins with an event, and note its place."""
        start, end = event.span
        data: object = None
        self.refuse_tag(event)
        if event.kind == "Alias":
            hint = "write the value out"
            self.say(rules.REFUSED_YAML, event.span, "aliases are not read", hint)
        elif event.kind == "Scalar":
            data = plain_value(event.text) if event.is_plain else event.text
        else:
            data, end = self.collection(event, document, path)
            end = start + len(self.text[start:end].rstrip())
        document.values[SourceSpan(path).pointer or ""] = (start, end)
        return data

    def collection(
        self, event: Event, document: YamlDocument, path: Path
    ) -> tuple[object, int]:
        if self.depth >= MAX_DEPTH:
            message = f"this is nested more than {MAX_DEPTH} levels deep"
            self.say(NESTED_TOO_DEEPLY, (event.span[0], event.span[0] + 1), message)
            raise _StopError
        self.depth += 1
        read = self.items if event.kind == "SequenceStart" else self.members
        found, end = read(document, path)
        self.depth -= 1
        return found, end

    def items(self, document: YamlDocument, path: Path) -> tuple[list[object], int]:
        found: list[object] = []
        while (event := next(self.events)).kind != "SequenceEnd":
            found.append(self.value(event, document, (*path, len(found))))
        return found, event.span[1]

    def members(
        self, document: YamlDocument, path: Path
    ) -> tuple[dict[str, object], int]:
        found: dict[str, object] = {}
        while (event := next(self.events)).kind != "MappingEnd":
            key = self.key(event, document, path, found)
            if key is None:  # read over its value
                self.value(next(self.events), YamlDocument(None), path)
            else:
                found[key] = self.value(next(self.events), document, (*path, key))
        return found, event.span[1]

    def key(
        self, event: Event, document: YamlDocument, path: Path, found: dict[str, object]
    ) -> str | None:
        """Return a key, None after saying why it is left out."""
        key = event.text
        if event.kind != "Scalar":
            self.say(rules.REFUSED_YAML, event.span, "a key has to be text")
            self.value(event, YamlDocument(None), path)
            return None
        self.refuse_tag(event)
        if key == _MERGE and event.is_plain:
            hint = "write the members out"
            self.say(rules.REFUSED_YAML, event.span, "merge keys are not read", hint)
            return None
        if key in found:
            self.say_twice(event, document.spot(*path, key, of_key=True))
            return None
        document.keys[SourceSpan((*path, key)).pointer or ""] = event.span
        return key

    def say_twice(self, event: Event, first: SourceSpan) -> None:
        if not self.quota.is_spent(DUPLICATE_KEY):
            related = (SourceSpan(first.path, span=first.span, label="first use"),)
            spot = SourceSpan(first.path, span=event.span)
            message = f"the key {quoted(event.text)} stands twice here"
            self.found.append(DUPLICATE_KEY.finding(spot, message, related=related))

    def refuse_tag(self, event: Event) -> None:
        if event.tag is not None and event.tag != "!":
            span = (event.span[0], event.span[0] + 1)
            message = f"tags are not read, and here is {quoted(event.tag)}"
            self.say(rules.REFUSED_YAML, span, message)


def plain_value(text: str) -> object:
    """Return what a plain word means where YAML 1.1 and 1.2 agree, else the text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
