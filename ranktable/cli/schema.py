"""``ranktable schema``: the JSON Schema of a format, for editors and other tools."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli.output import write


def schema(
    format_version: Annotated[
        str,
        typer.Option(
            help="sccl-1.0 (node_list, also written 1.0) or sccl-2024 (server_list)."
        ),
    ] = "sccl-1.0",
) -> None:
    """Print the JSON Schema (draft 2020-12) of a format.

    Example: ranktable schema > sccl-1.0.schema.json
    """
    from ranktable.schema.contract import schema_text  # noqa: PLC0415 - not for --help
    from ranktable.schema.formats.recognise import by_name  # noqa: PLC0415

    name = format_version
    if not name.startswith("sccl-"):
        name = f"sccl-{name}"
    write([schema_text(by_name(name).name).decode()])
