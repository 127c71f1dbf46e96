"""How a collective would be done, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable.dist.carriers import SIZES
from ranktable.dist.planning import REDUCING, make_plan

if TYPE_CHECKING:
    from ranktable.dist.plan import Plan

_ONLY_MOVED: Final = frozenset(
    {
        *("complex32", "float8_e8m0fnu", "float4_e2m1fn_x2"),
        *("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)),
    }
)
"""Types of torch without arithmetic, whose bytes can be moved."""


def explain(
    operation: str,
    backend: str = "gloo",
    dtype: object = "float32",
    op: str = "sum",
    *,
    even: bool = True,
) -> Plan:
    """Return how a collective is done on a backend; ``print`` shows it.

    Args:
        operation: ``all_reduce``, ``reduce_scatter`` and so on.
        backend: ``gloo``, ``nccl``, ``sccl``, ``sccl:doc`` as its manual has it, and
            the others of ``ranktable.dist.capability``.
        dtype: A type of torch, or its name.
        op: How it reduces, if it does.
        even: Whether all parts are of the same size.

    Raises:
        ValueError: There is no such collective, reduction or type.
        UnsupportedError: There is no exact way, or nothing is known of the backend.

    >>> print(explain("all_reduce", "sccl", "int64"))
    all_reduce of int64 (sum) on sccl: native
      1. encode as int32 (limbs: four limbs of 16 bits add up without loss in int32)
      2. all_reduce of int32 (sum)  sends 2 (N-1)/N n x 2
      3. decode as int64
    """
    name = str(dtype).removeprefix("torch.")
    if name not in SIZES and name not in _ONLY_MOVED:
        raise ValueError(f"there is no type {name!r}; give one of torch, as float32")
    reduction = op if operation in REDUCING else None
    return make_plan(backend, operation, name, reduction, is_even=even)
