"""``ranktable schema``: the JSON Schema of a format, for editors and other tools."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli import completion
from ranktable.cli.output import CommandError, put_text
from ranktable.cli.parameters import OutputOption, ReplaceFileOption
from ranktable.cluster.specs.spec import NAME as SPEC
from ranktable.cluster.specs.spec import spec_schema_text
from ranktable.schema.formats import by_name, names
from ranktable.schema.json_schema import ANY, encode_schema, schema_of, schema_of_any

DEFAULT = "sccl-1.0"


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="sccl-1.0 (node_list, also written 1.0), hccl-1.0, or "
            f"cluster-spec; by default {DEFAULT}.",
            autocompletion=completion.schemas,
        ),
    ] = None,
    output: OutputOption = None,
    force: ReplaceFileOption = False,
) -> None:
    """Print the JSON Schema (draft 2020-12) of a format.

    Example: ranktable schema cluster-spec -o cluster-spec.schema.json
    """
    put_text(output, schema_text(name or DEFAULT), force=force)


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
