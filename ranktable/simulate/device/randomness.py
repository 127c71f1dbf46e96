"""Random numbers of the device: those of the CPU's generator.

So a script gives the same numbers on the device as on the CPU, chip for chip, and
``torch.manual_seed`` suffices for both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_STATE_BYTES = 16
_STEP = 4
"""Offsets are multiples of it."""
_SEEDS = 2**64
_MIX = 0x9E3779B97F4A7C15
"""An odd number with bits all over, so that seeds that follow are far apart."""


@dataclass
class _Known:
    """The state that was set last."""

    seed: int = -1
    offset: int = 0
    full: torch.Tensor = field(default_factory=lambda: torch.empty(0))


_known = _Known()


def _packed(seed: int, offset: int) -> torch.Tensor:
    signed = seed - _SEEDS if seed >= _SEEDS // 2 else seed
    words = torch.tensor([signed, offset], dtype=torch.int64, device="cpu")
    return words.view(torch.uint8)


def _full_state(seed: int, offset: int) -> torch.Tensor:
    """Return the state of the CPU's generator for a seed and an offset."""
    mixed = (seed + offset * _MIX) % _SEEDS
    state = torch.Generator().manual_seed(mixed).get_state()
    state[:8] = _packed(seed, 0)[:8]  # it begins with the seed that was given
    return state


def _set(seed: int, offset: int) -> None:
    _known.seed, _known.offset = seed, offset
    _known.full = _full_state(seed, offset)
    torch.default_generator.set_state(_known.full)


def manual_seed(seed: int) -> None:
    """Seed the generator."""
    torch.default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the generator with a random number and return it."""
    return torch.default_generator.seed()


def initial_seed() -> int:
    """Return the seed that was given last."""
    return torch.default_generator.initial_seed()


def get_rng_state(device: object = None) -> torch.Tensor:  # noqa: ARG001 - torch's signature
    """Return the generator's state as a seed and an offset, 16 bytes on the CPU.

    The state of the CPU's generator is larger. So the generator goes on from the one
    that belongs to the seed and the offset, which is the same on every rank.
    """
    full, seed = torch.default_generator.get_state(), initial_seed()
    if seed != _known.seed or not torch.equal(full, _known.full):
        begins = torch.equal(full, _full_state(seed, 0))
        offset = 0 if begins else _known.offset * (seed == _known.seed) + _STEP
        _set(seed, offset)
    return _packed(_known.seed, _known.offset)


def set_rng_state(new_state: torch.Tensor, device: object = None) -> None:  # noqa: ARG001 - as above
    """Restore the generator's state.

    Raises:
        RuntimeError: It is not 16 bytes long.
    """
    if new_state.numel() * new_state.element_size() != _STATE_BYTES:
        raise RuntimeError(f"RNG state is wrong size: it has {_STATE_BYTES} bytes")
    seed, offset = new_state.cpu().view(torch.int64).tolist()
    _set(seed % _SEEDS, offset)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the generator's state, once: all chips share it."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Restore the generator's state."""
    for state in new_states:
        set_rng_state(state)


manual_seed_all, seed_all = manual_seed, seed
