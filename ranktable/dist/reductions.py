"""How several values become one."""

from __future__ import annotations

from typing import Final, Literal, get_args

from ranktable.dist.errors import UnsupportedError

Reduction = Literal["sum", "mean", "product", "min", "max", "band", "bor", "bxor"]

REDUCTIONS: Final[tuple[Reduction, ...]] = get_args(Reduction)

BITWISE: Final = frozenset({"band", "bor", "bxor"})
ORDERED: Final = frozenset({"min", "max"})


def is_floating(dtype: str) -> bool:
    """Whether a type, named as torch names it, has a fraction."""
    return dtype.startswith(("float", "bfloat", "complex"))


def is_reduction(given: object) -> bool:
    """Whether something that a caller gave is the name of a reduction."""
    return isinstance(given, str) and given in REDUCTIONS


def problem_of(reduction: object, dtype: str) -> Exception | None:
    """Return why values of a type cannot be reduced so, None if they can.

    Args:
        reduction: What the caller gave.
        dtype: The type, as torch names it: ``float32``.
    """
    if not is_reduction(reduction):
        return ValueError(
            f"there is no reduction {reduction!r}; there are {', '.join(REDUCTIONS)}"
        )
    if reduction == "mean" and not is_floating(dtype):
        return UnsupportedError(
            f"the mean of {dtype} values is no {dtype}; reduce data.to(torch.float64) "
            "instead, or take the sum and divide it as you want it rounded"
        )
    if reduction in BITWISE and is_floating(dtype):
        return UnsupportedError(
            f"{reduction} is for integers and bool, not for {dtype}; to combine the "
            "bits themselves pass data.view() of an integer type"
        )
    if reduction in ORDERED and dtype.startswith("complex"):
        return UnsupportedError(f"{dtype} values have no order, so no {reduction}")
    return None
