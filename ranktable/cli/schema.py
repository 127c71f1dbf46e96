"""``ranktable schema``: the JSON Schema of a format, for editors and other tools."""

from __future__ import annotations

from typing import Annotated

import typer

from ranktable.cli.failure import CommandError
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
    from ranktable.schema.formats.recognise import FORMATS  # noqa: PLC0415

    for format_ in FORMATS:
        if format_version in (format_.name, format_.name.removeprefix("sccl-")):
            write([schema_text(format_.name).decode()])
            return
    known = ", ".join(format_.name for format_ in FORMATS)
    raise CommandError(f"there is no format {format_version!r}; there are: {known}")
