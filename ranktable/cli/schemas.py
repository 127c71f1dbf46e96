"""The JSON Schemas that commands print and copy, by name."""

from __future__ import annotations

from ranktable.cli.output import CommandError
from ranktable.cluster.specs.spec import NAME as SPEC
from ranktable.cluster.specs.spec import spec_schema_text
from ranktable.schema.formats import by_name, names
from ranktable.schema.json_schema import ANY, encode_schema, schema_of, schema_of_any


def schema_text(name: str) -> bytes:
    """Return the JSON Schema of a format, or of a table of any format.

    Raises:
        CommandError: There is no such format.
    """
    if name == SPEC:
        return spec_schema_text()
    for known_name in names():
        if name in (known_name, known_name.removeprefix("sccl-")):
            return encode_schema(schema_of(by_name(known_name)))
    if name == ANY:
        formats = [one for one in map(by_name, names()) if one.nodes_key]
        return encode_schema(schema_of_any(formats))
    known = ", ".join((*names(), ANY, SPEC))
    raise CommandError(f"there is no format {name!r}; there are: {known}")
