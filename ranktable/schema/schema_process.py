"""The process that judges a document by a site's JSON Schema.

It reads a ``SchemaRequest`` from standard input and writes an ``Answer``. It opens only
local files, at most ``MAX_FILES`` of them, and does not use the network.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import jsonschema
import msgspec
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from ranktable.schema.diagnostic import MAX_VALUE_LENGTH, Finding, printable, quoted
from ranktable.schema.document import find_locations
from ranktable.schema.files import UnreadableError, read_file
from ranktable.schema.json_parser import decode, find_too_deep, parse, walk
from ranktable.schema.site_schema import Answer, SchemaRequest, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.exceptions import ValidationError

MAX_FILES = 64
MAX_FILE_BYTES = 4 << 20
"""Most bytes of a schema; most have a few pages, that of all of Kubernetes 4 MB."""

MAX_VALUES = 8
"""Most values of an enum that a message shows."""

_UNKNOWN = object()
_SAYS = "by the site's schema,"
_MESSAGES = {
    "type": "is not of type",
    "pattern": "does not match",
    "const": "is not",
    "enum": "is not",
}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class _UnusableSchemaError(Exception):
    """The schema cannot be used; the text is the reason."""


def main() -> None:
    """Judge one document."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SchemaRequest)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, request.cpu_limit_s)
    _limit(resource.RLIMIT_AS, request.memory_limit_bytes)
    try:
        answer = _judged(request)
    except _UnusableSchemaError as error:
        answer = Answer(error=str(error))
    except Unresolvable as error:
        answer = Answer(
            error=f"{quoted(error.ref)} is referred to and is not in a local file that "
            "can be read; nothing is fetched"
        )
    except RecursionError:
        answer = Answer(error="references or levels in it are nested without an end")
    except MemoryError:
        answer = Answer(error="judging by it takes more memory than is allowed")
    except re.error as error:
        answer = Answer(
            error=f"{quoted(error.pattern)} is not a regular expression: {error.msg}"
        )
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    sys.stdout.flush()


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, hard))


def _judged(request: SchemaRequest) -> Answer:
    path = Path(request.schema).absolute()
    files = _Files(path)
    validator = files.validator()
    found: list[Violation] = []
    count = 0
    for error in validator.iter_errors(msgspec.json.decode(request.data)):
        for violation in _violations(error):
            count += 1
            if count <= request.max_found:
                found.append(violation)
    return Answer(found=found, count=count)


class _Files:
    """A schema, and the local files that it refers to."""

    def __init__(self, path: Path) -> None:
        self.root = path.as_uri()
        self.schemas: dict[str, object] = {}
        self.base = self.root
        pending = [(self.root, path)]
        while pending:
            uri, file = pending.pop()
            schema = self.schemas[uri] = self._read(uri, file)
            if uri == self.root and isinstance(schema, dict):
                # References are relative to the name that a schema gives itself, but
                # the files are in the folder of the schema.
                self.base = urljoin(self.root, _text(schema.get("$id")))
            base = self.base if uri == self.root else uri
            for reference in sorted(_references(schema, base)):
                known = reference in self.schemas or any(
                    reference == one for one, _ in pending
                )
                target = self.file_of(reference)
                if known or target is None or not target.is_file():
                    continue
                if len(self.schemas) + len(pending) >= MAX_FILES:
                    raise _UnusableSchemaError(
                        f"it refers to more than {MAX_FILES} files"
                    )
                pending.append((reference, target))

    def _read(self, uri: str, file: Path) -> object:
        try:
            return _read(file)
        except _UnusableSchemaError as error:
            if uri == self.root:
                raise
            raise _UnusableSchemaError(f"it refers to {file}: {error}") from None

    def file_of(self, uri: str) -> Path | None:
        """Return the local file of an address, None if it is not a local file."""
        folder, own = urljoin(self.base, "."), urljoin(self.root, ".")
        if uri in (self.base, self.root):
            return None
        if uri.startswith(folder):
            uri = own + uri[len(folder) :]
        parts = urlsplit(uri)
        if parts.scheme != "file" or parts.netloc:
            return None
        return Path(unquote(parts.path))

    def validator(self) -> Any:
        """Return a validator for the schema.

        Raises:
            _UnusableSchemaError: It is not a valid schema.
        """
        schema = self.schemas[self.root]
        for uri, one in self.schemas.items():
            name = "" if uri == self.root else f"{unquote(urlsplit(uri).path)}: "
            _check_schema(one, name)
        kind = _kind_of(schema)
        specification = DRAFT202012
        resources = [
            (uri, Resource.from_contents(one, default_specification=specification))
            for uri, one in self.schemas.items()
        ]
        known: Any = REGISTRY.combine(Registry().with_resources(resources))
        base = {"$id": self.root} if isinstance(schema, dict) else {}
        if base and "$id" not in schema and "id" not in schema:  # type: ignore[operator]
            schema = {**base, **schema}  # type: ignore[dict-item]
            known = known.with_resource(
                self.root,
                Resource.from_contents(schema, default_specification=specification),
            )
        return kind(schema, registry=known.crawl())


