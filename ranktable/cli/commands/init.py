"""``ranktable init``: copy templates of specs, jobs, checks and settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

import ranktable
from ranktable._toml import loads
from ranktable.cli import completion
from ranktable.cli.output import (
    CommandError,
    OutputFile,
    OutputFormat,
    is_standard_output,
    output_file,
    put_files,
    write,
    write_json,
)
from ranktable.cli.parameters import ReplaceFileOption, valued
from ranktable.cli.schemas import schema_text


def init(
    template: Annotated[
        str | None,
        typer.Argument(
            metavar="TEMPLATE",
            help="Name of the template; without it, list all.",
            autocompletion=completion.templates,
        ),
    ] = None,
    output: Annotated[
        str | None,
        valued(
            "PATH",
            "A file, or a folder for the files; by default the names in the "
            "list; - prints a template of one file.",
            "--output",
            "-o",
        ),
    ] = None,
    force: ReplaceFileOption = False,
    format: Annotated[
        OutputFormat | None, typer.Option(help="Form of the list.")
    ] = None,
) -> None:
    """List the templates, or copy one.

    There are cluster specs, jobs, checks and settings of editors.

    Nothing is overwritten without --force.

    Example: ranktable init one-box && ranktable gen --spec cluster.yaml
    """
    if template is None:
        if output is not None or force:
            raise CommandError("name the TEMPLATE to copy; ranktable init lists them")
        _list(format or "text")
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
    put_files(files, force=force)


def _refuse_other_kinds(paths: list[str]) -> None:
    """Raise CommandError for a folder, a pipe or a link to nothing."""
    for path in paths:
        if os.path.lexists(path) and not Path(path).is_file():
            raise CommandError(f"{path} is there and is not a file; it is not replaced")


def _list(form: OutputFormat) -> None:
    if form == "json":
        write_json(
            [
                {
                    "name": template.name,
                    "summary": template.summary,
                    "files": [target for _, target in template.files],
                }
                for template in templates()
            ]
        )
        return
    width = max(len(template.name) for template in templates())
    write(
        f"{template.name:<{width}}  {template.files[0][1]}: {template.summary}\n"
        for template in templates()
    )


def _paths(template: Template, output: str | None) -> list[str]:
    """Return the paths of the copies.

    Raises:
        CommandError: Several files would get one name, or the folder does not exist.
    """
    targets = [target for _, target in template.files]
    if output is None:
        return targets
    path = Path(output)
    if output and path.is_dir():
        return [str(path / target) for target in targets]
    if output.endswith(os.sep):
        raise CommandError(f"the folder {output} does not exist; create it first")
    if len(targets) > 1:
        raise CommandError(
            f"{template.name} is {len(targets)} files; --output names the folder "
            "that gets them, and it has to exist"
        )
    return [output_file(output)]


SCHEMA = "schema:"
"""Prefix of a source that is the JSON Schema of a format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Files to copy and change.

    Attributes:
        name: Its name on the command line.
        summary: A description in one line.
        files: Each source with the path of its copy; the main file comes first.
    """

    name: str
    summary: str
    files: tuple[tuple[str, str], ...]


@cache
def templates() -> tuple[Template, ...]:
    """Return the templates in their order.

    Raises:
        CommandError: They are missing from the installation.
    """
    entries = loads((_folder() / "index.toml").read_text("utf-8"))
    return tuple(
        Template(
            name=name,
            summary=entry["summary"],
            files=tuple((source, target) for source, target in entry["files"]),
        )
        for name, entry in entries.items()
    )


def template_of(name: str) -> Template:
    """Return the template with this name.

    Raises:
        CommandError: There is no such template.
    """
    for template in templates():
        if template.name == name:
            return template
    known = ", ".join(template.name for template in templates())
    raise CommandError(f"there is no template {name!r}; there are: {known}")


def content_of(source: str) -> tuple[bytes, bool]:
    """Return the bytes of a source, and whether it is executable.

    Raises:
        CommandError: The templates are missing from the installation.
    """
    if source.startswith(SCHEMA):
        return schema_text(source.removeprefix(SCHEMA)), False
    path = _folder() / source
    return path.read_bytes(), bool(path.stat().st_mode & 0o100)


def _folder() -> Path:
    """Return the folder of the templates: in the package, or beside it in a clone."""
    package = Path(ranktable.__file__).parent
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / "specs").is_dir():
            return folder
    raise CommandError("the templates are missing from this installation")
