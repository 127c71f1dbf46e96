"""Operators that must reach the CPU whole.

For some operators torch has a recipe made of others, and prefers it to the fallback.
Where the CPU has a kernel of its own, the recipe may round differently (layer_norm);
and a recipe costs several ways through Python where one would do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C import _dispatch_get_registrations_for_dispatch_key

from ranktable.simulate.device.fallback import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload

_RECIPES = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
_STRUCTURED_RECIPE = "CompositeExplicitAutogradNonFunctional"
_NAMESPACE = "aten::"
# Recipes on the CPU too: frequent ones, and one (lstsq) that looks at the device.
_WHOLE = frozenset(
    {
        "clone",
        "convolution",
        "convolution_backward",
        "empty_like",
        "full",
        "linalg_lstsq",
        "new_empty",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
    }
)


def forwarded_names() -> set[str]:
    """Return the operators, as ``name.overload``."""
    on_cpu = _registered("CPU")
    recipes = set().union(*map(_registered, _RECIPES))
    return set(_WHOLE) | _registered(_STRUCTURED_RECIPE) | (on_cpu & recipes)


def _registered(key: str) -> set[str]:
    names = _dispatch_get_registrations_for_dispatch_key(key)
    return {
        name.removeprefix(_NAMESPACE) for name in names if name.startswith(_NAMESPACE)
    }


def forward(name: str) -> Callable[..., Any]:
    """Return a kernel that runs one operator on the CPU.

    The operator is looked up when it is first used: looking up 600 would take longer
    than all else that is done at start.
    """
    op: OpOverload | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        nonlocal op
        if op is None:
            op = operator_named(name)
        return run(op, *args, **kwargs)

    return kernel


def operator_named(name: str) -> OpOverload:
    """Return the operator called ``name.overload`` in ``aten``."""
    packet, _, overload = name.partition(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return found
