"""The wire dtype: the type as which values travel while they are reduced.

A backend adds some types wrongly and others not at all. With the rules here the result
is exact for the type: integers wrap, a NaN stays one, half types accumulate in float32.
If an exact result is not asked for, a type that the backend reduces travels as itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from ranktable.dist.collective_errors import UnsupportedError
from ranktable.runtime.backends.backend import Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

Reduction = Literal["sum", "mean", "product", "min", "max", "band", "bor", "bxor"]

REDUCTIONS: Final[tuple[Reduction, ...]] = get_args(Reduction)

BITWISE: Final = frozenset({"band", "bor", "bxor"})
ORDERED: Final = frozenset({"min", "max"})


def is_floating(dtype: str) -> bool:
    """Whether a type, by its name in torch, has a fraction."""
    return dtype.startswith(("float", "bfloat", "complex"))


def is_reduction(given: object) -> bool:
    """Whether an argument of the caller is the name of a reduction."""
    return isinstance(given, str) and given in REDUCTIONS


def problem_of_values(reduction: object, dtype: str) -> Exception | None:
    """Return why values of a type cannot be reduced like this, None if they can.

    Args:
        reduction: The argument of the caller.
        dtype: The name of the type in torch: ``float32``.
    """
    if not is_reduction(reduction):
        return ValueError(
            f"there is no reduction {reduction!r}; there are {', '.join(REDUCTIONS)}"
        )
    if reduction == "mean" and not is_floating(dtype):
        return UnsupportedError(
            f"the mean of {dtype} values is not {dtype}; reduce data.to(torch.float64) "
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


Encoding = Literal[
    "itself",
    "wider",
    "wider integer",
    "same bits",
    "flipped bits",
    "ordered bits",
    "flag",
    "counted flag",
    "real pairs",
    "split integers",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireType:
    """A type in which values are sent.

    Attributes:
        encoding: How values are converted to it, see ``encoding.py``.
        dtype: The type.
        reduction: What the backend does with it.
        why: The reason for the encoding; empty for values that travel as they are.
        cost: Bytes that travel for each byte of the data.
    """

    encoding: Encoding
    dtype: str
    reduction: str
    why: str = ""
    cost: float = 1


SIZES: Final = {
    name: size
    for size, names in {
        1: "bool uint8 int8 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz",
        2: "int16 uint16 float16 bfloat16",
        4: "int32 uint32 float32",
        8: "int64 uint64 float64 complex64",
        16: "complex128",
    }.items()
    for name in names.split()
}
"""Bytes of each type that can be reduced."""

_SMALL: Final = ("int8", "uint8", "int16", "uint16")
_UNSIGNED: Final = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}
_HALF: Final = (
    *("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz"),
)
_REAL: Final = {"complex64": "float32", "complex128": "float64"}
_KEYS: Final = {"float32": "int32", "float64": "int64"}
_ADDS: Final = ("sum", "mean", "product")

LOCAL: Final = Operation(
    dtypes=frozenset(
        {
            *("uint8", "int8", "int16", "int32", "int64"),
            *("float32", "float64", "complex64", "complex128"),
        }
    ),
    reductions=frozenset({"sum", "product", "min", "max", "band", "bor", "bxor"}),
    source="torch's own arithmetic, in which a NaN stays one",
)
"""What a rank can reduce itself, after it has received the values of all ranks."""


def choose_wire(
    operation: Operation | None, dtype: str, reduction: str, *, is_exact: bool = True
) -> WireType | None:
    """Return the wire dtype of values for an operation, None if there is none.

    Args:
        operation: The operation of the backend.
        dtype: Type of the values.
        reduction: The reduction.
        is_exact: Whether half types are added in float32, and a NaN stays a NaN. If
            not, values are sent as they are if the backend can reduce their type.
    """
    if operation is None:
        return None
    plain = "sum" if reduction == "mean" else reduction
    is_known = dtype in operation.dtypes and plain in operation.reductions
    if is_known and not is_exact and dtype != "bool":
        return WireType(encoding="itself", dtype=dtype, reduction=plain)
    for wire in _candidates(operation, dtype, reduction):
        if wire.dtype in operation.dtypes and wire.reduction in operation.reductions:
            return wire
    return None


def _candidates(operation: Operation, dtype: str, reduction: str) -> Iterator[WireType]:
    """Yield the possible wire dtypes, the best first."""
    plain = "sum" if reduction == "mean" else reduction
    if dtype == "bool":
        yield from _flags(plain)
    elif dtype in _HALF or dtype in ("float32", "float64"):
        yield from _floating(operation, dtype, plain)
    elif dtype in _REAL:
        yield WireType(encoding="itself", dtype=dtype, reduction=plain)
        if plain == "sum":
            why = "a complex number is a pair of real ones"
            yield _wire("real pairs", dtype, _REAL[dtype], plain, why)
    else:
        yield from _integers(dtype, plain)


def _flags(reduction: str) -> Iterator[WireType]:
    as_flag = {"sum": "max", "bor": "max", "product": "min", "band": "min"}
    name = as_flag.get(reduction, reduction)
    for dtype in ("uint8", "int32"):
        if reduction == "bxor":
            why = "an odd number of True is True"
            yield _wire("counted flag", "bool", dtype, "sum", why)
        else:
            yield _wire("flag", "bool", dtype, name, "bool stays True or False")


def _floating(operation: Operation, dtype: str, reduction: str) -> Iterator[WireType]:
    wide = "float32" if dtype in _HALF else dtype
    if reduction in _ADDS:
        if dtype in _HALF:
            why = "it rounds once instead of at every addition"
            yield _wire("wider", dtype, wide, reduction, why)
        yield WireType(encoding="itself", dtype=dtype, reduction=reduction)
    elif operation is LOCAL:
        yield _wire("wider", dtype, wide, reduction, "")
    else:
        why = "integers in the same order, for which a NaN is the extreme"
        yield _wire("ordered bits", dtype, _KEYS[wide], reduction, why)


def _integers(dtype: str, reduction: str) -> Iterator[WireType]:
    if dtype not in _UNSIGNED:
        yield WireType(encoding="itself", dtype=dtype, reduction=reduction)
    if dtype in _SMALL:
        why = f"int32 holds every {dtype}, and wraps alike"
        yield _wire("wider integer", dtype, "int32", reduction, why)
    if dtype in _UNSIGNED:
        signed = _UNSIGNED[dtype]
        if reduction in ("min", "max"):
            why = f"with the first bit flipped {signed} has the order of {dtype}"
            yield _wire("flipped bits", dtype, signed, reduction, why)
        else:
            why = f"the same bits as {signed} give the same result"
            yield _wire("same bits", dtype, signed, reduction, why)
    if dtype in ("int64", "uint64") and reduction == "sum":
        why = "four parts of 16 bits add up without loss"
        yield _wire("split integers", dtype, "int32", reduction, why)


def _wire(
    encoding: Encoding, dtype: str, wire_dtype: str, reduction: str, why: str
) -> WireType:
    parts = 4 if encoding == "split integers" else 2 if encoding == "real pairs" else 1
    return WireType(
        encoding=encoding,
        dtype=wire_dtype,
        reduction=reduction,
        why=why,
        cost=parts * SIZES[wire_dtype] / SIZES[dtype],
    )
