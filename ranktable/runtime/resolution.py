"""Compare the claims of all launchers, and decide which of them are used.

A claim has a field, its value, its variable, and whether it describes the process or
its node. An inner launcher shadows the outer one, because the outer one describes the
agent: srun starts one torchrun on each node, and torchrun starts the processes. All
other claims must agree, and be complete and possible.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.runtime.errors import (
    ConflictingVariablesError,
    MissingVariableError,
)
from ranktable.runtime.launchers.declared import launchers_in
from ranktable.runtime.launchers.launcher import ClaimLevel, VariableClaim
from ranktable.runtime.launchers.nesting import SETS_TOO, nested
from ranktable.runtime.launchers.slurm import isolated_by
from ranktable.runtime.values import said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ranktable.runtime.launchers.launcher import Launcher
    from ranktable.runtime.values import Value


class Outcome(str, Enum):
    """How a claim was used."""

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
_ONE_CHIP = re.compile(r"[0-9]{1,6}|(?:GPU|MIG)-[\w/-]+")
BY_HAND = "environment"
"""Name for variables that scripts and shells export."""

# Kubeflow's and KubeDL's operators set MASTER_ADDR=localhost in the master pod of a
# PyTorchJob. Those that set no PET_* variables look like PAI DLC if the pod also has
# NPROC_PER_NODE. Source: kubedl, pytorchjob_controller.go, PyTorchLocalMasterAddr.
_OF_MASTER_POD = ("torchrun's PET_* variables", "pai dlc")

# The rendezvous addresses of an outer and an inner launcher may differ, and both can be
# right. A host may also have several names.
_RENDEZVOUS = ("master_addr", "master_port")
_MAY_DIFFER = (*_RENDEZVOUS, "host")
_BELOW = (
    ("rank", "world_size"),
    ("local_rank", "local_world_size"),
    ("local_rank", "world_size"),
    ("node_rank", "num_nodes"),
)
_AT_MOST = (("local_world_size", "world_size"), ("num_nodes", "world_size"))


def resolve_claims(env: Mapping[str, str]) -> list[tuple[VariableClaim, Outcome]]:
    """Return every claim of the environment with its outcome, by field."""
    stated = [(item, list(item.claims(env))) for item in launchers_in(env)]
    claims = [claim for _, about in stated for claim in about]
    shadowed = set(_shadowed(stated, env))
    resolved: list[tuple[VariableClaim, Outcome]] = []
    for name in FIELDS:
        about = [claim for claim in claims if claim.field == name]
        index = _device_index(env, about) if name == "local_rank" else None
        if index is None:
            resolved += _resolve_field(name, about, shadowed)
        else:
            rest = [claim for claim in about if claim is not index]
            resolved.append((index, Outcome.WON))
            resolved += _resolve_field(name, rest, {claim.launcher for claim in rest})
    resolved += [
        (claim, Outcome.SHADOWED if claim.launcher in shadowed else Outcome.INVALID)
        for claim in claims
        if claim.field not in FIELDS
    ]
    return resolved


def _device_index(
    env: Mapping[str, str], about: Iterable[VariableClaim]
) -> VariableClaim | None:
    """Return the LOCAL_RANK=0 of a process that sees only a chip of its own.

    Scripts export it, as torchrun does with --virtual-local-rank, because the program
    takes the device of this index. It does not contradict the number that the launcher
    counts the processes of the node by.
    """
    others = {claim.value for claim in about if claim.launcher != BY_HAND}
    given = [c for c in about if c.launcher == BY_HAND and c.variable == "LOCAL_RANK"]
    if not given or given[0].value != 0 or others <= {0}:
        return None
    return given[0] if one_chip_by(env) else None


def one_chip_by(env: Mapping[str, str]) -> str:
    """Return the variable that leaves this process one chip, empty if none does."""
    listed = (
        name
        for name in env
        if name.endswith("_VISIBLE_DEVICES") and _ONE_CHIP.fullmatch(env[name])
    )
    return next(listed, "") or isolated_by(env)


def believed(
    claims: Iterable[tuple[VariableClaim, Outcome]], *, has_address: bool = False
) -> dict[str, VariableClaim]:
    """Return the claim that is used for each field.

    Args:
        claims: Every claim with its outcome.
        has_address: Whether the caller has an address of the rendezvous, so that the
            one in the environment is not used.

    Raises:
        InvalidVariableError: A value is not valid for its variable.
        MissingVariableError: There is a rank without a size, or a size without a rank.
        ConflictingVariablesError: Two variables contradict each other.
    """
    claims = list(claims)
    for claim, outcome in claims:
        if claim.problem is not None and outcome is Outcome.INVALID:
            raise claim.problem
    _refuse_disputes(claims)
    won = {claim.field: claim for claim, outcome in claims if outcome is Outcome.WON}
    _refuse_halves(won)
    _refuse_ranges(won)
    _refuse_chips(won)
    if not has_address:
        _refuse_loopback(won, [claim for claim, _ in claims])
    return won


def number(won: Mapping[str, VariableClaim], name: str) -> int | None:
    """Return the number in a field, None if it is not known."""
    value = won[name].value if name in won else None
    return value if isinstance(value, int) else None


def chips_of(won: Mapping[str, VariableClaim]) -> tuple[int, ...] | None:
    """Return the chips of this node by local rank, None if they are not known."""
    value = won["local_chip_map"].value if "local_chip_map" in won else None
    return value if isinstance(value, tuple) else None


def _shadowed(
    stated: list[tuple[Launcher, list[VariableClaim]]], env: Mapping[str, str]
) -> Iterator[str]:
    """Yield the names of launchers that describe an agent or node of this process."""
    if len(stated) <= 1:
        return
    by_name: dict[str, list[VariableClaim]] = {}
    knowing = set()
    for launcher, claims in stated:
        by_name.setdefault(launcher.name, []).extend(claims)
        if launcher.level is ClaimLevel.PROCESS or "node_rank" in _values(claims):
            knowing.add(launcher.name)
    values = {name: _values(about) for name, about in by_name.items()}
    aliases = [
        (alias, owner)
        for owner, names in SETS_TOO.items()
        for alias in names
        if {alias, owner} <= values.keys() and _are_same(values[alias], values[owner])
    ]
    outer_ones = {
        outer
        for inner, outer in nested(values, env)
        if inner in knowing
        and inner not in dict(aliases)
        and _shadows(by_name[inner], by_name[outer])
    }
    yield from outer_ones
    yield from (alias for alias, owner in aliases if owner in outer_ones)


def _shadows(inner: list[VariableClaim], outer: list[VariableClaim]) -> bool:
    """Whether the claims of an outer launcher describe something else.

    They do not if both launchers claim the same about the process: then they describe
    the same one, and may complete each other. Claims about the node are judged
    separately.
    """
    problems = [claim.problem for claim in outer if claim.problem is not None]
    levels = {claim.level for claim in inner}
    if all(claim.level is ClaimLevel.NODE for claim in outer):
        if _has_fewer_processes(_values(inner), _values(outer)):
            return True
        # The address of the rendezvous is needed if the inner launcher gives none.
        has_address = any(claim.field == "master_addr" for claim in inner)
        return levels == {ClaimLevel.NODE} or (bool(problems) and has_address)
    if any(isinstance(problem, ConflictingVariablesError) for problem in problems):
        return True  # variables that contradict each other are left over
    return not _are_same(_values(inner), _values(outer))


def _has_fewer_processes(
    inner: Mapping[str, Value], outer: Mapping[str, Value]
) -> bool:
    """Whether a job has fewer processes than a platform has pods: it is on some.

    A test on one pod of many, such as mpirun -n 1, is no job of all of them.
    """
    size, nodes = inner.get("world_size"), outer.get("num_nodes")
    return isinstance(size, int) and isinstance(nodes, int) and size < nodes


def _are_same(some: Mapping[str, Value], others: Mapping[str, Value]) -> bool:
    """Whether two launchers claim the same about the process.

    A rank alone is not enough: an agent can have the same rank as a worker.
    """
    shared = some.keys() & others.keys()
    return "world_size" in shared and all(some[name] == others[name] for name in shared)


def _values(claims: Iterable[VariableClaim]) -> dict[str, Value]:
    """Return the values of claims about a process, without the rendezvous address."""
    return {
        claim.field: claim.value
        for claim in claims
        if claim.value is not None and claim.field not in _MAY_DIFFER
    }


def _resolve_field(
    name: str, about: list[VariableClaim], shadowed: set[str]
) -> list[tuple[VariableClaim, Outcome]]:
    """Return the claims about one field with their outcomes."""
    resolved = []
    winner: VariableClaim | None = None
    ordered = sorted(about, key=lambda claim: claim.level is ClaimLevel.NODE)
    if name in _RENDEZVOUS:
        # An address that is exported is intended; a scheduler computes one.
        ordered.sort(key=lambda claim: claim.launcher != BY_HAND)
    for claim in ordered:
        if claim.launcher in shadowed and name != "host":
            outcome = Outcome.SHADOWED
        elif claim.problem is not None:
            outcome = Outcome.INVALID
        elif winner is None:
            winner, outcome = claim, Outcome.WON
        elif claim.value == winner.value:
            outcome = Outcome.AGREES
        elif claim.level is not winner.level or name in _MAY_DIFFER:
            outcome = Outcome.SHADOWED  # it describes an agent or a pod
        else:
            outcome = Outcome.CONTRADICTS
        resolved.append((claim, outcome))
    return resolved


def _said(claim: VariableClaim) -> str:
    return said(claim.variable, claim.text)


def _refuse_disputes(claims: Iterable[tuple[VariableClaim, Outcome]]) -> None:
    """Raise an error that lists all claims about the fields that are in dispute.

    A shadowed claim describes something else, and is not part of the dispute.
    """
    disputed = {
        claim.field for claim, outcome in claims if outcome is Outcome.CONTRADICTS
    }
    about = [
        claim
        for claim, outcome in claims
        if claim.field in disputed and outcome is not Outcome.SHADOWED
    ]
    if about:
        listed = (
            f"{_said(claim)} ({claim.field} {claim.value} by {claim.launcher})"
            for claim in about
        )
        raise _conflict(
            about,
            f"the variables contradict each other: {', '.join(listed)}; unset the one "
            "that is left over (ranktable env --explain shows all)",
        )


def _refuse_halves(won: Mapping[str, VariableClaim]) -> None:
    """Raise if there is a rank without a size, or a size without a rank."""
    for present, absent in (("rank", "world_size"), ("world_size", "rank")):
        claim = won.get(present)
        if claim is None or claim.needs is None or absent in won:
            continue
        raise MissingVariableError(
            "RT301",
            f"{_said(claim)} ({claim.launcher}) gives the {present}, but {claim.needs} "
            "is not set; set or unset both",
            {claim.variable: claim.text, claim.needs: None},
        )


def _refuse_ranges(won: Mapping[str, VariableClaim]) -> None:
    """Raise unless every index is below its size, and every part at most the whole."""
    for name, size in _BELOW:
        index, end = number(won, name), number(won, size)
        if index is not None and end is not None and index >= end:
            a, b = won[name], won[size]
            raise _conflict(
                (a, b),
                f"{_said(a)} is not below {_said(b)}; a {name} counts from 0, so the "
                f"last one is {end - 1}: correct {a.variable}, or {b.variable} if it "
                "is left over",
            )
    for name, size in _AT_MOST:
        part, whole = number(won, name), number(won, size)
        if part is not None and whole is not None and part > whole:
            a, b = won[name], won[size]
            raise _conflict(
                (a, b),
                f"{_said(a)} is more than {_said(b)}; unset the one that is left over",
            )
    here, everywhere = number(won, "local_world_size"), number(won, "world_size")
    if number(won, "num_nodes") == 1 and None not in {here, everywhere}:
        about = [won[name] for name in ("num_nodes", "local_world_size", "world_size")]
        if here != everywhere and about[0].level is ClaimLevel.PROCESS:
            raise _conflict(
                about,
                f"{_said(about[0])} means one node, but {_said(about[1])} is not "
                f"{_said(about[2])}; unset the one that is left over",
            )


def _refuse_chips(won: Mapping[str, VariableClaim]) -> None:
    """Raise unless the chip of this process is the one in the list of its node."""
    chips, local_rank = chips_of(won), number(won, "local_rank")
    if chips is None or local_rank is None:
        return
    if local_rank < len(chips) and number(won, "device_id") in {
        None,
        chips[local_rank],
    }:
        return
    names = ("local_chip_map", "local_rank", "device_id")
    about = [won[name] for name in names if name in won]
    raise _conflict(
        about,
        f"the variables contradict each other: {', '.join(map(_said, about))}; a "
        "process uses the chip at the index of its local rank in the list",
    )


def _refuse_loopback(
    won: Mapping[str, VariableClaim], claims: Iterable[VariableClaim]
) -> None:
    """Raise if a loopback address was exported in a job of several nodes.

    For example, ``MASTER_ADDR=localhost`` is left over from an image or a shell. The
    processes of each node would wait for a master of their own until the time-out.
    If a launcher also gives a loopback address, the nodes are on one machine.
    Variables set by hand may describe several nodes on one machine, so only a launcher
    counts here. Operators for PyTorchJobs set ``MASTER_ADDR=localhost`` in the master
    pod, so their number of pods does not count beside ``RANK=0``.
    """
    master = won.get("master_addr")
    others = [claim for claim in claims if not _is_exported(claim)]
    if master is None or not others or not _is_exported(master):
        return
    from ranktable.schema.values import is_loopback  # not loaded without a launcher

    if not is_loopback(master.value) or any(is_loopback(one.value) for one in others):
        return
    is_first_pod = any(item.variable == "RANK" and item.value == 0 for item in claims)
    sizes = {name: number(won, name) or 0 for name in FIELDS[:6]}
    for name, has_several in (
        ("num_nodes", sizes["num_nodes"] > 1),
        ("node_rank", sizes["node_rank"] > 0),
        ("local_world_size", 0 < sizes["local_world_size"] < sizes["world_size"]),
    ):
        if not has_several or won[name] not in others:
            continue
        if not is_first_pod or won[name].launcher not in _OF_MASTER_POD:
            raise _conflict(
                (master, won[name]),
                f"{_said(master)} means a different machine on each node, but "
                f"{_said(won[name])} ({won[name].launcher}) shows that there are "
                "several nodes; unset it, or export the address of the first node",
            )


def _is_exported(claim: VariableClaim) -> bool:
    """Whether a shell, an image or the spec of a pod may have set a variable."""
    is_of_pod = claim.level is ClaimLevel.NODE and claim.variable == "MASTER_ADDR"
    return claim.launcher == BY_HAND or is_of_pod


def _conflict(
    about: Iterable[VariableClaim], message: str
) -> ConflictingVariablesError:
    variables = {claim.variable: claim.text for claim in about}
    return ConflictingVariablesError("RT303", message, variables)
