"""What is submitted, wrong and right, and what is found in it.

``submissions/`` has a file for each subject, written as a difference: a case begins
with ``@@ codes @@ name``, lines with ``-`` stand in the wrong text only, and lines with
``+`` in the right one.

A file of TOML has texts, and what is found in them if one of the values stands in the
place of ``VALUE``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ranktable._toml import loads
from ranktable.cluster.submissions.read_submissions import read_submissions

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

FOLDER = Path(__file__).parent / "submissions"
HEAD = 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
C10D = "--rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint $head:29500"
TWO = "-N2 --ntasks-per-node=1 --exclusive"
EIGHT = f"{TWO} --gpus-per-node=8"


class Case(NamedTuple):
    """Codes and severities of what is found in a text, and its right neighbour."""

    codes: list[tuple[str, str]]
    wrong: str
    right: str


def read_cases(folder: str) -> dict[str, Case]:
    """Return the cases of a folder, by name."""
    cases: dict[str, Case] = {}
    for path in sorted((FOLDER / folder).glob("*.diff")):
        for block in path.read_text().split("\n@@ ")[1:]:
            head, *lines = block.rstrip("\n").split("\n")
            codes, name = head.split(" @@ ")
            wrong, right = (
                "".join(f"{line[1:]}\n" for line in lines if line[:1] != other)
                for other in "+-"
            )
            words = [each.partition(" ") for each in codes.split(", ")]
            found = [(code, severity) for code, _, severity in words]
            assert name not in cases, name
            cases[name] = Case(found, wrong, right)
    return cases


def read_lines(name: str) -> list[ParameterSet]:
    """Give texts with each value that may stand in them, and what is found then."""
    tables: dict[str, dict[str, list[str | list[str]]]]
    tables = loads((FOLDER / f"{name}.toml").read_text())
    return [
        pytest.param(
            str(text).replace("VALUE", value), found, id=f"{about} {at}: {value}"
        )
        for about, table in tables.items()
        for at, text in enumerate(table.pop("texts"))
        for found, values in table.items()
        for value in (
            "\n".join([each] if isinstance(each, str) else each) for each in values
        )
    ]


def plain(name: str) -> str:
    """Return a sound manifest."""
    return (FOLDER / "plain" / f"{name}.yaml").read_text()


def running(command: str) -> str:
    """Return a PyTorchJob that runs a command."""
    return plain("pytorchjob").replace("[torchrun, t.py]", command)


def script(options: str, *lines: str) -> str:
    """Return a batch script with these options, one a line."""
    directives = [f"#SBATCH {option}" for option in options.split()]
    return "\n".join(("#!/bin/bash", *directives, "", *lines, ""))


def found(text: str) -> list[tuple[str, str]]:
    """Return code and severity of what is found in a file, without notes."""
    report = read_submissions(text.encode(), file="job").report
    assert report is not None
    return sorted(
        (each.code, each.severity.value)
        for each in report.diagnostics
        if each.severity.value != "note"
    )


def notes(text: str) -> list[tuple[int | None, str]]:
    """Return lines and reasons of what is not judged."""
    report = read_submissions(text.encode(), file="job").report
    assert report is not None
    return [
        (each.location.line, each.message)
        for each in report.diagnostics
        if each.code == "RT332"
    ]
