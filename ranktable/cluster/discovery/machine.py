"""The node that is looked at: its files and its tools, below a folder that is its /."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.discovery.command import run_command
from ranktable.cluster.discovery.unseen import UnseenError
from ranktable.schema.files import UnreadableError, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = "/"
TIMEOUT_S = 10.0
"""For one tool; they answer in a second or two, and a wedged driver never lets them."""

_MAX_FILE_BYTES = 1 << 20
_USUAL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node.

    Attributes:
        root: Folder that stands for /.
        timeout_s: Time that every tool has.
        env: Environment of the tools.
    """

    root: str = ROOT
    timeout_s: float = TIMEOUT_S
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def is_this_one(self) -> bool:
        """Whether it is the machine we run on, not a folder that stands for one."""
        return os.path.realpath(self.root) == ROOT

    def path(self, path: str) -> str:
        """Return the real place of a path of the node."""
        return os.path.join(self.root, path.lstrip("/"))  # noqa: PTH118 - any name

    def host(self) -> str:
        """Return the name of the node: its own, or that in its /etc/hostname."""
        if not self.is_this_one:
            try:
                return self.text("/etc/hostname").strip() or socket.gethostname()
            except UnseenError:
                pass
        return socket.gethostname()

    def exists(self, path: str) -> bool:
        """Whether the node has a file, a folder or a device of this name."""
        return os.path.exists(self.path(path))  # noqa: PTH110 - any name

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            return sorted(os.listdir(self.path(folder)))  # noqa: PTH208 - any name
        except OSError:
            return []

    def numbers(self, folder: str, prefix: str) -> list[int]:
        """Return the numbers of the names in a folder that are a prefix and one."""
        pattern = re.compile(re.escape(prefix) + r"(0|[1-9][0-9]{0,5})")
        matches = map(pattern.fullmatch, self.names(folder))
        return sorted(int(match[1]) for match in matches if match)

    def text(self, path: str) -> str:
        """Return the text of a small file.

        Raises:
            UnseenError: It cannot be read.
        """
        try:
            data = read_file(self.path(path), _MAX_FILE_BYTES)
        except UnreadableError as error:
            raise UnseenError(f"{path}: {error.message}") from None
        return data.decode("utf-8", "replace")

    def first_line(self, path: str) -> str | None:
        """Return the first line of a small file, None if there is none."""
        try:
            return self.text(path).strip().partition("\n")[0].strip() or None
        except UnseenError:
            return None

    def run(
        self,
        program: str,
        *arguments: str,
        folders: Sequence[str] = (),
        libraries: str | None = None,
    ) -> str:
        """Return what a tool of the node prints.

        Args:
            program: Its name.
            arguments: Its arguments.
            folders: Where its vendor installs it, if not in a usual folder.
            libraries: Folder of the vendor's libraries that it needs.

        Raises:
            UnseenError: It is not installed, fails, hangs or prints too much.
        """
        found = self.find(program, folders)
        if found is None:
            raise UnseenError(f"{program} is not installed")
        env = dict(self.env)
        if libraries is not None:
            known = (self.path(libraries), env.get("LD_LIBRARY_PATH", ""))
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, known))
        return run_command([found, *arguments], env=env, timeout_s=self.timeout_s)

    def find(self, program: str, folders: Sequence[str] = ()) -> str | None:
        """Return the path of a tool, None if it is not installed."""
        places = [self.path(folder) for folder in (*_USUAL_FOLDERS, *folders)]
        if self.is_this_one:
            places = [*self.env.get("PATH", "").split(":"), *places]
        for place in filter(None, places):
            path = os.path.join(place, program)  # noqa: PTH118 - any name
            if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
                return path
        return None
