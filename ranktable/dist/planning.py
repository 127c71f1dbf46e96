"""The choice of a plan: from the table of the backend, alike on every rank.

What fails on one rank only would leave the others waiting, so nothing is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from ranktable.dist.capability import capability_of
from ranktable.dist.carriers import LOCAL, choose_carrier
from ranktable.dist.errors import UnsupportedError
from ranktable.dist.plan import Plan, Step
from ranktable.dist.reductions import problem_of

if TYPE_CHECKING:
    from ranktable.dist.capability.capability import Capability, Native
    from ranktable.dist.carriers import Carrier
    from ranktable.dist.plan import Recipe

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


@cache
def make_plan(
    backend: str,
    operation: str,
    dtype: str,
    reduction: str | None = None,
    *,
    is_even: bool = True,
) -> Plan:
    """Return how a collective is done.

    Args:
        backend: Name of a table of ``ranktable.dist.capability``.
        operation: One of ``OPERATIONS``.
        dtype: Type of the tensors, as torch names it.
        reduction: How they are reduced; needed by those that reduce.
        is_even: Whether all parts are of the same size.

    Raises:
        ValueError: There is no such backend, operation or reduction.
        UnsupportedError: There is no exact way.
    """
    if operation not in OPERATIONS:
        raise ValueError(
            f"there is no collective {operation!r}; there are {', '.join(OPERATIONS)}"
        )
    request = _Request(capability_of(backend), operation, dtype, is_even)
    if operation not in REDUCING:
        return _moving(request)
    problem = problem_of(reduction, dtype)
    if problem is not None:
        raise problem
    return _reducing(request, str(reduction))


@dataclass(frozen=True, slots=True)
class _Request:
    capability: Capability
    operation: str
    dtype: str
    is_even: bool

    def native(self, operation: str) -> Native | None:
        """Return what the backend has, if it moves the type, as it is or as bytes."""
        native = self.capability.operations.get(operation)
        if native is None or not native.dtypes & {self.dtype, _ALL_DTYPES_AS}:
            return None
        return native

    def refusal(self) -> UnsupportedError:
        """Return the error for something that there is no way to do."""
        name, operation = self.capability.name, self.operation
        reason = self.capability.refusals.get(operation)
        said = f": {reason}" if reason else ""
        return UnsupportedError(
            f"{name} has no {operation} of {self.dtype}, nor anything that it could be "
            f"made of{said}; use a group of another backend for this"
        )

    def plan(
        self,
        recipe: Recipe,
        moves: Native,
        *steps: Step,
        reduction: str | None = None,
        carrier: Carrier | None = None,
        as_bytes: bool = False,
    ) -> Plan:
        """Return a plan with what this request has of it."""
        return Plan(
            operation=self.operation,
            backend=self.capability.name,
            dtype=self.dtype,
            reduction=reduction,
            is_even=self.is_even,
            recipe=recipe,
            carrier=carrier,
            as_bytes=as_bytes,
            steps=steps,
            sources=(moves.source,),
        )


def _moving(request: _Request) -> Plan:
    """Return the plan of a collective that only moves values."""
    operation = request.operation
    if operation == "barrier":
        return _barrier(request)
    native = request.native("send" if operation == "shift" else operation)
    if native is not None:
        return _by_itself(request, native)
    other = {"gather": "all_gather", "shift": "all_gather", "scatter": "broadcast"}
    made_of = {**other, "all_to_all": "all_gather"}.get(operation, "")
    native = request.native(made_of)
    if native is None:
        raise request.refusal()
    as_bytes = request.dtype not in native.dtypes
    volume = "N n" if made_of == "broadcast" else _VOLUMES[made_of]
    recipes: dict[str, tuple[Recipe, str]] = {
        "gather": ("gather and drop", "drop what is not for this rank"),
        "shift": ("gather and cut", "keep what is from the neighbour"),
        "all_to_all": ("gather and cut", "keep what is for this rank"),
        "scatter": ("broadcast and cut", "keep the part for this rank"),
    }
    recipe, action = recipes[operation]
    what = "all parts" if made_of == "broadcast" else "everything"
    steps = [Step(action=f"{made_of} of {what}", volume=volume), Step(action=action)]
    if not request.is_even:
        steps = [_sizes(), Step(action="pad to the largest size"), *steps]
    return request.plan(recipe, native, *_bytes(as_bytes), *steps, as_bytes=as_bytes)


def _by_itself(request: _Request, native: Native) -> Plan:
    operation = request.operation
    as_bytes = request.dtype not in native.dtypes
    first = _bytes(as_bytes)
    made_of = "send and recv" if operation == "shift" else operation
    move = Step(action=made_of, volume=_VOLUMES[operation])
    if request.is_even:
        return request.plan("native", native, *first, move, as_bytes=as_bytes)
    if native.has_uneven or operation in ("shift", "send", "recv"):
        return request.plan("native", native, *first, _sizes(), move, as_bytes=as_bytes)
    padded = Step(action=move.action, volume=f"{move.volume}, n that of the largest")
    trim = Step(action="cut off the padding")
    pad = Step(action="pad to the largest size")
    steps = (*first, _sizes(), pad, padded, trim)
    return request.plan("pad and trim", native, *steps, as_bytes=as_bytes)


def _barrier(request: _Request) -> Plan:
    native = request.capability.operations.get("barrier")
    if native is not None:
        step = Step(action="barrier", volume="0")
        return request.plan("native", native, step)
    raise request.refusal()


def _reducing(request: _Request, reduction: str) -> Plan:
    """Return the plan of a collective that reduces."""
    capability, operation, dtype = request.capability, request.operation, request.dtype
    if operation == "reduce_scatter":
        return _reduce_scatter(request, reduction)
    native = capability.operations.get(operation)
    carrier = choose_carrier(native, dtype, reduction)
    if native is not None and carrier is not None:
        times = "" if carrier.cost == 1 else f" x {carrier.cost:g}"
        move = Step(
            action=f"{operation} of {carrier.dtype} ({carrier.reduction})",
            volume=f"{_VOLUMES[operation]}{times}",
        )
        steps = (*_encoding(carrier), move, *_decoding(carrier, dtype, reduction))
        return request.plan(
            "native", native, *steps, reduction=reduction, carrier=carrier
        )
    moves = request.native("all_gather")
    carrier = choose_carrier(LOCAL, dtype, reduction)
    if moves is None or carrier is None:
        raise request.refusal()
    as_bytes = dtype not in moves.dtypes
    return request.plan(
        "gather and fold",
        moves,
        *_bytes(as_bytes),
        Step(action="all_gather of everything", volume=_VOLUMES["all_gather"]),
        Step(action=f"{reduction} of what came, in the order of the ranks"),
        reduction=reduction,
        carrier=carrier,
        as_bytes=as_bytes,
    )


def _reduce_scatter(request: _Request, reduction: str) -> Plan:
    """Return its plan: the backend's own where it is better than what follows.

    To exchange the parts and to fold them locally costs the least volume, keeps the
    order of the ranks, can accumulate wider and knows every reduction.
    """
    dtype = request.dtype
    native = request.capability.operations.get("reduce_scatter")
    carrier = choose_carrier(native, dtype, reduction)
    is_best = native is not None and request.is_even and not native.is_derived
    if native and is_best and carrier is not None and carrier.encoding == "itself":
        move = Step(
            action=f"reduce_scatter ({carrier.reduction})",
            volume=_VOLUMES["reduce_scatter"],
        )
        steps = (move, *_decoding(carrier, dtype, reduction))
        return request.plan(
            "native", native, *steps, reduction=reduction, carrier=carrier
        )
    moves = request.native("all_to_all")
    carrier = choose_carrier(LOCAL, dtype, reduction)
    if moves is None or carrier is None:
        raise request.refusal()
    as_bytes = dtype not in moves.dtypes
    volume, padding = _VOLUMES["all_to_all"], list[Step]()
    if not (request.is_even or moves.has_uneven):
        padding.append(Step(action="pad to the largest part"))
        volume = f"{volume}, n that of N parts as large as the largest"
    return request.plan(
        "exchange and fold",
        moves,
        *_bytes(as_bytes),
        *padding,
        Step(action="all_to_all of the parts", volume=volume),
        Step(action=f"{reduction} of what came, in the order of the ranks"),
        reduction=reduction,
        carrier=carrier,
        as_bytes=as_bytes,
    )


def _sizes() -> Step:
    return Step(action="tell each other the shapes", volume="some bytes")


def _bytes(as_bytes: bool) -> tuple[Step, ...]:  # noqa: FBT001 - it is a fact
    return (Step(action="view as uint8"),) if as_bytes else ()


def _encoding(carrier: Carrier) -> tuple[Step, ...]:
    if carrier.encoding == "itself":
        return ()
    why = f": {carrier.why}" if carrier.why else ""
    return (Step(action=f"encode as {carrier.dtype} ({carrier.encoding}{why})"),)


def _decoding(carrier: Carrier, dtype: str, reduction: str) -> tuple[Step, ...]:
    steps = []
    if reduction == "mean":
        steps.append(Step(action="divide by N"))
    if carrier.encoding != "itself":
        steps.append(Step(action=f"decode as {dtype}"))
    return tuple(steps)
