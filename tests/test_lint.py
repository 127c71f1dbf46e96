"""What the linter and make look at, and what starts processes in tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.commands import clean_environment, run_process, run_python

ROOT = Path(__file__).resolve().parent.parent
STARTS_PROCESSES = {"subprocess", "pty"}
HARNESSES = {"commands.py", "ranks.py"}


def test_ruff_looks_at_every_module_of_the_package() -> None:
    # By itself it passes over folders whose name is that of build output: dist.
    modules = {str(path) for path in (ROOT / "ranktable").rglob("*.py")}

    done = run_python("-m", "ruff", "check", "--show-files", ".", cwd=ROOT)

    assert modules - set(done.out.splitlines()) == set()


@pytest.mark.parametrize("target", ["test", "test-all"])
def test_make_runs_the_tests_in_parallel_and_those_of_deadlines_alone(
    target: str,
) -> None:
    command = ["make", "--dry-run", target]
    done = run_process(command, env=clean_environment(), cwd=ROOT)
    lines = [line for line in done.out.splitlines() if "'deadline and" in line]
    parallel = [line for line in done.out.splitlines() if "--dist loadgroup" in line]

    assert [line.split(" -m ")[:2] for line in lines] == [
        [".venv/bin/python", "pytest -q"]
    ]
    assert parallel
    assert all("not deadline" in line for line in parallel)


def test_two_harnesses_start_the_processes_of_all_tests() -> None:
    files = [*ROOT.glob("tests/*.py"), *ROOT.glob("tests/property/*.py")]
    found = {file.name for file in files if _imported(file) & STARTS_PROCESSES}

    assert found == HARNESSES


def _imported(file: Path) -> set[str]:
    """Return the first parts of the names that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}
