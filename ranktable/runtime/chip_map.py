"""``CHIP_MAP``, SOPHGO's variable: the chip of each local rank of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.errors import ConflictingVariablesError, InvalidVariableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE = "CHIP_MAP"
_MAX_DIGITS = 6


def read_chip_map(env: Mapping[str, str]) -> list[int] | None:
    """Return ``CHIP_MAP``, None when it is unset or empty.

    Raises:
        InvalidVariableError: It is no list of distinct numbers: ``0,2,6,7``.
    """
    value = env.get(VARIABLE, "")
    if not value.strip():
        return None
    parts = [part.strip() for part in value.split(",")]
    is_plain = all(
        part.isascii() and part.isdigit() and len(part) <= _MAX_DIGITS for part in parts
    )
    if not is_plain or len(set(parts)) < len(parts):
        raise InvalidVariableError(
            "RT302",
            f"{VARIABLE} is {value!r}, not a list of distinct chips such as 0,2,6,7",
            {VARIABLE: value},
        )
    return list(map(int, parts))


def refuse_contradiction(
    env: Mapping[str, str], *local_chip_maps: Sequence[int]
) -> None:
    """Raise unless ``CHIP_MAP`` is unset or what the table says of this node.

    Args:
        env: The environment.
        local_chip_maps: The chips of this node by local rank; or, when it is not known
            which node this is, those of every node.

    Raises:
        ConflictingVariablesError: It names other chips, or in another order.
        InvalidVariableError: It is no list of chips.
    """
    found = read_chip_map(env)
    if found is None or found in map(list, local_chip_maps):
        return
    wanted = ",".join(map(str, local_chip_maps[0]))
    if len(local_chip_maps) > 1:
        wanted += " (node 0)"
    raise ConflictingVariablesError(
        "RT305",
        f"{VARIABLE} is {env[VARIABLE]!r}, but the rank table gives this node the "
        f"chips {wanted}; unset {VARIABLE}",
        {VARIABLE: env[VARIABLE]},
    )
