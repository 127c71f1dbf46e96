"""The simulated device, topic by topic; each topic has a process of its own."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from tests.commands import torch_environment
from tests.ranks import TRAINING, run_program

pytestmark = pytest.mark.torch

CHECKS = Path(__file__).parent / "simulated_device"
BARE = "installing"  # its checks install the device themselves, so each has a process
SLOW = (BARE, "layers", "optimisers", "training")
TRAINS = ("backward", "casting", "modules", "saving", *SLOW[1:])


def marks(topic: str) -> list[pytest.MarkDecorator]:
    group = "training" if topic in TRAINS else topic
    together = [] if topic == BARE else [pytest.mark.xdist_group(group)]
    return together + [pytest.mark.slow] * (topic in SLOW)


def checks() -> list[object]:
    return [
        pytest.param(path.stem, node.name, marks=marks(path.stem))
        for path in sorted(CHECKS.glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]


@cache
def outcomes(*arguments: str) -> dict[str, str]:
    env = {**torch_environment(), **(TRAINING if arguments[0] in TRAINS else {})}
    done = run_program(
        "python", "-m", "tests.simulated_device.run", *arguments, env=env
    )
    assert done.status == 0, done.err
    found: dict[str, str] = json.loads(done.out)
    return found


@pytest.mark.parametrize(("topic", "check"), checks())
def test_simulated_device(topic: str, check: str) -> None:
    found = outcomes(topic, check) if topic == BARE else outcomes(topic)

    assert found[check] == "", found[check]
