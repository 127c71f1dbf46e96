"""Small files, pods and hosts, and what is found in each: ``cases/files``.

A case begins with lines of what is found, each after ``@@``; the file follows, up to a
blank line before the next case. What has no place in such a text (bytes, ends of lines,
a blank line at the end) is written in the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent / "cases" / "files"


def read_cases(name: str) -> dict[str, str]:
    """Return what is found in each text of a file of cases."""
    cases: dict[str, str] = {}
    found: list[str] = []
    lines: list[str] = []
    for line in [*(FOLDER / f"{name}.txt").read_text().split("\n"), "@@ end"]:
        if not line.startswith("@@ "):
            lines.append(line)
            continue
        if lines:
            text = "".join(f"{each}\n" for each in lines[:-1])
            assert text not in cases, text
            cases[text] = "\n".join(found)
            found, lines = [], []
        found.append(line[3:])
    return cases


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts as they are, each with the folders of its name."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8", newline="")
