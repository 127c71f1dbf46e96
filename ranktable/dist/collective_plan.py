"""How to do a collective on a backend, given what the backend can do.

Every rank makes the same choice. Operations are not tried first: if one fails on one
rank only, the other ranks would wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from ranktable.dist.collective_errors import UnsupportedError
from ranktable.dist.wire import LOCAL, SIZES, choose_wire, problem_of_values
from ranktable.runtime.backends.backend import TABLES, backend_named

if TYPE_CHECKING:
    from ranktable.dist.wire import WireType
    from ranktable.runtime.backends.backend import Backend, Operation

_ONLY_MOVED: Final = frozenset(
    {
        *("complex32", "float8_e8m0fnu", "float4_e2m1fn_x2"),
        *("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)),
    }
)
"""Types of torch without arithmetic, whose bytes can be sent."""


Recipe = Literal[
    "native",
    "pad and trim",
    "gather and cut",
    "gather and fold",
    "exchange and fold",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step that every rank does.

    Attributes:
        action: The step in words.
        volume: Bytes that a rank sends in an ideal ring, as a formula of N, the number
            of ranks, and n, the bytes of one rank's tensor; None if it sends nothing.
    """

    action: str
    volume: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePlan:
    """A plan for a collective.

    Attributes:
        operation: The collective.
        backend: Name of the backend's table.
        dtype: Type of the tensors.
        reduction: How they are reduced, None if they are not.
        is_even: Whether all parts have the same size.
        recipe: Name of the way to do it.
        wire: The type in which values are sent or reduced.
        as_bytes: Whether values are sent as bytes, because the backend lacks the type.
        steps: The steps, in order.
        sources: Documents that say that the backend can do this.
    """

    operation: str
    backend: str
    dtype: str
    reduction: str | None = None
    is_even: bool = True
    recipe: Recipe
    wire: WireType | None = None
    as_bytes: bool = False
    steps: tuple[PlanStep, ...]
    sources: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as text of several lines."""
        how = f" ({self.reduction})" if self.reduction else ""
        uneven = "" if self.is_even else ", parts of any size"
        title = (
            f"{self.operation} of {self.dtype}{how}{uneven} on {self.backend}: "
            f"{self.recipe}"
        )
        width = max(len(step.action) for step in self.steps if step.volume) + 2
        lines = [
            f"  {number}. {step.action:<{width}}sends {step.volume}"
            if step.volume
            else f"  {number}. {step.action}"
            for number, step in enumerate(self.steps, 1)
        ]
        return "\n".join([title, *lines])


OPERATIONS: Final = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter"),
    *("reduce_scatter", "all_to_all", "send", "recv", "shift", "barrier"),
)
REDUCING: Final = frozenset({"all_reduce", "reduce", "reduce_scatter"})

_VOLUMES: Final = {
    "all_reduce": "2 (N-1)/N n",
    "reduce": "n",
    "broadcast": "n",
    "all_gather": "(N-1) n",
    "gather": "n",
    "scatter": "(N-1)/N n",
    "reduce_scatter": "(N-1)/N n",
    "all_to_all": "(N-1)/N n",
    "send": "n",
    "recv": "0",
    "shift": "n",
    "barrier": "0",
}
_ALL_DTYPES_AS: Final = "uint8"

_SIZES: Final = PlanStep(action="exchange the shapes", volume="some bytes")
_PADDING: Final = PlanStep(action="pad to the largest size")
_GATHERING: Final = PlanStep(
    action="all_gather of everything", volume=_VOLUMES["all_gather"]
)


@cache
def make_plan(
    backend: str,
    operation: str,
    dtype: str,
    reduction: str | None = None,
    *,
    is_even: bool = True,
    is_exact: bool = True,
) -> CollectivePlan:
    """Return a plan for a collective.

    Args:
        backend: Name of a table of operations, one of ``TABLES``.
        operation: One of ``OPERATIONS``.
        dtype: Type of the tensors, as torch names it.
        reduction: The reduction, if the operation reduces.
        is_even: Whether all parts have the same size.
        is_exact: Whether the result must be exact for the type.

    Raises:
        ValueError: There is no such backend, operation or reduction.
        UnsupportedError: There is no way to get an exact result.
    """
    if operation not in OPERATIONS:
        raise ValueError(
            f"there is no collective {operation!r}; there are {', '.join(OPERATIONS)}"
        )
    request = _CollectiveRequest(
        _described(backend), operation, dtype, is_even, is_exact
    )
    if operation not in REDUCING:
        return _moving(request)
    problem = problem_of_values(reduction, dtype)
    if problem is not None:
        raise problem
    return _reducing(request, str(reduction))


def _described(name: str) -> Backend:
    """Return the operations of a backend.

    Raises:
        UnsupportedError: The backend is not known.
    """
    try:
        return backend_named(name)
    except KeyError:
        raise UnsupportedError(
            f"the backend {name!r} is not known; the known ones are {', '.join(TABLES)}"
        ) from None


@dataclass(frozen=True, slots=True)
class _CollectiveRequest:
    backend: Backend
    operation: str
    dtype: str
    is_even: bool
    is_exact: bool

    def native(self, operation: str) -> Operation | None:
        """Return the backend's operation if it can send the type, maybe as bytes."""
        native = self.backend.operations.get(operation)
        if native is None or not native.dtypes & {self.dtype, _ALL_DTYPES_AS}:
            return None
        return native

    def refusal(self) -> UnsupportedError:
        """Return the error for a collective that the backend cannot do."""
        name, operation = self.backend.table_name, self.operation
        reason = self.backend.refusals.get(operation)
        said = f": {reason}" if reason else ""
        return UnsupportedError(
            f"{name} has no {operation} of {self.dtype}, and it cannot be composed of "
            f"what {name} has{said}; use a group of another backend for this"
        )

    def plan(
        self,
        recipe: Recipe,
        moves: Operation,
        *steps: PlanStep,
        reduction: str | None = None,
        wire: WireType | None = None,
    ) -> CollectivePlan:
        """Return a plan with the values of this request."""
        is_moved = self.operation != "barrier" and (wire is None or recipe != "native")
        as_bytes = is_moved and self.dtype not in moves.dtypes
        if as_bytes:
            steps = (PlanStep(action="view as uint8"), *steps)
        return CollectivePlan(
            operation=self.operation,
            backend=self.backend.table_name,
            dtype=self.dtype,
            reduction=reduction,
            is_even=self.is_even,
            recipe=recipe,
            wire=wire,
            as_bytes=as_bytes,
            steps=steps,
            sources=(moves.source,),
        )


