"""A project's options: ``[tool.ranktable]`` in pyproject.toml, or ranktable.toml."""

from __future__ import annotations

import glob
import sys
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ranktable.cli import CommandError
from ranktable.cli.judging import is_like

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ranktable.schema.diagnostic import Report, Severity

OWN_FILE, SHARED_FILE = "ranktable.toml", "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a project sets for ``ranktable validate``; an option of a call wins.

    Attributes:
        chip: ``--chip``.
        topology: ``--topology``; a file is looked for beside the settings.
        schema: ``--schema``; likewise.
        strict: ``--strict``.
        select: Codes, or beginnings of codes, to report; all where it is empty.
        ignore: Codes, or beginnings of codes, to leave out.
        per_file_ignores: More of these, by a pattern of names.
        exclude: Patterns of files and folders that a folder's name does not stand for.
    """

    chip: str | None = None
    topology: str | None = None
    schema: str | None = None
    strict: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


def find_settings(folder: Path) -> Settings:
    """Return the settings of a folder or of the nearest one above that has some.

    The search ends at the root of a repository.

    Raises:
        CommandError: A file is not TOML, or holds what is not an option.
    """
    for place in (folder, *folder.parents):
        for name in (OWN_FILE, SHARED_FILE):
            path = place / name
            if path.is_file():
                found = _table_of(path)
                if found is not None:
                    return _settings(found, path)
        if (place / ".git").exists():
            break
    return Settings()


def _table_of(path: Path) -> dict[str, Any] | None:
    """Return the table of ranktable in a file, None if there is none."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if path.name == SHARED_FILE:  # it is another tool's to say
            return None
        raise CommandError(f"{path}: {error}") from None
    if path.name == OWN_FILE:
        return document
    found = document.get("tool", {}).get("ranktable")
    return found if isinstance(found, dict) else None


def _settings(table: dict[str, Any], path: Path) -> Settings:
    names = {each.name.replace("_", "-"): each.name for each in fields(Settings)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in names:
            raise CommandError(
                f"{path}: {key} is not an option; there are {', '.join(names)}"
            )
        values[names[key]] = _value(key, value, path)
    for name in ("topology", "schema"):
        beside = path.parent / str(values.get(name))
        if beside.is_file():
            values[name] = str(beside)
    folder = path.parent
    ignores = values.get("per_file_ignores", {})
    values["per_file_ignores"] = {_anchored(k, folder): v for k, v in ignores.items()}
    values["exclude"] = tuple(_anchored(p, folder) for p in values.get("exclude", ()))
    return Settings(**values)


def _anchored(pattern: str, folder: Path) -> str:
    """Return a pattern of paths below a folder as one of absolute paths.

    A pattern of names, without a slash, matches in every folder and stays.
    """
    bare = pattern.rstrip("/")
    return f"{glob.escape(str(folder.absolute()))}/{bare}" if "/" in bare else bare


def _value(key: str, value: object, path: Path) -> object:
    """Return the value of an option."""
    if key in ("select", "ignore", "exclude") and _is_texts(value):
        return tuple(value)  # type: ignore[arg-type]
    if key == "chip" and type(value) in (str, int):
        return str(value)
    if key in ("topology", "schema") and isinstance(value, str):
        return value
    if key == "strict" and isinstance(value, bool):
        return value
    if key == "per-file-ignores" and isinstance(value, dict):
        return {name: _value("ignore", codes, path) for name, codes in value.items()}
    raise CommandError(f"{path}: {key} cannot be {value!r}")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def selected(report: Report, settings: Settings) -> Report:
    """Return a report with the codes that the settings ask for."""
    ignored = [*settings.ignore]
    for pattern, codes in settings.per_file_ignores.items():
        if is_like(report.file, [pattern]):
            ignored += codes
    if not (settings.select or ignored):
        return report

    def is_wanted(code: str) -> bool:
        is_selected = not settings.select or _is_among(code, settings.select)
        return is_selected and not _is_among(code, ignored)

    kept = [
        pair
        for pair in zip(report.diagnostics, report.findings, strict=False)
        if is_wanted(pair[0].code)
    ]
    severity_of: dict[str, Severity] = {d.code: d.severity for d in report.diagnostics}
    weights: dict[Severity, int] = {}
    totals = {code: n for code, n in report.totals.items() if is_wanted(code)}
    for code, count in totals.items():
        weights[severity_of[code]] = weights.get(severity_of[code], 0) + count
    return replace(
        report,
        diagnostics=tuple(diagnostic for diagnostic, _ in kept),
        findings=tuple(finding for _, finding in kept),
        totals=totals,
        by_severity=weights,
        num_ignored=sum(report.totals.values()) - sum(totals.values()),
    )


def _is_among(code: str, beginnings: Sequence[str]) -> bool:
    return any(code.startswith(beginning) for beginning in beginnings)
