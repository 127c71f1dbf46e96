"""The functions of ``torch.tpu``, on which vendors' modules are built.

Random numbers come from the CPU's generator. Memory is the host's and is not counted.
Streams and events are those of a device that has always finished its work.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ranktable.simulate.device import inventory
from ranktable.simulate.device.inventory import index_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self


current_device, device_count = inventory.current_device, inventory.device_count


def memory_stats(device: object = None) -> dict[str, Any]:
    """Return no statistics."""
    return {}


def no_bytes(device: object = None) -> int:
    """Return 0."""
    return 0


def nothing(device: object = None) -> None:
    """Do nothing: there is no cache and no counter."""


def memory_snapshot() -> list[dict[str, Any]]:
    """Return no segments."""
    return []


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """Return a sentence instead of the table of a real device."""
    return "memory of a simulated device is the host's and is not counted"


def mem_get_info(device: object = None) -> tuple[int, int]:
    """Return the host's free and total memory in bytes."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    free, total = os.sysconf("SC_AVPHYS_PAGES"), os.sysconf("SC_PHYS_PAGES")
    return free * page_bytes, total * page_bytes


memory_allocated = max_memory_allocated = no_bytes
memory_cached = max_memory_cached = no_bytes
memory_reserved = max_memory_reserved = no_bytes
empty_cache = nothing
reset_accumulated_memory_stats = reset_peak_memory_stats = nothing
reset_max_memory_allocated = reset_max_memory_cached = nothing


_STATE_BYTES = 16
_STEP = 4
"""Offsets are multiples of this number."""
_SEEDS = 2**64
_MIX = 0x9E3779B97F4A7C15
"""An odd number with mixed bits, so that consecutive seeds give distant states."""


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
    state[:8] = _packed(seed, 0)[:8]  # it begins with the given seed
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


def get_rng_state(device: object = None) -> torch.Tensor:
    """Return the generator's state as a seed and an offset, 16 bytes on the CPU.

    The state of the CPU's generator is larger. So the generator continues from the
    state that belongs to the seed and the offset, which is the same on every rank.
    """
    full, seed = torch.default_generator.get_state(), initial_seed()
    if seed != _known.seed or not torch.equal(full, _known.full):
        begins = torch.equal(full, _full_state(seed, 0))
        offset = 0 if begins else _known.offset * (seed == _known.seed) + _STEP
        _set(seed, offset)
    return _packed(_known.seed, _known.offset)


def set_rng_state(new_state: torch.Tensor, device: object = None) -> None:
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


_MS_PER_S = 1e3


class Stream(torch.Stream):
    """A queue of work that is always empty."""

    def __new__(cls, device: Any = None, priority: int = 0, **_: Any) -> Self:
        """Make a stream of a chip; all streams of a chip are the same."""
        return super().__new__(
            cls,
            stream_id=0,
            device_index=index_of(device),
            device_type=inventory.PRIVATEUSE1,
        )

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Return True: all work is done."""
        return True

    def wait_event(self, event: object) -> None:
        """Return at once."""

    def wait_stream(self, other: object) -> None:
        """Return at once."""

    def record_event(self, event: Any = None) -> Any:
        """Return an event that has happened already."""
        happened = Event() if event is None else event
        happened.record(self)
        return happened


class Event:
    """A point in time on the host's clock."""

    def __init__(self, *_: object, enable_timing: bool = False, **__: object) -> None:
        """Accept all arguments of vendors' events, and ignore most."""
        self.is_timed = enable_timing
        self._recorded_s: float | None = None

    def record(self, stream: object = None) -> None:
        """Record the time."""
        self._recorded_s = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to a later one.

        Raises:
            RuntimeError: One of them was not recorded.
        """
        if self._recorded_s is None or end._recorded_s is None:
            raise RuntimeError("both events must be recorded before the time is asked")
        return (end._recorded_s - self._recorded_s) * _MS_PER_S

    def wait(self, stream: object = None) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Return True: it has happened."""
        return True

    def synchronize(self) -> None:
        """Return at once."""


class StreamContext:
    """Make a stream current for a block; only its chip matters."""

    def __init__(self, stream: torch.Stream | None) -> None:
        """Store a stream, or None for no change."""
        self.stream = stream
        self._previous = 0

    def __enter__(self) -> torch.Stream | None:
        """Make its chip current."""
        self._previous = inventory.current_device()
        if self.stream is not None:
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_: object) -> None:
        """Make the previous chip current."""
        inventory.set_device(self._previous)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return a context in which a stream is current."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """Return the stream of a chip."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream: torch.Stream) -> None:
    """Make a stream current, which means its chip."""
    inventory.set_device(stream.device_index)


class device:  # noqa: N801 - the name that torch gives it: torch.cuda.device
    """Make a chip current for a block."""

    def __init__(self, device: Any = None) -> None:
        """Accept any name of a chip; None for no change."""
        self.idx = index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        """Make it current."""
        self.prev_idx = inventory.current_device()
        inventory.set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        """Make the previous one current."""
        inventory.set_device(self.prev_idx)


class device_of(device):  # noqa: N801 - as above
    """Make the chip of a tensor current for a block; no change for a CPU tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        """Accept any tensor."""
        is_here = tensor.device.type == inventory.DEVICE_TYPE
        super().__init__(tensor.get_device() if is_here else None)


def set_device(device: Any) -> None:
    """Make a chip current.

    Raises:
        RuntimeError: The chip does not exist.
    """
    inventory.set_device(index_of(device))


def synchronize(device: object = None) -> None:
    """Return at once: every operator is done when it returns."""


def is_available() -> bool:
    """Return whether there is a chip."""
    return inventory.device_count() > 0


def is_initialized() -> bool:
    """Return True: there is nothing to initialise."""
    return True


def init() -> None:
    """Do nothing: there is nothing to initialise."""


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the types that ``torch.autocast`` can compute in."""
    return [torch.float16, torch.bfloat16]


def _is_in_bad_fork() -> bool:  # torch.random asks for it by this name
    return False  # memory of the CPU survives a fork
