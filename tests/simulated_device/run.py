"""Run the checks of one topic in this process: ``python -m ... TOPIC [CHECK]``.

A process holds one simulated device for good, so no check can run within pytest.
Prints a JSON object: the traceback of each check, empty when it passed.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from typing import TYPE_CHECKING

import pytest

from ranktable.simulate import device
from ranktable.simulate.device import module

if TYPE_CHECKING:
    from types import ModuleType

CHIPS = (2, 3, 5, 7)  # not from 0 on, with a gap
CURRENT = 5


def main(topic: str, *chosen: str) -> None:
    if not chosen:
        device.install(chips=CHIPS, module=module)
    checks = importlib.import_module(f"tests.simulated_device.{topic}")
    names = chosen or [name for name in vars(checks) if name.startswith("check_")]
    json.dump({name: failure(checks, name) for name in names}, sys.stdout)


def failure(checks: ModuleType, name: str) -> str:
    if device.chips():
        device.set_device(CURRENT)
    try:
        getattr(checks, name)()
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - reported by the test
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
