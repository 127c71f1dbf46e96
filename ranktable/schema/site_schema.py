"""A site's own JSON Schema, an additional check of a table or a spec.

References lead to local files only. The schema is the user's own: one whose patterns
never end is interrupted by Ctrl-C, as any program is.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

import jsonschema
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from ranktable._error import Error
from ranktable.schema.files import UnreadableError, lies_in, read_file
from ranktable.schema.finding import Findings
from ranktable.schema.json_parser import walk
from ranktable.schema.rules.shape import SITE_SCHEMA
from ranktable.schema.text import printable, quoted
from ranktable.schema.values import BadNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.exceptions import ValidationError

    from ranktable.schema.document import Document
    from ranktable.schema.finding import Finding
    from ranktable.schema.report import Report

MAX_FILE_BYTES = 4 << 20
"""Most bytes of a schema; most have a few pages, that of all of Kubernetes 4 MB."""

_SAYS = "by the site's schema,"
_MAX_CHOICES = 200
"""Most characters of the values of an enum in a message."""


class SiteSchemaError(Error, ValueError):
    """The schema cannot be used; the text has the file and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSchema:
    """The JSON Schema of a site.

    Attributes:
        path: Its file.
        validator: What judges by it.
        limit: Findings to describe; None for all.
    """

    path: str
    validator: Any
    limit: int | None = None

    def added_to(self, report: Report, document: Document | None) -> Report:
        """Return a report with the findings of the schema added.

        Args:
            report: The findings of our rules.
            document: The document, None if it could not be read.

        Raises:
            SiteSchemaError: The schema is wrong where the document first needs it.
        """
        if document is None or any(
            isinstance(value, BadNumber) for _, value in walk(document.data)
        ):
            return report
        try:
            errors = [
                _nearest(error) for error in self.validator.iter_errors(document.data)
            ]
        except Unresolvable as error:
            reason = (
                f"{quoted(error.ref)} is referred to and is not in a local file that "
                "can be read; nothing is fetched"
            )
        except RecursionError:
            reason = "references or levels in it are nested without an end"
        except re.error as error:
            reason = f"{quoted(error.pattern)} is not a regular expression: {error.msg}"
        except Exception as error:  # noqa: BLE001 - from jsonschema, of any type
            # What only a reference leads to was not checked when the schema was read.
            why = str(error).partition("\n")[0].rstrip(":")
            reason = f"a reference leads to what is not a JSON Schema: {why}"
        else:
            found = [one for error in errors for one in _findings(error, document)]
            return report.with_findings(Findings(found, limit=self.limit))
        raise SiteSchemaError(f"{self.path}: {reason}")


def read_site_schema(path: str, *, limit: int | None = None) -> SiteSchema:
    """Read the JSON Schema of a site.

    Raises:
        SiteSchemaError: It cannot be read, or is not a JSON Schema.
    """
    file = Path(path).absolute()
    uri = file.as_uri()
    try:
        schema = _read(file)
        kind = _kind_of(schema)
        kind.check_schema(schema)
        own = schema.get("$id") if isinstance(schema, dict) else None
        base = urljoin(uri, own) if isinstance(own, str) else uri
        urlsplit(base)
    except jsonschema.SchemaError as error:
        place = "/".join(["#", *map(str, error.absolute_path)])
        message = f"{place}: {_message(error)}; it is not a JSON Schema"
        raise SiteSchemaError(f"{path}: {message}") from None
    except (ValueError, RecursionError, OverflowError) as error:  # of a {repetition}
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise SiteSchemaError(f"{path}: {reason}") from None
    retrieve = partial(_retrieved, base, uri)
    known: Any = Registry(retrieve=retrieve)  # type: ignore[call-arg]
    known = REGISTRY.combine(known.with_resource(base, _resource(schema)))
    if isinstance(schema, dict):
        schema = {**schema, "$id": base}
    return SiteSchema(path=path, validator=kind(schema, registry=known), limit=limit)


