"""Puts the man pages into the packages: they are made of the help when one is built."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MANUAL = "share/man/man1"
"""Where a wheel's man pages go, below the environment that it is installed in."""


class ManPages(BuildHookInterface[Any]):
    """Writes the man pages, and adds them to a wheel or a source distribution."""

    folder = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them; what installs a clone to work on does without."""
        if version == "editable":
            return
        self.folder = tempfile.mkdtemp(prefix="ranktable-man-")
        script = Path(self.root, "docs", "man_pages.py")
        command = [sys.executable, str(script), self.folder]
        subprocess.run(command, cwd=self.root, check=True)  # noqa: S603 - ours
        is_wheel = self.target_name == "wheel"
        place = MANUAL if is_wheel else "man"
        kind = "shared_data" if is_wheel else "force_include"
        for page in Path(self.folder).iterdir():
            build_data[kind][str(page)] = f"{place}/{page.name}"

    def finalize(self, *_: object) -> None:
        """Remove what was written for the package."""
        if self.folder:
            shutil.rmtree(self.folder)
