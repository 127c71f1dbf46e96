"""``ranktable schema``: the JSON Schema of a format, for editors and other tools."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli import completion
from ranktable.cli.output import CommandError, put_text
from ranktable.cli.parameters import OutputOption, ReplaceFileOption, valued
from ranktable.cluster.specs.spec import NAME as SPEC
from ranktable.cluster.specs.spec import spec_schema_text
from ranktable.schema.formats import names
from ranktable.schema.json_schema import schema_text

DEFAULT = "sccl-1.0"


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="sccl-1.0 (node_list, also written 1.0), sccl-2024 (server_list), or "
            f"cluster-spec; by default {DEFAULT}.",
            autocompletion=completion.schemas,
        ),
    ] = None,
    format_version: Annotated[
        str | None,
        valued("NAME", "The same, for a rank table.", completes=completion.schemas),
    ] = None,
    output: OutputOption = None,
    force: ReplaceFileOption = False,
) -> None:
    """Print the JSON Schema (draft 2020-12) of a format.

    Example: ranktable schema cluster-spec -o cluster-spec.schema.json
    """
    if name is not None and format_version is not None:
        raise CommandError("NAME and --format-version do not go together")
    put_text(output, schema_of(name or format_version or DEFAULT), force=force)


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