def _retrieved(base: str, root: str, uri: str) -> Resource[Any]:
    """Return the local file of an address.

    References are relative to the name that a schema gives itself, but the files are in
    the folder of the schema.
    """
    folder = urljoin(base, ".")
    local = urljoin(root, ".") + uri[len(folder) :] if uri.startswith(folder) else uri
    parts = urlsplit(local)
    path, home = unquote(parts.path), os.path.dirname(unquote(urlsplit(root).path))
    if parts.scheme != "file" or parts.netloc or not lies_in(path, home):
        raise NoSuchResource(uri)
    try:
        return _resource(_read(Path(path)))
    except ValueError:
        raise NoSuchResource(uri) from None


def _resource(schema: Any) -> Resource[Any]:
    return Resource.from_contents(schema, default_specification=DRAFT202012)


def _read(path: Path) -> Any:
    """Return the schema in a file.

    Raises:
        ValueError: It cannot be read, or is not a JSON Schema.
    """
    try:
        schema = json.loads(read_file(str(path), MAX_FILE_BYTES))
    except UnreadableError as error:
        raise ValueError(f"{error.code} {error.message}") from None
    if not isinstance(schema, (dict, bool)):
        raise ValueError("a JSON Schema is an object, or true or false")  # noqa: TRY004 - of a file
    return schema


def _kind_of(schema: object) -> Any:
    draft = schema.get("$schema") if isinstance(schema, dict) else None
    if draft is None:
        return jsonschema.Draft202012Validator
    kind: Any = None
    if isinstance(draft, str):
        kind = validator_for({"$schema": draft}, default=None)  # type: ignore[arg-type]
    if kind is None:
        raise ValueError(f"$schema {quoted(draft)} is not a draft of JSON Schema")
    return kind


def _nearest(error: ValidationError) -> ValidationError:
    """Return the cause of an error; of several alternatives, the nearest one."""
    try:
        return best_match(iter([error])) or error
    except TypeError:  # jsonschema 4.26: a schema as a type, which draft 3 allows
        return error


def _findings(error: ValidationError, document: Document) -> Iterator[Finding]:
    """Yield what an error says, of each key if several are not allowed."""
    path: list[str | int] = list(error.absolute_path)
    if error.validator == "required" and error.validator_value is True:
        path.pop()  # draft 3 adds the key that is missing
    keys = _unexpected(error)
    for key in keys:
        message = f"{_SAYS} the key {quoted(key)} is not allowed"
        yield SITE_SCHEMA.finding(document.span_of(*path, key, of_key=True), message)
    if keys:
        return
    # An error about a key has the place of its object; report the key itself.
    of_key = "propertyNames" in error.absolute_schema_path
    if of_key and isinstance(error.instance, str):
        path = [*path, error.instance]
    span = document.span_of(*path, of_key=of_key)
    yield SITE_SCHEMA.finding(span, f"{_SAYS} {_message(error)}")


def _unexpected(error: ValidationError) -> list[str]:
    """Return the keys that ``additionalProperties`` forbids."""
    schema, value = error.schema, error.instance
    if error.validator != "additionalProperties" or error.validator_value is not False:
        return []
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return []
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        key
        for key in value
        if key not in known and not any(re.search(one, key) for one in patterns)
    ]


def _message(error: Any) -> str:
    """Return the message of an error, with the value shortened."""
    value, asked = quoted(error.instance), error.validator_value
    if error.validator == "required":
        # In draft 3 it is true, and the path ends with the key.
        asked = error.absolute_path if asked is True else asked
        missing = next(k for k in asked if error.message.startswith(repr(k)))
        return f"the key {quoted(missing)} is missing"
    if error.validator == "type":
        kinds = asked if isinstance(asked, list) else [asked]
        return f"{value} is not of type {' or '.join(map(quoted, kinds))}"
    if error.validator == "pattern":
        return f"{value} does not match {quoted(asked)}"
    if error.validator in ("enum", "const"):
        choices = asked if error.validator == "enum" else [asked]
        listed = printable(" or ".join(map(json.dumps, choices)))
        more = "..." if len(listed) > _MAX_CHOICES else ""
        return f"{value} is not {listed[:_MAX_CHOICES] or 'allowed'}{more}"
    if isinstance(asked, (int, float, str)) and not isinstance(asked, bool):
        return f"{value} does not satisfy {error.validator} {quoted(asked)}"
    return f"{value} does not satisfy {error.validator or 'false'}"
