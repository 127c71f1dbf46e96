"""The JSON Schemas that commands print and copy, by name."""

from __future__ import annotations

from ranktable.cli.output import CommandError
from ranktable.cluster.specs.spec import NAME as SPEC
from ranktable.cluster.specs.spec import spec_schema_text
from ranktable.schema.formats import names
from ranktable.schema.json_schema import schema_text


def schema_of(name: str) -> bytes:
    """Return the JSON Schema of a format.

    Raises:
        CommandError: There is no such format.
    """
    if name == SPEC:
        return spec_schema_text()
    for known_name in names():
        if name in (known_name, known_name.removeprefix("sccl-")):
            return schema_text(known_name)
    known = ", ".join((*names(), SPEC))
    raise CommandError(f"there is no format {name!r}; there are: {known}")
