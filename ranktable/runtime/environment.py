"""Who this process is, from the variables of whatever started it.

Every launcher states claims: a field, its value, the variable it came from, and
whether it speaks of the process or of its node. An inner launcher shadows the one that
it runs inside, because that one speaks of the agent: srun starts one torchrun a node,
torchrun starts the workers. Everything else must agree, and nothing is guessed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, MissingVariableError
from ranktable.runtime.launchers import LAUNCHERS
from ranktable.runtime.launchers.launcher import Claim, Launcher, Level, Tier
from ranktable.runtime.table import VARIABLE as TABLE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A process and its job; every field is None when it is unknown.

    Attributes:
        rank: Global rank, 0 to world_size - 1.
        world_size: Number of processes of the job.
        local_rank: Index of the process on its node.
        local_world_size: Number of processes on the node.
        node_rank: Index of the node in the job.
        num_nodes: Number of nodes.
        master_addr: Host of the process that the others meet at.
        master_port: Its port.
        launcher: Who set the variables.
        rank_table_file: Path of the rank table.
        sources: The variable that gave each field.
    """

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    node_rank: int | None = None
    num_nodes: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    launcher: str | None = None
    rank_table_file: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


class Fate(str, Enum):
    """What became of a claim."""

    WON = "won"
    AGREES = "agrees"
    SHADOWED = "shadowed"
    CONTRADICTS = "contradicts"


_FIELDS = (
    *("rank", "world_size", "local_rank", "local_world_size"),
    *("node_rank", "num_nodes", "master_addr", "master_port"),
)
# Where processes meet is agreed upon between them: an outer launcher may name another
# place than an inner one, and both are right.
_MEETING = ("master_addr", "master_port")
_BELOW = (
    ("rank", "world_size"),
    ("local_rank", "local_world_size"),
    ("node_rank", "num_nodes"),
)
_AT_MOST = (("local_world_size", "world_size"), ("num_nodes", "world_size"))


def resolve_environment(env: Mapping[str, str] | None = None) -> Environment:
    """Return what the environment says of this process; what it does not say is None.

    Args:
        env: The environment; by default ``os.environ``. An empty variable counts as
            unset.

    Raises:
        InvalidVariableError: A value is no plain decimal number within its range.
        MissingVariableError: A rank without the size of the job, or the other way.
        ConflictingVariablesError: Two variables cannot both be true.
    """
    env = os.environ if env is None else env
    claims = weigh(env)
    conflicts = [claim for claim, fate in claims if fate is Fate.CONTRADICTS]
    if conflicts:
        raise _conflict(conflicts[0], [claim for claim, _ in claims])
    won = {claim.field: claim for claim, fate in claims if fate is Fate.WON}
    _refuse_halves(won)
    _refuse_ranges(won)
    sources = {name: won[name].variable for name in _FIELDS if name in won}
    table = env.get(TABLE_VARIABLE) or None
    if table is not None:
        sources["rank_table_file"] = TABLE_VARIABLE
    return Environment(
        rank=_number(won, "rank"),
        world_size=_number(won, "world_size"),
        local_rank=_number(won, "local_rank"),
        local_world_size=_number(won, "local_world_size"),
        node_rank=_number(won, "node_rank"),
        num_nodes=_number(won, "num_nodes"),
        master_addr=str(won["master_addr"].value) if "master_addr" in won else None,
        master_port=_number(won, "master_port"),
        launcher=won["rank"].launcher if "rank" in won else None,
        rank_table_file=table,
        sources=sources,
    )


def weigh(env: Mapping[str, str]) -> list[tuple[Claim, Fate]]:
    """Return every claim of the environment with its fate, by field.

    Raises:
        InvalidVariableError: A value is no plain decimal number within its range.
    """
    stated = [
        (launcher, list(launcher.claims(env)))
        for launcher in LAUNCHERS
        if launcher.is_present(env)
    ]
    shadowed = _shadowed(stated)
    weighed: list[tuple[Claim, Fate]] = []
    for name in _FIELDS:
        about = [
            (launcher, claim)
            for launcher, claims in stated
            for claim in claims
            if claim.field == name
        ]
        weighed += _weigh_field(name, about, shadowed)
    return weighed


