"""What the claims that won must be together: complete and possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, MissingVariableError
from ranktable.runtime.launchers import LAUNCHERS
from ranktable.runtime.values import said
from ranktable.runtime.weighing import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.runtime.launchers.launcher import Claim

_BELOW = (
    ("rank", "world_size"),
    ("local_rank", "local_world_size"),
    ("node_rank", "num_nodes"),
)
_AT_MOST = (("local_world_size", "world_size"), ("num_nodes", "world_size"))


def number(won: Mapping[str, Claim], name: str) -> int | None:
    """Return the number of a field, None if it is unknown."""
    value = won[name].value if name in won else None
    return value if isinstance(value, int) else None


def chips_of(won: Mapping[str, Claim]) -> tuple[int, ...] | None:
    """Return the chips of this node by local rank, None if they are unknown."""
    value = won["local_chip_map"].value if "local_chip_map" in won else None
    return value if isinstance(value, tuple) else None


def _said(claim: Claim) -> str:
    return said(claim.variable, claim.text)


def refuse_contradictions(claims: Iterable[tuple[Claim, Fate]]) -> None:
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


def refuse_halves(won: Mapping[str, Claim]) -> None:
    """Raise if there is a rank without the size of the job, or the other way."""
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


def refuse_ranges(won: Mapping[str, Claim]) -> None:
    """Raise unless every index is below its size."""
    pairs = [*((a, b, 1) for a, b in _BELOW), *((a, b, 0) for a, b in _AT_MOST)]
    for small, large, is_index in pairs:
        a, b = number(won, small), number(won, large)
        if a is None or b is None or a + is_index <= b:
            continue
        relation = "is not below" if is_index else "is more than"
        raise ConflictingVariablesError(
            "RT303",
            f"{_said(won[small])} {relation} {_said(won[large])}; unset the one that "
            "is left over",
            {won[name].variable: won[name].text for name in (small, large)},
        )


def refuse_chips(won: Mapping[str, Claim]) -> None:
    """Raise unless the chip of this process is the one that its node's list gives."""
    chips, local_rank = chips_of(won), number(won, "local_rank")
    device_id = number(won, "device_id")
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
