"""The pytest fixture ``simulated_chips``.

pytest imports this in every project where ranktable is installed, so it imports very
little; torch is imported by the first test that uses the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ranktable.simulate.simulated_chips import SimulatedChips


@pytest.fixture(scope="session")
def _simulated_run() -> Iterator[Path]:
    """The folder of the run in which this process is the only rank."""
    from ranktable.simulate.processes import run_folder

    with run_folder() as folder:
        yield folder


@pytest.fixture
def simulated_chips(_simulated_run: Path) -> Iterator[SimulatedChips]:
    """Simulated chips of SOPHGO: one rank in this process, more with ``spawn``.

    In the test ``import torch_tpu`` works, and this process is rank 0 of 1 on chip 0.
    """
    from ranktable.simulate.in_process import simulated_rank
    from ranktable.simulate.requirements import (
        refuse_missing_torch,
        refuse_real_package,
    )
    from ranktable.simulate.simulated_chips import SimulatedChips

    refuse_real_package("sophgo", is_forced=False)
    refuse_missing_torch()
    with simulated_rank(_simulated_run):
        yield SimulatedChips()
