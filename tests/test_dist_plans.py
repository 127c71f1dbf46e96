"""Plans of collectives: made of tables, without torch and without a process group."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, get_args

import pytest

from ranktable.dist import UnsupportedError, explain
from ranktable.dist.collective_plan import OPERATIONS, REDUCING, Recipe, make_plan
from ranktable.dist.wire import LOCAL, REDUCTIONS, choose_wire
from ranktable.dist.wire import problem_of_values as problem_of
from ranktable.runtime.backends.backend import PRIMITIVES, TABLES, backend_named
from tests.commands import run_python

if TYPE_CHECKING:
    from ranktable.dist.collective_plan import CollectivePlan
    from ranktable.runtime.backends.backend import Backend

INTEGERS = [f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOATS_8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *FLOATS_8, *COMPLEX]
UNKNOWN = ["complex32", "float8_e8m0fnu", "float4_e2m1fn_x2", "bits8", "int4", "uint1"]
NAMES = list(TABLES)


def plan(
    name: str, operation: str, dtype: str, op: str, *, even: bool
) -> CollectivePlan | None:
    """Return a plan, None if it is refused."""
    reduction = op if operation in REDUCING else None
    try:
        return make_plan(name, operation, dtype, reduction, is_even=even)
    except UnsupportedError:
        return None


def is_possible(capability: Backend, made: CollectivePlan) -> bool:
    """Whether a backend has what a plan begins with, as its table says."""
    operation = {"shift": "send"}.get(made.operation, made.operation)
    needs = {
        "native": operation,
        "pad and trim": operation,
        "gather and cut": "all_gather",
        "gather and fold": "all_gather",
        "exchange and fold": "all_to_all",
    }
    native = capability.operations[needs[made.recipe]]
    if made.operation == "barrier":
        return True
    if made.recipe == "native" and made.wire is not None:
        wire = made.wire
        return wire.dtype in native.dtypes and wire.reduction in native.reductions
    return ("uint8" if made.as_bytes else made.dtype) in native.dtypes


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_plan_is_made_of_what_the_backend_has(name: str, operation: str) -> None:
    capability = backend_named(name)
    ops = REDUCTIONS if operation in REDUCING else REDUCTIONS[:1]

    for dtype, op, even in product([*DTYPES, *UNKNOWN], ops, (True, False)):
        made = plan(name, operation, dtype, op, even=even)
        assert made is None or is_possible(capability, made)
        assert made is None or made.steps
        assert made is None or all(made.sources)


@pytest.mark.parametrize("name", NAMES)
def test_every_backend_reduces_all_that_has_a_result(name: str) -> None:
    for operation, dtype, op in product(sorted(REDUCING), DTYPES, REDUCTIONS):
        has_result = problem_of(op, dtype) is None
        made = plan(name, operation, dtype, op, even=True)

        assert (made is not None) == has_result, (operation, dtype, op)


@pytest.mark.parametrize("name", NAMES)
def test_every_backend_moves_every_type(name: str) -> None:
    moving = ("broadcast", "all_gather", "gather", "scatter", "all_to_all", "shift")
    for operation, dtype in product(moving, [*DTYPES, *UNKNOWN]):
        for even in (True, False):
            assert plan(name, operation, dtype, "sum", even=even) is not None


@pytest.mark.parametrize("name", NAMES)
def test_every_backend_tells_lengths(name: str) -> None:
    """What is said beside tensors goes as int64, by the backend's own operations."""
    capability = backend_named(name)

    for operation in ("broadcast", "all_gather", "all_to_all"):
        assert capability.has(operation, "int64")


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_whole(name: str) -> None:
    capability = backend_named(name)
    unknown = set(capability.operations) - set(PRIMITIVES)
    sources = [native.source for native in capability.operations.values()]
    reducing = {
        operation
        for operation, native in capability.operations.items()
        if native.reductions
    }

    assert not unknown
    assert all(sources)
    assert reducing == REDUCING & set(capability.operations)


def test_local_arithmetic_reduces_all_that_has_a_result() -> None:
    for dtype, op in product(DTYPES, REDUCTIONS):
        if problem_of(op, dtype) is None:
            assert choose_wire(LOCAL, dtype, op) is not None, (dtype, op)


@pytest.mark.parametrize("dtype", [*FLOATS[:2], *FLOATS_8])
@pytest.mark.parametrize("op", ["sum", "mean", "product"])
@pytest.mark.parametrize("name", NAMES)
def test_halves_are_accumulated_in_float32(name: str, op: str, dtype: str) -> None:
    for operation in sorted(REDUCING):
        made = make_plan(name, operation, dtype, op)

        assert made.wire is not None
        if made.recipe != "native" or name in ("gloo", "sccl", "sccl:doc"):
            assert made.wire.dtype == "float32"


def test_recipes_have_names() -> None:
    found = {
        made.recipe
        for name, operation, dtype, op in product(NAMES, OPERATIONS, DTYPES, REDUCTIONS)
        for even in (True, False)
        if (made := plan(name, operation, dtype, op, even=even)) is not None
    }

    assert found == set(get_args(Recipe))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all_reduce", "gloo", "float32", "xor"), "there is no reduction 'xor'"),
        (("all_sum", "gloo", "float32"), "there is no collective 'all_sum'"),
    ],
)
def test_unknown_words_are_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(*arguments)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="the backend 'abc' is not known"):
        explain("all_reduce", "abc")


@pytest.mark.parametrize(
    ("op", "dtype", "message"),
    [
        ("mean", "int64", "the mean of int64 values is not int64"),
        ("mean", "bool", "the mean of bool values is not bool"),
        ("band", "float32", "band is for integers and bool, not for float32"),
        ("max", "complex64", "complex64 values have no order, so no max"),
    ],
)
def test_what_has_no_exact_result_is_refused(op: str, dtype: str, message: str) -> None:
    for name, operation in product(NAMES, sorted(REDUCING)):
        with pytest.raises(UnsupportedError, match=message):
            explain(operation, name, dtype, op)


def test_a_plan_says_its_steps_and_volume() -> None:
    assert str(explain("reduce_scatter", "sccl", "float32", "mean")) == (
        "reduce_scatter of float32 (mean) on sccl: exchange and fold\n"
        "  1. all_to_all of the parts                   sends (N-1)/N n\n"
        "  2. mean of what came, in the order of the ranks"
    ).replace("parts                   sends", "parts  sends")
    assert str(explain("all_reduce", "sccl", "int64")) == (
        "all_reduce of int64 (sum) on sccl: native\n"
        "  1. encode as int32 (split integers: four parts of 16 bits add up without "
        "loss)\n"
        "  2. all_reduce of int32 (sum)  sends 2 (N-1)/N n x 2\n"
        "  3. decode as int64"
    )


def test_a_dtype_of_torch_goes_by_its_name() -> None:
    class OfTorch:
        def __str__(self) -> str:
            return "torch.int64"

    assert explain("all_reduce", dtype=OfTorch()) == explain(
        "all_reduce", dtype="int64"
    )


def test_a_type_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no type 'flaot32'"):
        explain("all_gather", "gloo", "flaot32")


def test_plans_need_no_torch() -> None:
    code = (
        "import sys\n"
        "from ranktable.dist import explain\n"
        "print(explain('all_reduce', 'sccl', 'int64', 'max'))\n"
        "assert 'torch' not in sys.modules, 'torch'\n"
    )
    done = run_python("-c", code)

    assert (done.status, done.err) == (0, "")
