"""Environments as launchers set them, and what is found in each.

A case of ``cases/launchers`` begins with what is known and the launcher that says it,
or with the code of the error and the variables that it names. Lines with ``says`` are
texts of the advice to a process without a rank; comments tell versions and sources.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from ranktable.runtime import LaunchEnvironmentError, resolve_environment

FOLDER = Path(__file__).parent / "cases" / "launchers"


class Case(NamedTuple):
    """What is found in an environment, and said to a process without a rank."""

    found: str
    says: list[str]
    env: dict[str, str]


def read_cases(name: str) -> dict[str, Case]:
    """Return the cases of a file, by name."""
    cases: dict[str, Case] = {}
    for block in (FOLDER / f"{name}.txt").read_text()[3:].split("\n\n@@ "):
        head, *lines = block.rstrip("\n").split("\n")
        found, title = head.split(" @@ ")
        says = [line[5:] for line in lines if line.startswith("says ")]
        words = [
            word.replace("\\n", "\n")
            for line in lines
            if not line.startswith(("says ", "#"))
            for word in shlex.split(line)
        ]
        assert title not in cases, title
        env = dict(word.split("=", 1) for word in words)
        cases[title] = Case(found, says, env)
    return cases


def found_in(env: dict[str, str]) -> str:
    """Return what is found in an environment, as the cases write it."""
    try:
        found = resolve_environment(env)
    except LaunchEnvironmentError as error:
        return f"{error.code} {', '.join(sorted(error.variables))}"
    known = {
        field: value
        for field in found.__slots__
        if field not in ("launcher", "sources")
        and (value := getattr(found, field)) is not None
    }
    assert set(found.sources) == set(known)
    assert all(env[variable] for variable in found.sources.values())
    words = (
        f"{field} {','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for field, value in known.items()
    )
    by = f" by {found.launcher}" if found.launcher else ""
    return (", ".join(words) or "nothing") + by
