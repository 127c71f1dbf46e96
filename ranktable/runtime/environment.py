"""Who this process is, from the variables of whatever started it.

The claims of all launchers are weighed; what is left has to be complete and possible.
Nothing is guessed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, MissingVariableError
from ranktable.runtime.launchers import LAUNCHERS
from ranktable.runtime.table import VARIABLE as TABLE_VARIABLE
from ranktable.runtime.values import said
from ranktable.runtime.weighing import FIELDS, Fate, weigh

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.runtime.launchers.launcher import Claim


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
        host: Name of this node, as its launcher has it.
        device_id: The chip of this process on its node.
        local_chip_map: The chips of this node by local rank.
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
    host: str | None = None
    device_id: int | None = None
    local_chip_map: tuple[int, ...] | None = None
    launcher: str | None = None
    rank_table_file: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


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
    for claim, fate in claims:
        if claim.problem is not None and fate is Fate.INVALID:
            raise claim.problem
    _refuse_contradictions(claims)
    won = {claim.field: claim for claim, fate in claims if fate is Fate.WON}
    _refuse_halves(won)
    _refuse_ranges(won)
    _refuse_chips(won)
    sources = {name: won[name].variable for name in FIELDS if name in won}
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
        master_addr=_text(won, "master_addr"),
        master_port=_number(won, "master_port"),
        host=_text(won, "host"),
        device_id=_number(won, "device_id"),
        local_chip_map=_chips(won),
        launcher=won["rank"].launcher if "rank" in won else None,
        rank_table_file=table,
        sources=sources,
    )


def advice(env: Mapping[str, str]) -> str | None:
    """Return how processes get ranks under what is there, None if nothing is known."""
    found = (
        launcher.advice
        for launcher in LAUNCHERS
        if launcher.advice is not None and launcher.is_present(env)
    )
    return next(found, None)


def _number(won: Mapping[str, Claim], name: str) -> int | None:
    value = won[name].value if name in won else None
    return value if isinstance(value, int) else None


def _text(won: Mapping[str, Claim], name: str) -> str | None:
    value = won[name].value if name in won else None
    return value if isinstance(value, str) else None


def _chips(won: Mapping[str, Claim]) -> tuple[int, ...] | None:
    value = won["local_chip_map"].value if "local_chip_map" in won else None
    return value if isinstance(value, tuple) else None


def _said(claim: Claim) -> str:
    return said(claim.variable, claim.text)


def _refuse_contradictions(claims: Iterable[tuple[Claim, Fate]]) -> None:
    """Raise an error that names everything said about the fields in dispute.

    What is shadowed speaks of something else, and is no part of the dispute.
    """
    disputed = {claim.field for claim, fate in claims if fate is Fate.CONTRADICTS}
    if not disputed:
        return
    about = [
        claim
        for claim, fate in claims
        if claim.field in disputed and fate is not Fate.SHADOWED
    ]
    listed = ", ".join(
        f"{_said(claim)} ({claim.field} {claim.value} by {claim.launcher})"
        for claim in about
    )
    raise ConflictingVariablesError(
        "RT303",
        f"the variables contradict each other: {listed}; unset the one that is left "
        "over (ranktable env --explain shows all)",
        {claim.variable: claim.text for claim in about},
    )


def _refuse_halves(won: Mapping[str, Claim]) -> None:
    for present, absent in (("rank", "world_size"), ("world_size", "rank")):
        claim = won.get(present)
        if claim is None or absent in won:
            continue
        launcher = next(  # a name may have several entries
            launcher
            for launcher in LAUNCHERS
            if launcher.name == claim.launcher and present in launcher.fields
        )
        if absent in launcher.may_lack:
            continue
        lacking = launcher.fields.get(absent, absent)
        raise MissingVariableError(
            "RT301",
            f"{_said(claim)} gives the {present}, but {lacking} is not set; set "
            "or unset both",
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


def _refuse_chips(won: Mapping[str, Claim]) -> None:
    """Raise unless the chip of this process is the one that its node's list gives."""
    chips, local_rank = _chips(won), _number(won, "local_rank")
    device_id = _number(won, "device_id")
    if chips is None or local_rank is None:
        return
    if local_rank < len(chips) and device_id in (None, chips[local_rank]):
        return
    names = [
        "local_chip_map",
        "local_rank",
        *(["device_id"] if "device_id" in won else []),
    ]
    listed = ", ".join(_said(won[name]) for name in names)
    raise ConflictingVariablesError(
        "RT303",
        f"the variables contradict each other: {listed}; the chip of a process is at "
        "its local rank in the list",
        {won[name].variable: won[name].text for name in names},
    )
