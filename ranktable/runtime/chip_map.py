"""``CHIP_MAP``, SOPHGO's variable: the chip of each local rank of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, InvalidVariableError
from ranktable.runtime.values import is_plain, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE = "CHIP_MAP"
_MAX_DIGITS = 6


def read_chip_map(env: Mapping[str, str]) -> list[int] | None:
    """Return ``CHIP_MAP``, None if it is unset or empty.

    Raises:
        InvalidVariableError: It is not a list of distinct numbers: ``0,2,6,7``.
    """
    value = env.get(VARIABLE, "")
    if not value:
        return None
    parts = [
        part.strip(" ") for part in value.split(",")
    ]  # torch_tpu accepts blanks too
    are_plain = all(is_plain(part) and len(part) <= _MAX_DIGITS for part in parts)
    if not are_plain or len(set(parts)) < len(parts):
        raise InvalidVariableError(
            "RT302",
            f"{VARIABLE} is {quoted(value)}, not a list of distinct chips such as "
            "0,2,6,7; correct or unset it",
            {VARIABLE: value},
        )
    return list(map(int, parts))


def refuse_contradiction(
    chips: Sequence[int] | None, *local_chip_maps: Sequence[int]
) -> None:
    """Raise unless ``CHIP_MAP`` is unset or equals the chips of this node in the table.

    Args:
        chips: The value of ``CHIP_MAP``, None if it is unset.
        local_chip_maps: The chips of this node by local rank; or those of every node,
            if it is not known which node this is.

    Raises:
        ConflictingVariablesError: It names other chips, or in another order.
    """
    if chips is None or list(chips) in map(list, local_chip_maps):
        return
    found = ",".join(map(str, chips))
    wanted = ",".join(map(str, local_chip_maps[0]))
    if len(local_chip_maps) > 1:
        wanted += " (node 0)"
    raise ConflictingVariablesError(
        "RT305",
        f"{VARIABLE} is {quoted(found)}, but the rank table gives this node the chips "
        f"{wanted}; unset {VARIABLE}",
        {VARIABLE: found},
    )
