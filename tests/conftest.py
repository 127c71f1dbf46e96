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
    from collections.abc import Callable, Iterator, Mapping

    from tests.dist_ranks import Pool

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


@pytest.fixture(scope="session")
def _rank_pools() -> Iterator[None]:
    """Keep the ranks of ``ranktable.dist`` for all tests of a session."""
    from tests import dist_ranks  # noqa: PLC0415 - it imports torch

    with dist_ranks.forking():
        yield
        dist_ranks.stop_all()


def _fixture_of_ranks(*names: str) -> Callable[..., Pool]:
    """Return a fixture that is each of some pools: ``gloo-3`` has three ranks."""

    @pytest.fixture(params=names)
    def ranks(request: pytest.FixtureRequest, _rank_pools: None) -> Pool:
        from tests import dist_ranks  # noqa: PLC0415 - it imports torch

        return dist_ranks.named(request.param)

    return ranks


ranks = _fixture_of_ranks("gloo-2", "gloo-3", "gloo-4", "sccl-2", "sccl-3", "nccl-2")
pair = _fixture_of_ranks("gloo-2", "sccl-2", "nccl-2")
trio = _fixture_of_ranks("gloo-3", "sccl-3")
quartet = _fixture_of_ranks("gloo-4")
gloo = _fixture_of_ranks("gloo-3")
manual = _fixture_of_ranks("sccl:doc-2")
alone = _fixture_of_ranks("none-0")
