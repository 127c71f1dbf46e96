"""What a backend has, as data: operations, types, reductions, parts of any size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIMITIVES: Final = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter"),
    *("reduce_scatter", "all_to_all", "send", "recv", "barrier"),
)
"""What a backend may have itself; everything else is made of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """One operation of a backend.

    Attributes:
        dtypes: The types that it takes, as torch names them.
        reductions: The reductions that are right for them, for one that reduces.
        has_uneven: Whether parts may be of different sizes.
        is_derived: Whether the backend makes it of slower ones, so that a composition
            is to be preferred.
        source: Where this is written, or how it was measured.
    """

    dtypes: frozenset[str]
    reductions: frozenset[str] = frozenset()
    has_uneven: bool = False
    is_derived: bool = False
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What one backend has.

    Attributes:
        name: The name of the table: the backend's, and a profile after a colon.
        backend: What ``torch.distributed`` knows it by.
        device: The type of devices whose tensors it takes.
        operations: By name, see ``PRIMITIVES``; one that is missing it has not.
        refusals: Why it has not, with the source, for those of which it is known.
    """

    name: str
    backend: str
    device: str
    operations: Mapping[str, Native]
    refusals: Mapping[str, str] = field(default_factory=dict)

    def has(self, operation: str, dtype: str, reduction: str | None = None) -> bool:
        """Whether it has an operation for a type, and a reduction."""
        native = self.operations.get(operation)
        return (
            native is not None
            and dtype in native.dtypes
            and (reduction is None or reduction in native.reductions)
        )
