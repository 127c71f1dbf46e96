"""What the environment says: the claims of all launchers, and which of them count.

Every launcher states claims: a field, its value, the variable it came from, and
whether it speaks of the process or of its node. An inner launcher shadows the one that
it runs inside, because that one speaks of the agent: srun starts one torchrun a node,
torchrun starts the workers. Everything else must agree.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ranktable.runtime.errors import InvalidVariableError
from ranktable.runtime.launchers import LAUNCHERS
from ranktable.runtime.launchers.launcher import Claim, Launcher, Level, Tier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.runtime.values import Value


class Fate(str, Enum):
    """What became of a claim."""

    WON = "won"
    AGREES = "agrees"
    SHADOWED = "shadowed"
    CONTRADICTS = "contradicts"
    INVALID = "invalid"


FIELDS = (
    *("rank", "world_size", "local_rank", "local_world_size"),
    *("node_rank", "num_nodes", "master_addr", "master_port"),
    *("host", "device_id", "local_chip_map"),
)
# Where processes meet is agreed upon between them: an outer launcher may name another
# place than an inner one, and both are right.
_MEETING = ("master_addr", "master_port")
# A host has several names, and every launcher on it is right.
_NAMES = ("host",)
_MAY_DIFFER = (*_MEETING, *_NAMES)


def weigh(env: Mapping[str, str]) -> list[tuple[Claim, Fate]]:
    """Return every claim of the environment with its fate, by field."""
    stated = [
        (launcher, list(launcher.claims(env)))
        for launcher in LAUNCHERS
        if launcher.is_present(env)
    ]
    shadowed = _shadowed(stated)
    weighed: list[tuple[Claim, Fate]] = []
    for name in FIELDS:
        about = [
            (launcher, claim)
            for launcher, claims in stated
            for claim in claims
            if claim.field == name
        ]
        weighed += _weigh_field(name, about, shadowed)
    weighed += [
        (claim, Fate.SHADOWED if launcher.name in shadowed else Fate.INVALID)
        for launcher, claims in stated
        for claim in claims
        if claim.field not in FIELDS
    ]
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
    innermost_meets = any(
        claim.field == "master_addr"
        for launcher, claims in stated
        if launcher is innermost
        for claim in claims
    )
    outer = [
        (launcher, values)
        for launcher, values in knowing
        if launcher.tier > innermost.tier and not _agree(values, inner)
    ]
    # What srun --mpi=pmi2 set for the agent is MPICH's too, and stays under mpirun.
    left_over = [
        (launcher, values)
        for launcher, values in knowing
        if launcher.tier is innermost.tier
        and not _agree(values, inner)
        and any(_agree(values, others) for _, others in outer)
    ]
    broken = {
        launcher.name
        for launcher, claims in stated
        if launcher.tier > innermost.tier
        and any(claim.problem is not None for claim in claims)
        and _is_no_harm(launcher, claims, inner, meets=innermost_meets)
    }
    return {launcher.name for launcher, _ in (*outer, *left_over)} | broken


def _is_no_harm(
    launcher: Launcher,
    claims: Iterable[Claim],
    inner: Mapping[str, Value],
    *,
    meets: bool,
) -> bool:
    """Whether it does not matter that an outer launcher has said what it cannot mean.

    A malformed value matters where what is said besides agrees with the inner launcher,
    as both speak of one process then. Variables that do not fit each other are left
    over. Of a platform the place to meet is needed where the inner one gives none.
    """
    if launcher.level is Level.NODE:
        return meets
    problems = [claim.problem for claim in claims if claim.problem is not None]
    is_malformed = any(isinstance(item, InvalidVariableError) for item in problems)
    return not is_malformed or not _agree(_values(claims), inner)


def _agree(some: Mapping[str, Value], others: Mapping[str, Value]) -> bool:
    return all(some[name] == others[name] for name in some.keys() & others.keys())


def _values(claims: Iterable[Claim]) -> dict[str, Value]:
    """Return what claims say of a process; where it meets others is no part of it."""
    return {
        claim.field: claim.value
        for claim in claims
        if claim.value is not None and claim.field not in _MAY_DIFFER
    }


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
        if launcher.name in shadowed and name not in _NAMES:
            fate = Fate.SHADOWED
        elif claim.problem is not None:
            fate = Fate.INVALID
        elif winner is None:
            winner, fate = claim, Fate.WON
        elif claim.value == winner.value:
            fate = Fate.AGREES
        elif claim.level is not winner.level or name in _MAY_DIFFER:
            fate = Fate.SHADOWED  # what an agent or a pod was told, not the process
        else:
            fate = Fate.CONTRADICTS
        weighed.append((claim, fate))
    return weighed
