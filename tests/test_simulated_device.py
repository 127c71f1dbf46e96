"""The simulated device, topic by topic; each topic has a process of its own."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.commands import TORCH_ENVIRONMENT, with_torch

pytestmark = pytest.mark.torch

CHECKS = Path(__file__).parent / "simulated_device"
TIMEOUT_S = 150
BARE = "installing"  # its checks install the device themselves, so each has a process
SLOW = (BARE, "layers", "optimisers", "training")


def checks() -> list[object]:
    return [
        pytest.param(
            path.stem, node.name, marks=[pytest.mark.slow] * (path.stem in SLOW)
        )
        for path in sorted(CHECKS.glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]


@cache
def outcomes(*arguments: str) -> dict[str, str]:
    done = subprocess.run(  # noqa: S603 - the project's own checks
        [with_torch() / "python", "-m", "tests.simulated_device.run", *arguments],
        cwd=CHECKS.parent.parent,
        env={**os.environ, **TORCH_ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("topic", "check"), checks())
def test_simulated_device(topic: str, check: str) -> None:
    found = outcomes(topic, check) if topic == BARE else outcomes(topic)

    assert found[check] == "", found[check]