def _shadowed(stated: Iterable[tuple[Launcher, list[Claim]]]) -> set[str]:
    """Return the names of the launchers that an inner one shadows.

    The innermost launcher that knows the process shadows those further out, unless
    they say the same of it: then they speak of the same process and may add to what
    is known. Rank and size alone do not tell: an agent can have those of a worker.
    """
    knowing = [
        (launcher, values)
        for launcher, claims in stated
        if launcher.level is Level.PROCESS and launcher.tier is not Tier.BESIDE
        for values in [_values(claims)]
        if "rank" in values and "world_size" in values
    ]
    if not knowing:
        return set()
    innermost, inner = min(knowing, key=lambda item: item[0].tier)
    return {
        launcher.name
        for launcher, values in knowing
        if launcher.tier > innermost.tier
        and any(values[name] != inner[name] for name in values.keys() & inner.keys())
    }


def _values(claims: Iterable[Claim]) -> dict[str, int | str]:
    """Return what claims say of a process; where it meets others is no part of it."""
    return {claim.field: claim.value for claim in claims if claim.field not in _MEETING}


def _weigh_field(
    name: str, about: list[tuple[Launcher, Claim]], shadowed: set[str]
) -> list[tuple[Claim, Fate]]:
    """Return the claims about one field with their fates."""
    weighed = []
    winner: Claim | None = None
    ordered = sorted(about, key=lambda item: item[0].level is Level.NODE)
    if name in _MEETING:
        # Who exports an address means it; a scheduler's is made from its node list.
        ordered.sort(key=lambda item: item[0].tier is not Tier.BESIDE)
    for launcher, claim in ordered:
        if launcher.name in shadowed:
            fate = Fate.SHADOWED
        elif winner is None:
            winner, fate = claim, Fate.WON
        elif claim.value == winner.value:
            fate = Fate.AGREES
        elif claim.level is not winner.level or name in _MEETING:
            fate = Fate.SHADOWED  # what an agent or a pod was told, not the process
        else:
            fate = Fate.CONTRADICTS
        weighed.append((claim, fate))
    return weighed


def _number(won: Mapping[str, Claim], name: str) -> int | None:
    value = won[name].value if name in won else None
    assert not isinstance(value, str)  # noqa: S101 - only addresses are texts
    return value


def _said(claim: Claim) -> str:
    return f"{claim.variable}={claim.text}"


def _conflict(claim: Claim, claims: Iterable[Claim]) -> ConflictingVariablesError:
    """Return the error that names everything said about a field."""
    about = [other for other in claims if other.field == claim.field]
    listed = ", ".join(
        f"{_said(other)} ({other.field} {other.value} by {other.launcher})"
        for other in about
    )
    return ConflictingVariablesError(
        "RT303",
        f"the variables contradict each other: {listed}; unset the one that is left "
        "over (ranktable env --explain shows all)",
        {other.variable: other.text for other in about},
    )


def _refuse_halves(won: Mapping[str, Claim]) -> None:
    by_name = {launcher.name: launcher for launcher in LAUNCHERS}
    for present, absent in (("rank", "world_size"), ("world_size", "rank")):
        claim = won.get(present)
        if claim is None or absent in won:
            continue
        launcher = by_name[claim.launcher]
        if absent in launcher.may_lack:
            continue
        lacking = launcher.fields.get(absent, absent)
        raise MissingVariableError(
            "RT301",
            f"{_said(claim)} gives the {present}, but {lacking} is not set; a launcher "
            "sets both",
            {claim.variable: claim.text, lacking: None},
        )


def _refuse_ranges(won: Mapping[str, Claim]) -> None:
    pairs = [*((a, b, 1) for a, b in _BELOW), *((a, b, 0) for a, b in _AT_MOST)]
    for small, large, is_index in pairs:
        a, b = _number(won, small), _number(won, large)
        if a is None or b is None or a + is_index <= b:
            continue
        relation = "is not below" if is_index else "is more than"
        raise ConflictingVariablesError(
            "RT303",
            f"{_said(won[small])} {relation} {_said(won[large])}; unset the one that "
            "is left over",
            {won[name].variable: won[name].text for name in (small, large)},
        )
