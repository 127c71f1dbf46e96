"""Fields of a YAML or JSON file by their paths, with the defects named; and writing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.diagnostic import Finding
from ranktable.schema.document import Document
from ranktable.schema.json_parser import find_too_deep, parse
from ranktable.schema.messages import quoted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Path, SourceSpan

# YAML's flow style begins with a brace too; its keys have no quotation marks.
_JSON = re.compile(r"\s*\{\s*(?:\"|\}\s*\Z)")
_NO_NUMBER = "write a whole number, without quotation marks"


@dataclass(frozen=True, slots=True)
class Fields:
    """One document and the source that it is from."""

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
        """Say that a field is missing or wrong."""
        self.source.report(rules.WRONG_FIELD, self.span_of(*path), message, hint=hint)

    def integer(
        self, *path: str | int, least: int = 0, default: int | None = None
    ) -> int | None:
        """Return a whole number, the default if it is absent."""
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
        """Return a text, the default if it is absent."""
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
        """Say if a field is not what it has to be."""
        value = self.get(*path)
        if value != wanted or type(value) is not type(wanted):
            found = "missing" if value is None else quoted(value)
            hint = f"write {path[-1]}: {wanted}"
            self.report(f"{dotted(path)} is {found}; {why}", *path, hint=hint)


def dotted(path: Path) -> str:
    """Return a path as people write it: ``spec.template.spec.subdomain``."""
    return ".".join(str(step) for step in path)


def documents_in(source: SourceText) -> list[Fields]:
    """Return the documents of a YAML or JSON text that hold mappings."""
    found: list[Fields] = []
    if _JSON.match(source.text):
        parsed = _parsed(source)
        if isinstance(parsed, Finding):
            source.add((parsed,))
            return []
        source.add(parsed[1])
        found = [Fields(source, Document(text=source.text, data=parsed[0]))]
    else:
        documents, findings = parse_yaml(source.text, source.quota)
        source.add(findings)
        found = [Fields(source, document) for document in documents]
    if not source.is_sound:
        return []
    found = [fields for fields in found if fields.data is not None]
    for fields in found:
        if not isinstance(fields.data, dict):
            fields.report("the document is not a mapping of names to values")
    return [fields for fields in found if isinstance(fields.data, dict)]


def _parsed(source: SourceText) -> tuple[object, list[Finding]] | Finding:
    """Return the data of a JSON text, or the reason why there is none."""
    try:
        return parse(source.text, source.quota)
    except RecursionError:
        finding = find_too_deep(source.text)
        if finding is None:
            raise  # it is the caller who is deep
        return finding


def dump_yaml(*documents: object) -> str:
    """Return documents as YAML, keys in the order given."""
    import yaml  # noqa: PLC0415 - imported where a YAML file is written

    class Dumper(yaml.SafeDumper):
        """Writes what is used twice twice; aliases are hard to read and to change."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of none
            return True

    text: str = yaml.dump_all(
        documents,
        Dumper=Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=10_000,  # a line is never folded, whatever library writes it
    )
    return text
