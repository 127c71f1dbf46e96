"""``ranktable schema``: the JSON Schema of a format, for editors and other tools."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli import completion
from ranktable.cli.output import put_text
from ranktable.cli.parameters import OutputOption, ReplaceFileOption
from ranktable.cli.schemas import schema_text

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
