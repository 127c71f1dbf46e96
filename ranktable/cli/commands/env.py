"""``ranktable env``: the rank and job of this process."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    style_of,
    write,
    write_json,
)
from ranktable.cli.parameters import ColorOption, OutputFormatOption
from ranktable.cli.table_input import sound_table
from ranktable.cluster.discovery.machine import Machine
from ranktable.preflight.facts import Declared, Facts
from ranktable.preflight.here import compare_host
from ranktable.preflight.rules import NO_CHIP, VISIBLE
from ranktable.report.finding_lines import help_line
from ranktable.report.terminal import table_lines
from ranktable.runtime.agreement import refuse_other_table, with_world_size
from ranktable.runtime.environment import advice, resolve_environment
from ranktable.runtime.environment_notes import notes, unused
from ranktable.runtime.errors import ConflictingVariablesError, LaunchEnvironmentError
from ranktable.runtime.process_chip import ProcessChip, idle_beside
from ranktable.runtime.resolution import Outcome, one_chip_by, resolve_claims
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.report.terminal import Style
    from ranktable.runtime.environment import Environment
    from ranktable.runtime.launchers.launcher import VariableClaim


def env(
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show every variable that was read, and whether it was used.",
        ),
    ] = False,
    format: OutputFormatOption = "text",
    color: ColorOption = Color.AUTO,
) -> None:
    """Show rank, size, master address and chip, and what gave each.

    Exit status: 0 resolved, 1 the variables contradict each other or the table, leave
    this process no chip, or the table is not sound, 2 it cannot be read. A list that
    hides all chips, such as -1, is 0 on a host that shows none.

    Example: ranktable env --explain
    """
    claims: list[tuple[VariableClaim, Outcome]] = []
    found: Environment | None = None
    problem: LaunchEnvironmentError | None = None
    unsound: CommandError | None = None
    try:
        claims = resolve_claims(os.environ)
        found = resolve_environment(os.environ)
        found = _with_table(found)
    except LaunchEnvironmentError as error:
        problem = error
        claims = _disputed(claims, error)
    except CommandError as error:  # about the table
        unsound = error
    is_of_table = found is not None and found.sources.get("device_id") == "rank table"
    chip, code = _chip(found if is_of_table else None)
    note = "" if found is None else idle_beside(os.environ, found, chip)
    if format == "json":
        data = _data(found, claims, problem, unsound) | _chip_data(chip, note)
        lines = None if found is None else _lacking(found)
        write_json(data | {"advice": lines, "not_used": [*_not_used(claims)]})
    else:
        style = style_of(color)
        write(_text(found, claims if explain else [], problem, style))
        if explain:
            write(_unused(claims))
        write(_chip_text(chip, code, note, style))
    if unsound is not None:
        raise unsound
    has_chip = not chip.wrong or chip.is_doubtful
    raise typer.Exit(0 if problem is None and has_chip else DEFECTS_FOUND)


_TOOLS_S = 3.0
"""For the vendor's tool that lists chips."""


def _chip(found: Environment | None) -> tuple[ProcessChip, str]:
    """Return the chip of this process, and the code of what is wrong with it.

    Args:
        found: The process, if its table gives it a chip.
    """
    facts = Facts(machine=Machine(timeout_s=_TOOLS_S), env=os.environ, is_live=True)
    if found is None or found.rank is None:
        return facts.chip_in_table(None), NO_CHIP.code
    table = sound_table(None).table
    node = table.node_rank_of(found.rank)
    declared = Declared(report=None, table=table, node_rank=node, named=())
    chip = facts.chip_in_table(found.device_id)
    differing = compare_host([VISIBLE], facts, declared)[0]
    if chip.wrong or not differing:
        return chip, NO_CHIP.code
    message, hint = differing[0].message, differing[0].hint or ""
    return structs.replace(chip, wrong=message, hint=hint), VISIBLE.code


def _chip_data(chip: ProcessChip, note: str) -> dict[str, object]:
    return {
        "chip": {
            "number": chip.device_id,
            "identity": chip.identity or None,
            "visible": chip.num_visible,
            "unknown": chip.unknown or None,
            "wrong": chip.wrong or None,
            "help": chip.hint or None,
            "note": note or None,
        }
    }


def _chip_text(chip: ProcessChip, code: str, note: str, style: Style) -> Iterator[str]:
    """Yield the chip, where there are chips or a list of them, and what is wrong."""
    if chip.num_visible is not None and not chip.is_none:
        number = "unknown" if chip.device_id is None else str(chip.device_id)
        more = chip.identity or chip.unknown
        yield f"{'chip':<16} {printable(f'{number}  ({more})' if more else number)}\n"
    elif chip.is_none and not chip.wrong:
        yield f"{'chip':<16} none  ({printable(chip.unknown)})\n"
    if chip.wrong:
        kind = "note" if chip.is_doubtful else "error"
        yield f"{style.mark(f'{kind}[{code}]', kind)}: {printable(chip.wrong)}\n"
        yield help_line(chip.hint, style)
    elif note:
        yield f"{style.mark('note', 'note')}: {printable(note)}\n"


