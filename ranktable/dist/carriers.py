"""As which type values travel while they are reduced, so that the result is exact.

A backend adds some types wrongly and others not at all. Every rule here keeps the
result what the type itself would give: integers wrap, a NaN stays one, half types
accumulate in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ranktable.dist.capability.capability import Native

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    "limbs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """A type that values travel as.

    Attributes:
        encoding: How values become it, see ``encoding.py``.
        dtype: The type.
        reduction: What the backend does with it.
        why: What this is good for; empty where values travel as they are.
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

LOCAL: Final = Native(
    dtypes=frozenset(
        {
            *("uint8", "int8", "int16", "int32", "int64"),
            *("float32", "float64", "complex64", "complex128"),
        }
    ),
    reductions=frozenset({"sum", "product", "min", "max", "band", "bor", "bxor"}),
    source="torch's own arithmetic, in which a NaN stays one",
)
"""What a rank can reduce itself, once it has the values of all."""


def choose_carrier(native: Native | None, dtype: str, reduction: str) -> Carrier | None:
    """Return as what values travel through an operation, None if there is no way.

    Args:
        native: What the backend has.
        dtype: Type of the values.
        reduction: How they are reduced.
    """
    if native is None:
        return None
    for carrier in _candidates(native, dtype, reduction):
        if carrier.dtype in native.dtypes and carrier.reduction in native.reductions:
            return carrier
    return None


def _candidates(native: Native, dtype: str, reduction: str) -> Iterator[Carrier]:
    """Yield the ways to carry values, the best first."""
    plain = "sum" if reduction == "mean" else reduction
    if dtype == "bool":
        yield from _flags(plain)
    elif dtype in _HALF or dtype in ("float32", "float64"):
        yield from _floating(native, dtype, plain)
    elif dtype in _REAL:
        yield Carrier(encoding="itself", dtype=dtype, reduction=plain)
        if plain == "sum":
            why = "a complex number is a pair of real ones"
            yield _carrier("real pairs", dtype, _REAL[dtype], plain, why)
    else:
        yield from _integers(dtype, plain)


def _flags(reduction: str) -> Iterator[Carrier]:
    as_flag = {"sum": "max", "bor": "max", "product": "min", "band": "min"}
    name = as_flag.get(reduction, reduction)
    for dtype in ("uint8", "int32"):
        if reduction == "bxor":
            why = "an odd number of True is True"
            yield _carrier("counted flag", "bool", dtype, "sum", why)
        else:
            yield _carrier("flag", "bool", dtype, name, "bool stays True or False")


def _floating(native: Native, dtype: str, reduction: str) -> Iterator[Carrier]:
    wide = "float32" if dtype in _HALF else dtype
    if reduction in _ADDS:
        if dtype in _HALF:
            why = "it rounds once instead of at every addition"
            yield _carrier("wider", dtype, wide, reduction, why)
        yield Carrier(encoding="itself", dtype=dtype, reduction=reduction)
    elif native is LOCAL:
        yield _carrier("wider", dtype, wide, reduction, "")
    else:
        why = "integers in the same order, for which a NaN is the extreme"
        yield _carrier("ordered bits", dtype, _KEYS[wide], reduction, why)


def _integers(dtype: str, reduction: str) -> Iterator[Carrier]:
    if dtype not in _UNSIGNED:
        yield Carrier(encoding="itself", dtype=dtype, reduction=reduction)
    if dtype in _SMALL:
        why = f"int32 holds every {dtype}, and wraps alike"
        yield _carrier("wider integer", dtype, "int32", reduction, why)
    if dtype in _UNSIGNED:
        signed = _UNSIGNED[dtype]
        if reduction in ("min", "max"):
            why = f"with the first bit flipped {signed} has the order of {dtype}"
            yield _carrier("flipped bits", dtype, signed, reduction, why)
        else:
            why = f"the same bits as {signed} give the same result"
            yield _carrier("same bits", dtype, signed, reduction, why)
    if dtype in ("int64", "uint64") and reduction == "sum":
        why = "four limbs of 16 bits add up without loss in int32"
        yield _carrier("limbs", dtype, "int32", reduction, why)


def _carrier(
    encoding: Encoding, dtype: str, carried: str, reduction: str, why: str
) -> Carrier:
    parts = 4 if encoding == "limbs" else 2 if encoding == "real pairs" else 1
    return Carrier(
        encoding=encoding,
        dtype=carried,
        reduction=reduction,
        why=why,
        cost=parts * SIZES[carried] / SIZES[dtype],
    )
