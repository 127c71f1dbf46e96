"""Values that a shell completes, and the commands that are needed for this.

Each function gets the text that was typed so far. The functions import the lists,
because only a shell that completes needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

VARIABLE: Final = "_RANKTABLE_COMPLETE"
"""Set by a shell that requests completions."""

_TYPED: Final = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
"""Variables with the command line: of zsh, fish and PowerShell; and of bash."""


def completed_command(env: Mapping[str, str]) -> str | None:
    """Return the command whose arguments are completed, None for its own name."""
    typed = next((env[name] for name in _TYPED if name in env), "")
    _, *words = typed.split() or [""]
    is_whole = typed[-1:].isspace() or len(words) > 1
    return words[0] if words and is_whole else None


def _beginning(values: Iterable[str], incomplete: str) -> list[str]:
    return [value for value in values if value.startswith(incomplete)]


def _last_of_list(values: Iterable[str], incomplete: str) -> list[str]:
    """Complete the last value in a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{value}" for value in _beginning(values, last)]


def formats(incomplete: str) -> list[str]:
    """Return the formats that ``convert`` reads."""
    from ranktable.schema.check import WRAPPED
    from ranktable.schema.formats import names

    return _with_launchers((*names(), WRAPPED), incomplete, "read")


def written_formats(incomplete: str) -> list[str]:
    """Return the formats that ``convert`` can write from a table of another format."""
    from ranktable.cluster.conversion import WRITTEN

    return _with_launchers(WRITTEN, incomplete, "write")


def _with_launchers(tables: Iterable[str], incomplete: str, way: str) -> list[str]:
    from ranktable.cluster.hostfiles.launcher_formats import (
        DEFAULT_TABLE,
        LAUNCHER_FORMATS,
    )

    launchers = (one.name for one in LAUNCHER_FORMATS if getattr(one, way))
    return _beginning((DEFAULT_TABLE, *tables, *launchers), incomplete)


def judged_formats(incomplete: str) -> list[str]:
    """Return the formats that ``validate`` judges."""
    from ranktable.cli.kinds import kinds

    known = (kind.name for kind in kinds())
    return [*dict.fromkeys((*formats(incomplete), *_beginning(known, incomplete)))]


def schemas(incomplete: str) -> list[str]:
    """Return formats that have a JSON Schema."""
    from ranktable.schema.formats import names

    return _beginning((*names(), "cluster-spec"), incomplete)


def codes(incomplete: str) -> list[str]:
    """Return codes, names of rules, and codes of vendors."""
    from ranktable.report.catalogue import RULES
    from ranktable.report.vendor_codes import vendor_codes

    if not incomplete:
        return [rule.code for rule in RULES]
    names = (name for rule in RULES for name in (rule.code, rule.name))
    return [
        # A code may be typed in lower case; the shell keeps what was typed.
        incomplete + value[len(incomplete) :]
        for value in (*names, *vendor_codes())
        if value.casefold().startswith(incomplete.casefold())
    ]


def listed_codes(incomplete: str) -> list[str]:
    """Return the typed list of codes with one more."""
    from ranktable.report.catalogue import RULES

    return _last_of_list((rule.code for rule in RULES), incomplete)


def _names(module: str, *lists: str) -> Callable[[str], list[str]]:
    """Return what completes the names in some lists of a module."""

    def complete(incomplete: str) -> list[str]:
        home = import_module(f"ranktable.{module}")
        values = (getattr(home, name) for name in lists)
        found = (each for one in values for each in (one() if callable(one) else one))
        return _beginning((getattr(each, "name", each) for each in found), incomplete)

    return complete


templates = _names("cli.commands.init", "templates")
chips = _names("schema.chips", "CHIPS_PER_HOST", "NPUS")
readers = _names("schema.table_readers", "READERS")
ep_styles = _names("layout.parallel", "STYLE_NAMES")
presets = _names("layout.grid", "PRESETS")
links = _names("schema.topology", "BUILT_IN")
"""The built-in topologies; a shell completes files where none fits."""
