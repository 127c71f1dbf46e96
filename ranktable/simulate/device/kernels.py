"""Which kernel torch gets for which operator, at which of its dispatch keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from torch import library

from ranktable.simulate.device import (
    autocast,
    convolution,
    copying,
    cpu_graph,
    dropout,
    fallback,
    forwarding,
    group_norm,
    memory,
    pinned,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_DEVICE, _AUTOGRAD = "PrivateUse1", "AutogradPrivateUse1"


class _Kernels(Protocol):
    """What is used of torch.library.Library, which has no types."""

    def impl(
        self,
        name: str,
        kernel: Callable[..., object],
        key: str,
        *,
        with_keyset: bool = False,
    ) -> None: ...

    def fallback(self, kernel: Callable[..., object], key: str) -> None: ...


_Library: Any = library.Library
_libraries: list[_Kernels] = []  # kernels go when their library does


def register() -> None:
    """Register every kernel, once in a process."""
    aten, everything = _Library("aten", "IMPL"), _Library("_", "IMPL")
    _libraries.extend((aten, everything))
    everything.fallback(fallback.run, _DEVICE)
    _register_operators(aten)
    _register_recipes(aten)
    _register_copies(aten)
    _register_autocast(aten, everything)
    for key, kinds in refusal.REFUSED.items():
        for name, kind in kinds.items():
            aten.impl(name, refusal.refuse(kind), key)


def _register_operators(aten: _Kernels) -> None:
    own: dict[str, Callable[..., object]] = {
        **copying.KERNELS,
        **memory.KERNELS,
        **convolution.KERNELS,
        "is_pinned": pinned.is_pinned,
    }
    for name, kernel in own.items():
        aten.impl(name, kernel, _DEVICE)
    for name in forwarding.forwarded_names():
        if name not in own and name not in refusal.REFUSED[_DEVICE]:
            aten.impl(name, forwarding.forward(name), _DEVICE)


def _register_recipes(aten: _Kernels) -> None:
    recipes = {name: cpu_graph.on_cpu_graph(name) for name in cpu_graph.OPERATORS}
    recipes["dropout"] = dropout.dropout
    for name, kernel in recipes.items():
        aten.impl(name, kernel, _AUTOGRAD)
        aten.impl(name, kernel, _DEVICE)  # tensors of inference mode have no autograd
    aten.impl(group_norm.NAME, group_norm.group_norm, _AUTOGRAD, with_keyset=True)


def _register_copies(aten: _Kernels) -> None:
    for key in ("Conjugate", "Negative"):
        # Its schema hides that it writes, so these keys would give it a copy to fill.
        aten.impl("_copy_from", library.fallthrough_kernel, key)
    aten.impl("is_pinned", pinned.is_pinned, "CPU")


def _register_autocast(aten: _Kernels, everything: _Kernels) -> None:
    everything.fallback(library.fallthrough_kernel, autocast.KEY)
    for cast, names in autocast.TABLES.items():
        for name in names:
            aten.impl(name, cast(name), autocast.KEY)
