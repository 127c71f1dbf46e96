"""Kubernetes objects in a file: find them by kind, read and write their fields.

Every field is found by its path, and each defect is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.diagnostic import Finding, quoted
from ranktable.schema.document import Document
from ranktable.schema.json_parser import parse
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Path, SourceSpan

# YAML's flow style also begins with a brace, but its keys have no quotation marks.
_JSON = re.compile(r"\s*\{\s*(?:\"|\}\s*\Z)")
_NO_NUMBER = "write a whole number, without quotation marks"


@dataclass(frozen=True, slots=True)
class Fields:
    """One document of a file, and the text of the file."""

    source: SourceText
    document: Document

    @property
    def data(self) -> object:
        """The plain data."""
        return self.document.data

    def span_of(self, *path: str | int, of_key: bool = False) -> SourceSpan:
        """Return the place of a value, or of its key."""
        return self.document.span_of(*path, of_key=of_key)

    def get(self, *path: str | int) -> object:
        """Return a value, None if there is none."""
        return self.document.get(*path)

    def report(self, message: str, *path: str | int, hint: str | None = None) -> None:
        """Report a missing or wrong field."""
        self.source.report(rules.WRONG_FIELD, self.span_of(*path), message, hint=hint)

    def integer(
        self, *path: str | int, least: int = 0, default: int | None = None
    ) -> int | None:
        """Return an integer, or the default if the field is absent."""
        value = self.get(*path)
        name = dotted(path)
        if value is None:
            if default is None:
                self.report(f"{name} is missing", *path)
            return default
        if type(value) is not int:
            message = f"{name} is {quoted(value)}, not a number"
            self.report(message, *path, hint=_NO_NUMBER)
            return None
        if value < least:
            self.report(f"{name} is {value}; it is at least {least}", *path)
            return None
        return value

    def text(self, *path: str | int, default: str | None = None) -> str | None:
        """Return a text, or the default if the field is absent."""
        value = self.get(*path)
        if value is None:
            if default is None:
                self.report(f"{dotted(path)} is missing", *path)
            return default
        if not isinstance(value, str):
            self.report(f"{dotted(path)} is {quoted(value)}, not text", *path)
            return None
        return value

    def fixed(self, wanted: object, *path: str | int, why: str) -> None:
        """Report a field that does not have the required value."""
        value = self.get(*path)
        if value != wanted or type(value) is not type(wanted):
            found = "missing" if value is None else quoted(value)
            hint = f"write {path[-1]}: {wanted}"
            self.report(f"{dotted(path)} is {found}; {why}", *path, hint=hint)


def dotted(path: Path) -> str:
    """Return a path with dots: ``spec.template.spec.subdomain``."""
    return ".".join(str(step) for step in path)


def documents_in(source: SourceText) -> list[Fields]:
    """Return the documents of a YAML or JSON text that are mappings."""
    found: list[Fields] = []
    if _JSON.match(source.text):
        parsed = parse(source.text, source.found.limit)
        if isinstance(parsed, Finding):
            source.found.add(parsed)
            return []
        source.found.extend(parsed[1])
        found = [Fields(source, Document(text=source.text, data=parsed[0]))]
    else:
        documents, findings = parse_yaml(source.text, source.found.limit)
        source.found.extend(findings)
        found = [Fields(source, document) for document in documents]
    if not source.is_sound:
        return []
    found = [fields for fields in found if fields.data is not None]
    for fields in found:
        if not isinstance(fields.data, dict):
            fields.report("the document is not a mapping of names to values")
    return [fields for fields in found if isinstance(fields.data, dict)]
