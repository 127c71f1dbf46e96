"""Parse YAML into plain data, strictly and with limits, with the place of every value.

Plain data is what JSON has: dictionaries with text as keys, lists, text, integers,
floats, booleans and None. YAML 1.1 and 1.2 read some words differently (``no``,
``0644``, ``1:30``, ``1_000``); these stay text, so that a reader that needs a number or
a boolean there can report them. Aliases, merge keys and tags are refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.document import Document, SourceSpan
from ranktable.schema.finding import Findings
from ranktable.schema.rules import syntax as rules
from ranktable.schema.text import quoted
from ranktable.schema.values import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import Offsets, Path
    from ranktable.schema.finding import Rule

MAX_YAML_BYTES = 8 * 1024 * 1024
"""Usual manifests have 10 kB; libyaml reads this size in seconds."""

MAX_DOCUMENTS = 1000

# Characters that YAML does not allow; libyaml gives no place for them.
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


def parse_yaml(text: str, limit: int | None = None) -> tuple[list[Document], Findings]:
    """Return the documents of a text, and the findings.

    Repeated and refused values are left out of the data. If the text is not YAML, the
    documents before that place are returned.
    """
    odd = _UNPRINTABLE.search(text)
    if odd is not None:
        at = SourceSpan(offsets=(odd.start(), odd.end()))
        message = f"the character {quoted(odd[0])} is not allowed in YAML"
        return [], Findings([rules.NOT_YAML.finding(at, message)])
    composer = _Composer(text, Findings(limit=limit))
    try:
        documents = list(composer.documents())
    except NotYamlError as error:
        documents = composer.done
        composer.report(
            rules.NOT_YAML, error.span, f"the text is not YAML: {error.reason}"
        )
    except _StopError:
        documents = composer.done
    return documents, composer.found


class _StopError(Exception):
    """The rest of the text is not read; the reason has been reported."""


class _Draft(NamedTuple):
    """The places of values and keys of a document that is being read."""

    values: dict[Path, Offsets]
    keys: dict[Path, Offsets]


class _Composer:
    """Builds plain data from events; aliases are never expanded."""

    def __init__(self, text: str, found: Findings) -> None:
        self.text = text
        self.found = found
        self.done: list[Document] = []
        self.events = yaml_events(text)
        self.depth = 0  # a key may be a mapping too, so the path is not enough

    def report(
        self, rule: Rule, span: Offsets | None, message: str, hint: str | None = None
    ) -> None:
        at = None if span is None else SourceSpan(offsets=span)
        self.found.add(rule.finding(at, message, hint=hint))

    def documents(self) -> Iterator[Document]:
        """Yield the documents of the text."""
        for event in self.events:
            if event.kind != "DocumentStart":
                continue
            if len(self.done) == MAX_DOCUMENTS:
                message = f"the file has more than {MAX_DOCUMENTS} documents"
                self.report(rules.TOO_MANY, event.span, message)
                raise _StopError
            draft = _Draft({}, {})
            data = self.value(next(self.events), draft, ())
            document = Document(
                text=self.text, data=data, values=draft.values, keys=draft.keys
            )
            self.done.append(document)
            yield document

    def value(self, event: YamlEvent, draft: _Draft, path: Path) -> object:
        """Return the value that begins with an event, and record its place."""
        start, end = event.span
        data: object = None
        self.refuse_tag(event)
        if event.kind == "Alias":
            hint = "write the value out"
            self.report(rules.REFUSED_YAML, event.span, "aliases are not read", hint)
        elif event.kind == "Scalar":
            data = plain_value(event.text) if event.is_plain else event.text
        else:
            data, end = self.collection(event, draft, path)
            end = start + len(self.text[start:end].rstrip())
        draft.values[path] = (start, end)
        return data

    def collection(
        self, event: YamlEvent, draft: _Draft, path: Path
    ) -> tuple[object, int]:
        if self.depth >= MAX_DEPTH:
            message = f"this is nested more than {MAX_DEPTH} levels deep"
            self.report(
                rules.NESTED_TOO_DEEPLY, (event.span[0], event.span[0] + 1), message
            )
            raise _StopError
        self.depth += 1
        read = self.items if event.kind == "SequenceStart" else self.members
        found, end = read(draft, path)
        self.depth -= 1
        return found, end

    def items(self, draft: _Draft, path: Path) -> tuple[list[object], int]:
        found: list[object] = []
        while (event := next(self.events)).kind != "SequenceEnd":
            found.append(self.value(event, draft, (*path, len(found))))
        return found, event.span[1]

    def members(self, draft: _Draft, path: Path) -> tuple[dict[str, object], int]:
        found: dict[str, object] = {}
        while (event := next(self.events)).kind != "MappingEnd":
            key = self.key(event, draft, path, found)
            if key is None:  # skip its value
                self.value(next(self.events), _Draft({}, {}), path)
            else:
                found[key] = self.value(next(self.events), draft, (*path, key))
        return found, event.span[1]

    def key(
        self, event: YamlEvent, draft: _Draft, path: Path, found: dict[str, object]
    ) -> str | None:
        """Return a key, or report why it is left out and return None."""
        key = event.text
        if event.kind != "Scalar":
            self.report(rules.REFUSED_YAML, event.span, "a key has to be text")
            self.value(event, _Draft({}, {}), path)
            return None
        self.refuse_tag(event)
        if key == _MERGE and event.is_plain:
            hint = "write the members out"
            self.report(rules.REFUSED_YAML, event.span, "merge keys are not read", hint)
            return None
        if key in found:
            self.report_repeated(event, (*path, key), draft.keys[(*path, key)])
            return None
        draft.keys[(*path, key)] = event.span
        return key

    def report_repeated(self, event: YamlEvent, path: Path, first: Offsets) -> None:
        related = (SourceSpan(path, offsets=first, label="first use"),)
        span = SourceSpan(path, offsets=event.span)
        message = f"the key {quoted(event.text)} occurs twice here"
        self.found.add(rules.DUPLICATE_KEY.finding(span, message, related=related))

    def refuse_tag(self, event: YamlEvent) -> None:
        if event.tag is not None and event.tag != "!":
            span = (event.span[0], event.span[0] + 1)
            message = f"tags are not read, and here is {quoted(event.tag)}"
            self.report(rules.REFUSED_YAML, span, message)


def plain_value(text: str) -> object:
    """Return the value of a plain word if YAML 1.1 and 1.2 agree, else the text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