def _moving(request: _CollectiveRequest) -> CollectivePlan:
    """Return the plan of a collective that only moves values."""
    operation = request.operation
    native = request.native("send" if operation == "shift" else operation)
    if operation == "barrier":  # a barrier has no type
        native = request.backend.operations.get(operation)
    if native is not None:
        return _by_itself(request, native)
    keeping = {
        "shift": "keep the part of the neighbour",
        "all_to_all": "keep the parts for this rank",
    }
    native = request.native("all_gather")
    if native is None or operation not in keeping:
        raise request.refusal()
    steps = [_GATHERING, PlanStep(action=keeping[operation])]
    if not request.is_even:
        steps = [_SIZES, _PADDING, *steps]
    return request.plan("gather and cut", native, *steps)


def _by_itself(request: _CollectiveRequest, native: Operation) -> CollectivePlan:
    operation = request.operation
    made_of = "send and recv" if operation == "shift" else operation
    move = PlanStep(action=made_of, volume=_VOLUMES[operation])
    if request.is_even or operation == "barrier":
        return request.plan("native", native, move)
    if native.has_uneven or operation in ("shift", "send", "recv"):
        return request.plan("native", native, _SIZES, move)
    volume = f"{move.volume}, n that of the largest"
    padded = PlanStep(action=move.action, volume=volume)
    trim = PlanStep(action="cut off the padding")
    return request.plan("pad and trim", native, _SIZES, _PADDING, padded, trim)


