"""A cluster of simulated chips on this machine.

Three layers that know nothing of those above them: ``device`` gives torch a device
whose memory is the CPU's, ``backend`` a process group over gloo that keeps a vendor's
limits, and ``path`` the vendor's own module, importable only in a simulated run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable._lazy import attach

if TYPE_CHECKING:
    from ranktable.simulate.simulation_error import SimulationError

__all__ = ["SimulationError"]

_HOMES: Final = {"SimulationError": "ranktable.simulate.simulation_error"}

__getattr__, __dir__ = attach(__name__, _HOMES)