class YamlEvent(NamedTuple):
    """A piece of a YAML text.

    Attributes:
        kind: ``Scalar``, ``Alias``, ``DocumentStart``, ``MappingEnd`` and so on.
        span: Offsets of its first character and its end.
        text: Text of a scalar.
        is_plain: Whether a scalar has neither quotation marks nor a tag.
        tag: Its tag, None if it has none.
    """

    kind: str
    span: Offsets
    text: str = ""
    is_plain: bool = False
    tag: str | None = None


class NotYamlError(Exception):
    """A text is not YAML.

    Attributes:
        span: Offsets of the place, None if it is not known.
        reason: What is wrong.
    """

    def __init__(self, span: Offsets | None, reason: str) -> None:
        """Store the parts."""
        self.span = span
        self.reason = reason
        super().__init__(reason)


def yaml_events(text: str) -> Iterator[YamlEvent]:
    """Yield the pieces of a text; nothing is expanded or built.

    Raises:
        NotYamlError: The text is not valid YAML from some place on.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            kind = type(event).__name__.removesuffix("Event")
            start, end = event.start_mark, event.end_mark
            span = (start.index if start else 0, end.index if end else 0)
            tag = getattr(event, "tag", None)
            if isinstance(event, yaml.ScalarEvent):
                yield YamlEvent(kind, span, str(event.value), event.implicit[0], tag)
            else:
                yield YamlEvent(kind, span, tag=tag)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = min(mark.index if mark else 0, max(len(text) - 1, 0))
        reason = error.problem or error.context or "it cannot be read"
        raise NotYamlError((at, at + 1), reason) from None
    except yaml.YAMLError as error:
        raise NotYamlError(None, str(error).splitlines()[0]) from None