def _reducing(request: _CollectiveRequest, reduction: str) -> CollectivePlan:
    """Return the plan of a collective that reduces: by the backend, or locally.

    A reduce_scatter is done locally unless the backend's own is better. That sends the
    fewest bytes, keeps the order of the ranks, can accumulate in a wider type and has
    every reduction.
    """
    operation, dtype = request.operation, request.dtype
    is_scatter = operation == "reduce_scatter"
    native = request.backend.operations.get(operation)
    wire = choose_wire(native, dtype, reduction, is_exact=request.is_exact)
    if native is None or wire is None:
        return _reducing_locally(request, reduction)
    is_best = request.is_even and not native.is_derived and wire.encoding == "itself"
    if is_scatter and not is_best:
        return _reducing_locally(request, reduction)
    times = "" if wire.cost == 1 else f" x {wire.cost:g}"
    sent = "" if is_scatter else f" of {wire.dtype}"
    move = PlanStep(
        action=f"{operation}{sent} ({wire.reduction})",
        volume=f"{_VOLUMES[operation]}{times}",
    )
    steps = (*_encoding(wire), move, *_decoding(wire, dtype, reduction))
    return request.plan("native", native, *steps, reduction=reduction, wire=wire)


def _reducing_locally(request: _CollectiveRequest, reduction: str) -> CollectivePlan:
    """Return the plan to reduce what came from all ranks."""
    is_scatter = request.operation == "reduce_scatter"
    moves = request.native("all_to_all" if is_scatter else "all_gather")
    wire = choose_wire(LOCAL, request.dtype, reduction)
    if moves is None or wire is None:
        raise request.refusal()
    fold = PlanStep(action=f"{reduction} of what came, in the order of the ranks")
    recipe: Recipe = "exchange and fold" if is_scatter else "gather and fold"
    steps = [_GATHERING]
    if is_scatter:
        volume, padding = _VOLUMES["all_to_all"], list[PlanStep]()
        if not (request.is_even or moves.has_uneven):
            padding.append(PlanStep(action="pad to the largest part"))
            volume = f"{volume}, n that of N parts as large as the largest"
        steps = [*padding, PlanStep(action="all_to_all of the parts", volume=volume)]
    return request.plan(recipe, moves, *steps, fold, reduction=reduction, wire=wire)


def _encoding(wire: WireType) -> tuple[PlanStep, ...]:
    if wire.encoding == "itself":
        return ()
    why = f": {wire.why}" if wire.why else ""
    return (PlanStep(action=f"encode as {wire.dtype} ({wire.encoding}{why})"),)


def _decoding(wire: WireType, dtype: str, reduction: str) -> tuple[PlanStep, ...]:
    steps = []
    if reduction == "mean":
        steps.append(PlanStep(action="divide by N"))
    if wire.encoding != "itself":
        steps.append(PlanStep(action=f"decode as {dtype}"))
    return tuple(steps)


def explain(
    operation: str,
    backend: str = "gloo",
    dtype: object = "float32",
    op: str = "sum",
    *,
    even: bool = True,
    exact: bool | None = None,
) -> CollectivePlan:
    """Return how a collective is done on a backend; ``print`` shows the steps.

    Args:
        operation: ``all_reduce``, ``reduce_scatter`` and so on.
        backend: ``gloo``, ``nccl``, ``sccl``, ``sccl:doc`` for what its manual says,
            and others; the error for an unknown name lists them.
        dtype: A type of torch, or its name.
        op: The reduction, if the operation reduces.
        even: Whether all parts have the same size.
        exact: Whether the result must be exact for the type; by default on CPUs only,
            as in the collectives.

    Raises:
        ValueError: There is no such collective, reduction or type.
        UnsupportedError: There is no exact way, or the backend is not known.

    >>> print(explain("all_reduce", "sccl", "int64"))
    all_reduce of int64 (sum) on sccl: native
      1. encode as int32 (split integers: four parts of 16 bits add up without loss)
      2. all_reduce of int32 (sum)  sends 2 (N-1)/N n x 2
      3. decode as int64
    """
    name = str(dtype).removeprefix("torch.")
    if name not in SIZES and name not in _ONLY_MOVED:
        raise ValueError(f"there is no type {name!r}; give one of torch, as float32")
    reduction = op if operation in REDUCING else None
    is_exact = _described(backend).serves_cpu if exact is None else exact
    return make_plan(
        backend, operation, name, reduction, is_even=even, is_exact=is_exact
    )
