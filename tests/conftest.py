"""What several tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
TIMEOUT_S = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expected outputs in tests/golden",
    )


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str


Run = "Callable[..., Outcome]"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Outcome]:
    """Run an installed command in an empty folder, with a clean environment."""

    def run_command(
        program: str,
        *arguments: str,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Outcome:
        clean = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME", "LANG", "TMPDIR")
        }
        done = subprocess.run(  # noqa: S603 - the project's own commands
            [Path(sys.executable).parent / program, *arguments],
            input=given,
            env={**clean, **(env or {})},
            cwd=cwd or tmp_path,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run_command
