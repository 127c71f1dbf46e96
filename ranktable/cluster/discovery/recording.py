"""Record what is read of a node, as a folder that ``--root`` can take the place of /.

The folder has the files that were read, empty ones for the names that were looked for,
and ``commands/``: what each tool printed, or why it printed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.machine import (
    FAILED,
    RECORDED,
    Machine,
    NotDetectedError,
    recorded_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class RecordingMachine(Machine):
    """A node that writes down what is read of it.

    Attributes:
        folder: The folder to fill.
    """

    folder: Path

    def put(self, path: str, text: str) -> None:
        """Write a file of the recording."""
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def host(self) -> str:
        """Return the host name."""
        name = Machine.host(self)
        self.put("/etc/hostname", f"{name}\n")
        return name

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        found = Machine.names(self, folder)
        for name in found:
            self._touch(f"{folder}/{name}")
        return found

    def numbers(self, folder: str, prefix: str) -> list[int]:
        """Return the N of all names in a folder that are the prefix and N."""
        plain = Machine(root=self.root, env=self.env)
        found = plain.numbers(folder, prefix)
        (self.folder / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for number in found:
            self._touch(f"{folder}/{prefix}{number}")
        return found

    def text(self, path: str) -> str:
        """Return the text of a small file."""
        text = Machine.text(self, path)
        self.put(path, text)
        return text

    def run(
        self,
        program: str,
        *arguments: str,
        folders: Sequence[str] = (),
        libraries: str | None = None,
    ) -> str:
        """Return the output of a tool of the node."""
        name = f"{RECORDED}/{recorded_name(program, *arguments)}"
        try:
            text = Machine.run(
                self, program, *arguments, folders=folders, libraries=libraries
            )
        except NotDetectedError as error:
            self.put(f"{name}{FAILED}", f"{error}\n")
            raise
        self.put(name, text)
        return text

    def _touch(self, path: str) -> None:
        place = self.folder / path.lstrip("/")
        if Path(self.path(path)).is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif not place.exists():
            self.put(path, "")
