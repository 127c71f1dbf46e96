"""What the linter is told to look at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_ruff_looks_at_every_module_of_the_package() -> None:
    # By itself it passes over folders whose name is that of build output: dist.
    modules = {str(path) for path in (ROOT / "ranktable").rglob("*.py")}

    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--show-files", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert modules - set(done.stdout.splitlines()) == set()
