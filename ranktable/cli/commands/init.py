"""``ranktable init``: templates to copy and change."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.failure import CommandError
from ranktable.cli.output import OutputFormat, write
from ranktable.cli.output_files import OutputFile, is_standard_output, put_files
from ranktable.cli.templates import TEMPLATES, content_of, template_of
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cli.templates import Template


def init(
    template: Annotated[
        str | None,
        typer.Argument(metavar="TEMPLATE", help="Which one; without it, list them."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A file, or the folder of the files; by default they are named as "
            "the list says; - prints a single one.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that hold something else.")
    ] = False,
    format: Annotated[  # noqa: A002 - the name of the option
        OutputFormat | None, typer.Option(help="Form of the list.")
    ] = None,
) -> None:
    """List the templates, or copy one: cluster specs, jobs, checks, editor settings.

    Nothing is overwritten without --force; of several files all are written or none.

    Example: ranktable init one-box && ranktable gen --spec cluster.yaml
    """
    if template is None:
        if output is not None or force:
            raise CommandError("name the TEMPLATE to copy; ranktable init lists them")
        write(_listed(format or OutputFormat.TEXT))
        return
    if format is not None:
        raise CommandError("--format is for the list, without TEMPLATE")
    chosen = template_of(template)
    contents = [content_of(source) for source, _ in chosen.files]
    if is_standard_output(output) and len(contents) == 1:
        write([contents[0][0].decode()])
        return
    paths = _paths(chosen, output)
    _refuse_other_kinds(paths)
    files = [
        OutputFile(path=path, data=data, is_executable=is_executable)
        for path, (data, is_executable) in zip(paths, contents, strict=True)
    ]
    for path, done in zip(paths, put_files(files, force=force), strict=True):
        sys.stderr.write(f"{done} {printable(path)}\n")


def _refuse_other_kinds(paths: list[str]) -> None:
    """Raise CommandError for a folder, a pipe or a link to nothing."""
    for path in paths:
        if os.path.lexists(path) and not Path(path).is_file():
            raise CommandError(f"{path} is there and is not a file; it is not replaced")


def _listed(form: OutputFormat) -> Iterator[str]:
    if form is OutputFormat.JSON:
        data = [
            {
                "name": template.name,
                "summary": template.summary,
                "files": [target for _, target in template.files],
            }
            for template in TEMPLATES
        ]
        yield json.dumps(data, indent=2) + "\n"
        return
    width = max(len(template.name) for template in TEMPLATES)
    for template in TEMPLATES:
        yield f"{template.name:<{width}}  {template.files[0][1]}: {template.summary}\n"


def _paths(template: Template, output: str | None) -> list[str]:
    """Return where the files go.

    Raises:
        CommandError: Several files are given the name of one, or there is no folder.
    """
    targets = [target for _, target in template.files]
    if output is None:
        return targets
    path = Path(output)
    if path.is_dir():
        return [str(path / target) for target in targets]
    if output.endswith(os.sep):
        raise CommandError(f"the folder {output} does not exist; create it first")
    if len(targets) > 1:
        raise CommandError(
            f"{template.name} is {len(targets)} files; --output names the folder "
            "that gets them, and it has to exist"
        )
    if not path.parent.is_dir():
        raise CommandError(f"the folder {path.parent} does not exist; create it first")
    return [output]