def _kind_of(schema: object) -> Any:
    draft = schema.get("$schema") if isinstance(schema, dict) else None
    if draft is None:
        return jsonschema.Draft202012Validator
    kind: Any = validator_for({"$schema": draft}, default=_UNKNOWN)  # type: ignore[arg-type]
    if kind is _UNKNOWN:
        raise _UnusableSchemaError(
            f"$schema {quoted(draft)} is not a draft of JSON Schema"
        )
    return kind


def _check_schema(schema: object, name: str) -> None:
    try:
        _kind_of(schema).check_schema(schema)
    except jsonschema.SchemaError as error:
        place = "/".join(["#", *map(str, error.absolute_path)])
        message = f"{name}{place}: {_message(error)}; it is not a JSON Schema"
        raise _UnusableSchemaError(message) from None


def _read(path: Path) -> object:
    try:
        data = read_file(str(path), MAX_FILE_BYTES)
    except UnreadableError as error:
        raise _UnusableSchemaError(f"{error.code} {error.message}") from None
    decoded = decode(data)
    text = "" if isinstance(decoded, Finding) else decoded[0]
    # Newer parsers accept nesting that is too deep for the validator.
    deep = decoded if isinstance(decoded, Finding) else find_too_deep(text)
    parsed = deep or parse(text)
    if isinstance(parsed, Finding):
        raise _UnusableSchemaError(_shown(parsed, text))
    schema, found = parsed
    if found:
        raise _UnusableSchemaError(_shown(found[0], text))
    if not isinstance(schema, (dict, bool)):
        raise _UnusableSchemaError("a JSON Schema is an object, or true or false")
    return schema


def _shown(finding: Finding, text: str) -> str:
    place = ""
    if finding.span is not None and text:
        location = find_locations(text, [finding.span], file="")[finding.span]
        place = f"line {location.line}, column {location.column}: "
    return f"{place}{finding.rule.code} {finding.message}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _references(schema: object, base: str) -> set[str]:
    """Return the addresses of the files to which a schema refers."""
    bases: dict[tuple[str | int, ...], str] = {(): base}
    found = set()
    for path, value in sorted(walk(schema), key=lambda item: len(item[0])):
        around = bases.get(path[:-1], base) if path else base
        bases[path] = around
        if not isinstance(value, dict):
            continue
        own = bases[path] = urljoin(around, _text(value.get("$id")))
        for key in _REFERENCES:
            if isinstance(value.get(key), str):
                found.add(urldefrag(urljoin(own, value[key])).url)
    return found


def _violations(error: ValidationError) -> Iterator[Violation]:
    """Yield the causes of an error; of several alternatives, the nearest one."""
    nearest = best_match(iter([error])) or error
    path = list(nearest.absolute_path)
    keys = _unexpected(nearest)
    for key in keys:
        message = f"{_SAYS} the key {quoted(key)} is not allowed"
        yield Violation(path=[*path, key], message=message, of_key=True)
    if keys:
        return
    # An error about a key has the place of its object; report the key itself.
    of_key = "propertyNames" in nearest.absolute_schema_path
    if of_key and isinstance(nearest.instance, str):
        path = [*path, nearest.instance]
    yield Violation(path=path, message=f"{_SAYS} {_message(nearest)}", of_key=of_key)


def _unexpected(error: ValidationError) -> list[str]:
    """Return the keys that ``additionalProperties`` forbids."""
    schema, value = error.schema, error.instance
    if error.validator != "additionalProperties" or error.validator_value is not False:
        return []
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return []
    patterns = schema.get("patternProperties", {})
    return [
        key
        for key in value
        if key not in schema.get("properties", {})
        and not any(re.search(pattern, key) for pattern in patterns)
    ]


def _message(error: Any) -> str:
    """Return the message of an error, with the value shortened."""
    value, asked = quoted(error.instance), error.validator_value
    if error.validator == "required":
        missing = next(k for k in asked if error.message.startswith(repr(k)))
        return f"the key {quoted(missing)} is missing"
    if error.validator in _MESSAGES:
        is_list = isinstance(asked, list) and error.validator != "const"
        several = asked if is_list else [asked]
        wanted = " or ".join(map(_as_json, several[:MAX_VALUES]))
        return f"{value} {_MESSAGES[error.validator]} {wanted}"
    if isinstance(asked, (int, float, str)) and not isinstance(asked, bool):
        return f"{value} does not satisfy {error.validator} {quoted(asked)}"
    return f"{value} does not satisfy {error.validator or 'false'}"


def _as_json(value: object) -> str:
    """Return a value of a schema as JSON; lists and objects are shown whole."""
    if isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False)
        is_long = len(text) > MAX_VALUE_LENGTH
        return printable(text[:MAX_VALUE_LENGTH] + "..." if is_long else text)
    return quoted(value)
