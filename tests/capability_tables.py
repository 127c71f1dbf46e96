"""The tables of docs/capability.md, made of the data that plans are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.dist.collective_errors import UnsupportedError
from ranktable.dist.collective_plan import OPERATIONS, REDUCING, make_plan
from ranktable.dist.wire import REDUCTIONS, SIZES
from ranktable.dist.wire import problem_of_values as problem_of
from ranktable.runtime.backends.backend import TABLES, backend_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_UNEVEN = ("all_gather", "gather", "scatter", "reduce_scatter", "all_to_all")


def tables() -> str:
    """Return the tables as Markdown."""
    names = list(TABLES)
    operations = [[name, *_recipes(name)] for name in OPERATIONS]
    types = [[dtype, *_ways(dtype, "sum")] for dtype in SIZES]
    reductions = [[op, *_ways("float32", op)] for op in REDUCTIONS]
    integers = [[op, *_ways("int32", op)] for op in REDUCTIONS]
    return "\n".join(
        [
            "### Operations, of float32\n",
            *_table(["", *names], operations),
            "\n### Types, in the sum of all_reduce\n",
            *_table(["", *names], types),
            "\n### Reductions of all_reduce, of float32\n",
            *_table(["", *names], reductions),
            "\n### Reductions of all_reduce, of int32\n",
            *_table(["", *names], integers),
            "\n### Sources\n",
            *_sources(),
        ]
    )


def _recipes(operation: str) -> Iterator[str]:
    op = "sum" if operation in REDUCING else None
    for table in TABLES:
        try:
            even = make_plan(table, operation, "float32", op)
            uneven = make_plan(table, operation, "float32", op, is_even=False)
        except UnsupportedError:
            yield "no"
            continue
        found: list[str] = [even.recipe]
        if operation in _UNEVEN and uneven.recipe != even.recipe:
            found.append(f"uneven: {uneven.recipe}")
        yield "; ".join(found)


def _ways(dtype: str, op: str) -> Iterator[str]:
    for table in TABLES:
        if problem_of(op, dtype) is not None:
            yield "refused"
            continue
        try:
            plan = make_plan(table, "all_reduce", dtype, op)
        except UnsupportedError:
            yield "no"
            continue
        wire = plan.wire
        if plan.recipe != "native" or wire is None:
            yield plan.recipe
        elif wire.encoding == "itself":
            yield "native"
        else:
            yield f"as {wire.dtype}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    listed = list(heads)
    yield f"| {' | '.join(listed)} |"
    yield "|---" * len(listed) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _sources() -> Iterator[str]:
    for table in TABLES:
        found: dict[str, list[str]] = {}
        for name, native in backend_named(table).operations.items():
            found.setdefault(native.source, []).append(name)
        for source, names in found.items():
            yield f"- {table}, {', '.join(names)}: {source}"
        for name, reason in backend_named(table).refusals.items():
            yield f"- {table}, no {name}: {reason}"
