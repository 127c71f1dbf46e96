"""What several tests share."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import effort as effort  # noqa: PLC0414 - registers the profiles
from tests.commands import Commands, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
TIMEOUT_S = 60

settings.load_profile("fast")  # an option of the command line wins


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


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """What starts commands without importing everything each time."""
    with contextlib.closing(Commands()) as started:
        yield started


@pytest.fixture
def run(tmp_path: Path, commands: Commands) -> Callable[..., Outcome]:
    """Run an installed command in an empty folder, with a clean environment."""

    def run_command(
        program: str,
        *arguments: str,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Outcome:
        done = commands.run(
            program,
            arguments,
            given=given,
            env={**clean_environment(), **(env or {})},
            cwd=cwd or tmp_path,
            timeout_s=TIMEOUT_S,
        )
        assert b"Traceback" not in done.err, done.err.decode()
        return Outcome(done.status, done.out.decode(), done.err.decode())

    return run_command