def _with_table(found: Environment) -> Environment:
    """Return the environment with the chip that the rank table, if any, gives the rank.

    Raises:
        CommandError: The table is not sound.
        ConflictingVariablesError: The table contradicts the variables.
    """
    if found.rank_table_file is None:
        return found
    table = sound_table(None).table  # $RANK_TABLE_FILE: "-" is a file name there
    sized = with_world_size(found, table)
    refuse_other_table(sized, table, own_chip=one_chip_by(os.environ))
    if found.rank is None or found.device_id is not None:
        return found
    sources = {**found.sources, "device_id": "rank table"}
    chip = table.device_of(found.rank).device_id
    return replace(found, device_id=chip, sources=sources)


def _disputed(
    claims: list[tuple[VariableClaim, Outcome]], problem: LaunchEnvironmentError
) -> list[tuple[VariableClaim, Outcome]]:
    """Return the claims with their outcome in the context of all variables.

    A claim may be used for its field and still contradict another field, or the table.
    """
    is_known = any(outcome is Outcome.CONTRADICTS for _, outcome in claims)
    if is_known or not isinstance(problem, ConflictingVariablesError):
        return claims
    believed = (Outcome.WON, Outcome.AGREES)
    return [
        (claim, Outcome.CONTRADICTS)
        if claim.variable in problem.variables and outcome in believed
        else (claim, outcome)
        for claim, outcome in claims
    ]


def _data(
    found: Environment | None,
    claims: list[tuple[VariableClaim, Outcome]],
    problem: LaunchEnvironmentError | None,
    unsound: CommandError | None,
) -> dict[str, object]:
    return {
        "ok": problem is None and unsound is None,
        "environment": None if found is None else asdict(found),
        "notes": [] if found is None else notes(found, os.environ),
        "claims": [
            {
                "field": claim.field,
                "value": claim.value,
                "variable": claim.variable,
                "text": claim.text,
                "launcher": claim.launcher,
                "level": claim.level.value,
                "outcome": outcome.value,
            }
            for claim, outcome in claims
        ],
        "problem": None
        if problem is None
        else {
            "code": problem.code,
            "message": problem.message,
            "variables": problem.variables,
        },
        "table": None if unsound is None else str(unsound),
    }


def _text(
    found: Environment | None,
    claims: list[tuple[VariableClaim, Outcome]],
    problem: LaunchEnvironmentError | None,
    style: Style,
) -> Iterator[str]:
    if found is not None:
        for name, value in asdict(found).items():
            if name == "sources":
                continue
            shown = "unknown" if value is None else printable(_shown(value))
            source = found.sources.get(name)
            yield f"{name:<16} {shown}{f'  ({source})' if source else ''}\n"
        if (line := _lacking(found)) is not None:
            yield f"{line}\n"
        for note in notes(found, os.environ):
            yield f"{printable(note)}\n"
    if claims:
        yield "\n" if found is not None else ""
        yield from _table(claims, style)
    if problem is not None:
        code = style.mark(problem.code, "error")
        yield f"error[{code}] {printable(problem.message)}\n"


def _lacking(found: Environment) -> str | None:
    """Return how the process gets a rank or a size, None if it has both."""
    is_enough = found.world_size or found.rank_table_file
    if found.rank is not None and is_enough:
        return None
    lacking = "rank" if found.rank is None else "size"
    how = advice(os.environ)
    return None if how is None else f"no {lacking} is given here: {how}"


def _not_used(claims: list[tuple[VariableClaim, Outcome]]) -> Iterator[str]:
    """Return why variables of launchers are not used."""
    return unused(os.environ, {claim.variable for claim, _ in claims})


def _unused(claims: list[tuple[VariableClaim, Outcome]]) -> Iterator[str]:
    """Yield the lines about variables that are not used."""
    lines = [*_not_used(claims)]
    if not (claims or lines or advice(os.environ)):
        lines = ["no launcher has set a variable here"]
    yield from (f"{printable(line)}\n" for line in lines)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "-" if value is None else str(value)


def _table(claims: list[tuple[VariableClaim, Outcome]], style: Style) -> Iterator[str]:
    rows = [("field", "value", "variable", "launcher", "level", "outcome")]
    rows += [
        (
            claim.field or "-",
            printable(_shown(claim.value)),
            claim.variable,
            claim.launcher,
            claim.level.value,
            outcome.value,
        )
        for claim, outcome in claims
    ]
    wrong = [at for at, row in enumerate(rows) if row[-1] in ("contradicts", "invalid")]
    yield from table_lines(rows, style, wrong=wrong)
