"""What several tests share."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import settings

from tests import effort as effort  # noqa: PLC0414 - registers the profiles
from tests.commands import TIMEOUT_S, Commands, clean_environment
from tests.commands import Outcome as Outcome  # noqa: PLC0414 - tests have it from here
from tests.ranks import Pool, named, stop_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).parent

# Ranks are asked to call functions of the test's own module, which need torch.
collect_ignore = (
    []
    if importlib.util.find_spec("torch")
    else [
        "property/test_dist_laws.py",
        *(file.name for file in HERE.glob("test_dist_*.py")),
    ]
)

CORPUS = HERE / "corpus"

settings.load_profile("fast")  # an option of the command line wins


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expected outputs in tests/golden",
    )


Run: TypeAlias = "Callable[..., Outcome]"


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
        for words in (b"Traceback (most recent call last)", b"internal error"):
            if words not in given:
                assert words not in done.err, done.err.decode()
        return Outcome(done.status, done.out.decode(), done.err.decode())

    return run_command


@pytest.fixture(scope="session")
def _rank_pools() -> Iterator[None]:
    """Keep the ranks of ``ranktable.dist`` for all tests of a session."""
    yield
    stop_all()


def _fixture_of_ranks(*names: str) -> Callable[..., Pool]:
    """Return a fixture that is each of some pools: ``gloo-3`` has three ranks."""

    @pytest.fixture(params=names)
    def ranks(request: pytest.FixtureRequest, _rank_pools: None) -> Pool:
        return named(request.param)

    return ranks


@pytest.fixture
def fresh() -> Iterator[Pool]:
    """Two ranks of gloo, for one test."""
    started = Pool("gloo", 2)
    yield started
    started.stop()


ranks = _fixture_of_ranks(
    "gloo-2", "gloo-3", "gloo-4", "sccl-2", "sccl-3", "nccl-2", "nccl-3"
)
pair = _fixture_of_ranks("gloo-2", "sccl-2", "nccl-2")
trio = _fixture_of_ranks("gloo-3", "sccl-3", "nccl-3")
quartet = _fixture_of_ranks("gloo-4", "nccl-4")
on_cuda = _fixture_of_ranks("nccl-2")
four_on_cuda = _fixture_of_ranks("nccl-4")
gloo = _fixture_of_ranks("gloo-3")
checking = _fixture_of_ranks("gloo:check-2", "sccl:check-2")
alone = _fixture_of_ranks("none-0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no worker waits for another at the end."""
    marks = ("slow", "torch")
    items.sort(key=lambda item: [item.get_closest_marker(m) is None for m in marks])


def pytest_configure() -> None:
    """Let signals reach what the tests start, also where they run in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
