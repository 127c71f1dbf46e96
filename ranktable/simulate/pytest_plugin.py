"""The pytest fixture ``simulated_chips``.

pytest imports this in every project where ranktable is installed, so it imports very
little; torch is imported by the first test that uses the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ranktable.simulate.simulated_chips import SimulatedChips


@pytest.fixture
def simulated_chips() -> SimulatedChips:
    """Simulated chips of SOPHGO: ``spawn`` starts ranks on them."""
    from ranktable.simulate.requirements import (
        refuse_missing_torch,
        refuse_real_package,
    )
    from ranktable.simulate.simulated_chips import SimulatedChips

    refuse_real_package(is_forced=False)
    refuse_missing_torch()
    return SimulatedChips()
