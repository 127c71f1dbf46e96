"""SOPHGO's ``CHIP_MAP``: the chip of each local rank of this node.

Rank and size come from torchrun or Open MPI, which have their own modules.

Source: sophgo/torch-tpu, torch_tpu/tpu/utils.py, csrc/core/TPUDeviceManager.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.runtime.chip_map import VARIABLE, read_chip_map
from ranktable.runtime.launchers.launcher import Launcher, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.runtime.values import Value


def _more(env: Mapping[str, str]) -> Iterator[tuple[str, Value, str]]:
    chips = read_chip_map(env)
    if chips is not None:
        yield "local_chip_map", tuple(chips), VARIABLE


SOPHGO = Launcher(
    name="sophgo",
    level=Scope.NODE,
    markers=(VARIABLE,),
    more=_more,
)
LAUNCHERS = (SOPHGO,)
