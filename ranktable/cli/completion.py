"""Values that a shell completes, and which commands it needs for that.

Each function takes what was typed so far. The lists are imported by the functions,
because only a shell that completes needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VARIABLE: Final = "_RANKTABLE_COMPLETE"
"""Set by a shell that asks what may follow."""

_TYPED: Final = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
"""Where the shells put the command line: zsh, fish and PowerShell; bash."""


def completed_command(env: Mapping[str, str]) -> str | None:
    """Return the command whose arguments a shell completes, None for its name."""
    typed = next((env[name] for name in _TYPED if name in env), "")
    _, *words = typed.split() or [""]
    is_whole = typed[-1:].isspace() or len(words) > 1
    return words[0] if words and is_whole else None


def _beginning(values: Iterable[str], incomplete: str) -> list[str]:
    return [value for value in values if value.startswith(incomplete)]


def _last_of_list(values: Iterable[str], incomplete: str) -> list[str]:
    """Complete the last of values that commas separate."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{value}" for value in _beginning(values, last)]


def formats(incomplete: str) -> list[str]:
    """Return the formats that ``convert`` reads."""
    from ranktable.schema.formats import names  # noqa: PLC0415

    return _with_launchers(names(), incomplete)


def written_formats(incomplete: str) -> list[str]:
    """Return the formats that ``convert`` writes from a table of another one."""
    from ranktable.cluster.conversion import WRITTEN  # noqa: PLC0415

    return _with_launchers(WRITTEN, incomplete)


def _with_launchers(tables: Iterable[str], incomplete: str) -> list[str]:
    from ranktable.cluster.hostfiles.launcher_formats import (  # noqa: PLC0415
        DEFAULT_TABLE,
        LAUNCHER_FORMATS,
    )

    launchers = (each.name for each in LAUNCHER_FORMATS)
    return _beginning((DEFAULT_TABLE, *tables, *launchers), incomplete)


def judged_formats(incomplete: str) -> list[str]:
    """Return the formats that ``validate`` judges."""
    return [*formats(incomplete), *_beginning(["cluster-spec"], incomplete)]


def schemas(incomplete: str) -> list[str]:
    """Return formats that have a JSON Schema."""
    from ranktable.schema.formats import names  # noqa: PLC0415

    return _beginning((*names(), "cluster-spec"), incomplete)


def codes(incomplete: str) -> list[str]:
    """Return codes, the names of rules, and the codes of vendors."""
    from ranktable.report.catalogue import RULES  # noqa: PLC0415
    from ranktable.schema.vendor_codes import MEANINGS  # noqa: PLC0415

    if not incomplete:
        return [rule.code for rule in RULES]
    names = (name for rule in RULES for name in (rule.code, rule.name))
    return [
        # A code is taken in small letters too; a shell adds to what was typed.
        incomplete + value[len(incomplete) :]
        for value in (*names, *MEANINGS)
        if value.casefold().startswith(incomplete.casefold())
    ]


def listed_codes(incomplete: str) -> list[str]:
    """Return lists of codes with one more."""
    from ranktable.report.catalogue import RULES  # noqa: PLC0415

    return _last_of_list((rule.code for rule in RULES), incomplete)


def templates(incomplete: str) -> list[str]:
    """Return the templates."""
    from ranktable.cli.commands.init import TEMPLATES  # noqa: PLC0415

    return _beginning((each.name for each in TEMPLATES), incomplete)


def chips(incomplete: str) -> list[str]:
    """Return the chips that are known by name."""
    from ranktable.schema.check import CHIPS_PER_HOST, NPUS  # noqa: PLC0415

    return _beginning((*CHIPS_PER_HOST, *NPUS), incomplete)


def readers(incomplete: str) -> list[str]:
    """Return the programs that read rank tables."""
    from ranktable.schema.table_readers import ALIASES, READERS  # noqa: PLC0415

    return _beginning((*ALIASES, *(each.name for each in READERS)), incomplete)


def links(incomplete: str) -> list[str]:
    """Return the built-in topologies; a shell completes files where none fits."""
    from ranktable.schema.topology import BUILT_IN  # noqa: PLC0415

    return _beginning((each.name for each in BUILT_IN), incomplete)


def collectives(incomplete: str) -> list[str]:
    """Return the collectives."""
    from ranktable.dist.plan import OPERATIONS  # noqa: PLC0415

    return _beginning(OPERATIONS, incomplete)


def backends(incomplete: str) -> list[str]:
    """Return the backends."""
    from ranktable.runtime.backends.backend import TABLES  # noqa: PLC0415

    return _beginning(TABLES, incomplete)


def reductions(incomplete: str) -> list[str]:
    """Return the reductions."""
    from ranktable.dist.wire import REDUCTIONS  # noqa: PLC0415

    return _beginning(REDUCTIONS, incomplete)


def dtypes(incomplete: str) -> list[str]:
    """Return the types of tensors."""
    from ranktable.dist.wire import SIZES  # noqa: PLC0415

    return _beginning(SIZES, incomplete)
