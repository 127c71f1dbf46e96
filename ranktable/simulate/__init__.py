"""A cluster of simulated chips on this machine.

It has three layers, and each knows only the ones before it: ``device`` gives torch a
device with the CPU's memory, ``backend`` a process group with a vendor's limits, and
``path`` the vendor's own module, which only a simulated run can import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.simulate.simulation_error import SimulationError

__all__ = ["SimulationError"]

_HOMES: Final = {"SimulationError": "ranktable.simulate.simulation_error"}

__getattr__, __dir__ = attach(__name__, _HOMES)
