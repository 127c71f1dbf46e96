"""Random numbers of the device: those of the CPU's generator.

So a script gives the same numbers on the device as on the CPU, chip for chip, and
``torch.manual_seed`` suffices for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """Return the generator's state, on the CPU."""
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: object = None) -> None:  # noqa: ARG001 - as above
    """Restore the generator's state."""
    torch.default_generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the generator's state, once: all chips share it."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Restore the generator's state."""
    for state in new_states:
        set_rng_state(state)


manual_seed_all, seed_all = manual_seed, seed
