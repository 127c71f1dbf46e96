"""The settings of a project: ``[tool.ranktable]`` in pyproject.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import structs

from ranktable._toml import loads
from ranktable.cli.output import CommandError
from ranktable.cli.parameters import codes_in
from ranktable.schema.chips import chips_per_host
from ranktable.schema.files import lies_in
from ranktable.schema.selection import Selection
from ranktable.schema.topology import BUILT_IN

if TYPE_CHECKING:
    from pathlib import Path


class Settings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="kebab",
):
    """What ``[tool.ranktable]`` says; the options of a call are stronger.

    Attributes:
        chip: ``--chip``.
        topology: ``--topology``; a file name is relative to the settings.
        select: Codes to report, or their beginnings; all codes if empty.
        ignore: Codes to leave out, or their beginnings.
        max_errors: ``--max-errors``.
    """

    chip: str | int | None = None
    topology: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_errors: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def selection(self) -> Selection:
        """The codes to report."""
        return Selection(self.select, self.ignore)


def find_settings(folder: Path) -> Settings:
    """Return the settings of a folder, or of the nearest parent that has some.

    The search ends at the root of a repository.

    Raises:
        CommandError: A pyproject.toml is not TOML, or has an unknown option.
    """
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        data = path.read_bytes() if path.is_file() else b""
        if b"ranktable" in data:
            try:
                tools = loads(data.decode()).get("tool")
                if isinstance(tools, dict) and "ranktable" in tools:
                    return _settings(tools["ranktable"], place)
            except (CommandError, ValueError) as error:
                raise CommandError(f"{path}: {error}") from None
        if (place / ".git").exists():
            break
    return Settings()


def _settings(table: object, folder: Path) -> Settings:
    """Return the settings in a table of TOML.

    Raises:
        CommandError: A code is unknown, or a file of links is not there.
        ValueError: There is another option, or a value has another type.
    """
    found = msgspec.convert(table, Settings)
    found = structs.replace(
        found, select=codes_in(found.select), ignore=codes_in(found.ignore)
    )
    chips_per_host(None if found.chip is None else str(found.chip))
    if found.topology is None or any(found.topology == one.name for one in BUILT_IN):
        return found
    beside = folder / found.topology
    if not lies_in(str(beside), str(folder)):
        raise CommandError(f"topology is {found.topology!r}, outside of {folder}")
    if not beside.is_file():
        raise CommandError(
            f"topology is {found.topology!r}, and there is no file {beside}"
        )
    return structs.replace(found, topology=str(beside))
