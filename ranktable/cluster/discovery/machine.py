"""The node that is probed: its files and tools, below a folder that stands for /."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.schema.files import UnreadableError, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class NotDetectedError(Exception):
    """Something could not be found out; the text is the reason."""


class HangingError(NotDetectedError):
    """A tool did not end."""


class NotInstalledError(NotDetectedError):
    """A tool is not there."""


MAX_OUTPUT_BYTES = 1 << 20
"""Most bytes of each output stream; the output for a node has some kilobytes."""

_NOT_THERE = "is not there"
_PART_BYTES = 1 << 16
_LINGER_S = 0.1
"""Time for the remaining output of a tool that has ended."""

_END_S = 1.0
"""Time for a killed tool to end; one that hangs in its driver is not waited for."""


def run_command(
    arguments: Sequence[str], *, env: Mapping[str, str], timeout_s: float
) -> str:
    """Return what a program prints on standard output.

    No shell is used and standard input is empty. After the time-out the program and
    everything that it started are killed.

    Raises:
        NotDetectedError: It cannot be started, fails, does not end or prints too much.
    """
    name = os.path.basename(arguments[0])
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
            arguments,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise NotDetectedError(f"{name} cannot be started: {reason.lower()}") from None
    try:
        out, err = _read(process, name, time.monotonic() + timeout_s, timeout_s)
    finally:
        _end(process)
    if process.returncode:
        raise NotDetectedError(_failed(name, process.returncode, err or out))
    return out.decode("utf-8", "replace")


def _read(
    process: subprocess.Popen[bytes], name: str, end: float, timeout_s: float
) -> tuple[bytes, bytes]:
    """Return both output streams of a tool, if it ends in time."""
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, found in ((process.stdout, out), (process.stderr, err)):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ, found)
        while selector.get_map() and time.monotonic() < end:
            ready = selector.select(_LINGER_S)
            if not ready and process.poll() is not None:
                break  # a process that it started keeps the pipes open
            for key, _ in ready:
                if not _take(key.fd, key.data, name):
                    selector.unregister(key.fileobj)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(end - time.monotonic(), 0))
    if process.returncode is None:
        raise HangingError(f"{name} did not end within {timeout_s:g} s")
    return bytes(out), bytes(err)


def _take(descriptor: int, found: bytearray, name: str) -> bool:
    """Read the available bytes; return False at the end of the stream."""
    part = os.read(descriptor, _PART_BYTES)
    found += part
    if len(found) > MAX_OUTPUT_BYTES:
        raise NotDetectedError(f"{name} prints more than {MAX_OUTPUT_BYTES} bytes")
    return bool(part)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the processes of a tool that still run, and close its pipes."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def _failed(name: str, status: int, output: bytes) -> str:
    how = f"exit status {status}" if status > 0 else f"signal {-status}"
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return f"{name} failed with {how}" + (f": {lines[0][:200]}" if lines else "")


def recorded_name(*words: str) -> str:
    """Return the name of the file with the recorded output of a command.

    Blanks, slashes and underscores are one underscore, however many there are.

    >>> recorded_name("hccn_tool", "-i", "0", "-ip", "-g")
    'hccn_tool_-i_0_-ip_-g'
    """
    return re.sub(r"[^A-Za-z0-9.,=:-]+", "_", "_".join(words))


ROOT = "/"
TIMEOUT_S = 10.0
"""For one tool; they need a second or two, or hang if the driver does."""

_MAX_LINKS = 40  # as Linux follows
_MAX_FILE_BYTES = 1 << 20
RECORDED = "commands"
"""Folder below another root than / with the outputs of tools; see ``record``."""

FAILED = ".failed"
"""Ending of a file there that has the reason why a tool gave no output."""

_USUAL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node.

    Attributes:
        root: Folder that stands for /.
        runs_programs: Whether programs below another root than / are run. They come
            from other people, and would run with the rights of this user.
        timeout_s: Time limit of every tool.
        env: Environment of the tools.
        outputs: What tools printed, or why they printed nothing: each is run once.
        hanging: Why a tool is not asked again, by its name: it hung once. It is often
            asked chip by chip.
    """

    root: str = ROOT
    runs_programs: bool = False
    timeout_s: float = TIMEOUT_S
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    outputs: dict[tuple[str, ...], str | NotDetectedError] = field(
        default_factory=dict, repr=False
    )
    hanging: dict[str, NotDetectedError] = field(default_factory=dict, repr=False)

    @property
    def is_this_one(self) -> bool:
        """Whether it is the running machine, not a folder that stands for one."""
        return os.path.realpath(self.root) == ROOT

    def path(self, path: str) -> str:
        """Return the real path of a path of the node.

        Below another root, links are followed as they would be there: an absolute one
        begins at that root, and none leaves it.
        """
        if self.is_this_one:
            return os.path.join(self.root, path.lstrip("/"))
        left = [part for part in reversed(path.split("/")) if part]
        at: list[str] = []
        num_links = 0
        while left:
            part = left.pop()
            if part in (".", ".."):
                del at[len(at) - (part == "..") :]
                continue
            real = os.path.join(self.root, *at, part)
            if not os.path.islink(real):
                at.append(part)
                continue
            num_links += 1
            if num_links > _MAX_LINKS:
                return os.path.join(self.root, "too many links", part)
            target = os.readlink(real)
            at = [] if target.startswith("/") else at
            left += [one for one in reversed(target.split("/")) if one]
        return os.path.join(self.root, *at)

    def host(self) -> str:
        """Return the host name, for another root that in its /etc/hostname."""
        name = None if self.is_this_one else self.first_line("/etc/hostname")
        return name or socket.gethostname()

    @property
    def has_name(self) -> bool:
        """Whether its name is known; a folder that stands for a host may lack it."""
        return self.is_this_one or self.first_line("/etc/hostname") is not None

    def exists(self, path: str) -> bool:
        """Whether the node has a file, a folder or a device at this path."""
        return os.path.exists(self.path(path))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def numbers(self, folder: str, prefix: str) -> list[int]:
        """Return the N of all names in a folder that are the prefix and N."""
        pattern = re.compile(re.escape(prefix) + r"(0|[1-9][0-9]{0,5})")
        matches = map(pattern.fullmatch, self.names(folder))
        return sorted(int(match[1]) for match in matches if match)

    def text(self, path: str) -> str:
        """Return the text of a small file.

        Raises:
            NotDetectedError: It cannot be read.
        """
        try:
            data = read_file(self.path(path), _MAX_FILE_BYTES, pipe_wait_s=0)
        except UnreadableError as error:
            raise NotDetectedError(f"{path}: {error.message}") from None
        return data.decode("utf-8", "replace")

    def first_line(self, path: str) -> str | None:
        """Return the first line of a small file, None if there is none."""
        try:
            return self.text(path).strip().partition("\n")[0].strip() or None
        except NotDetectedError:
            return None

    def run(
        self,
        program: str,
        *arguments: str,
        folders: Sequence[str] = (),
        libraries: str | None = None,
    ) -> str:
        """Return the output of a tool of the node.

        Args:
            program: Its name.
            arguments: Its arguments.
            folders: Where its vendor installs it, besides the usual folders.
            libraries: Folder of vendor's libraries that it needs.

        Raises:
            NotDetectedError: It is not installed or cannot be run, fails, does not end
                or prints too much.
        """
        command = (program, *arguments)
        if command not in self.outputs:
            try:
                self.outputs[command] = self._output(command, folders, libraries)
            except NotDetectedError as error:
                self.outputs[command] = error
        output = self.outputs[command]
        if isinstance(output, NotDetectedError):
            raise output
        return output

    def _output(
        self, command: tuple[str, ...], folders: Sequence[str], libraries: str | None
    ) -> str:
        program, *arguments = command
        recorded = self._recorded(recorded_name(*command))
        if recorded is not None:
            return recorded
        found = self.find(program, folders)
        if found is None:
            raise NotInstalledError(f"{program} {_NOT_THERE}")
        if not (self.is_this_one or self.runs_programs):
            raise NotDetectedError(
                f"{program} lies below --root and was not run; --run-programs runs it"
            )
        env = dict(self.env)
        if libraries is not None:
            known = (self.path(libraries), env.get("LD_LIBRARY_PATH", ""))
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, known))
        if program in self.hanging:
            raise self.hanging[program]
        try:
            return run_command([found, *arguments], env=env, timeout_s=self.timeout_s)
        except HangingError as error:
            self.hanging[program] = error
            raise

    def _recorded(self, name: str) -> str | None:
        """Return a recorded output of a tool, None if there is none."""
        if self.is_this_one:
            return None
        for file in self.names(RECORDED):
            known = file.removesuffix(".txt").removesuffix(FAILED)
            if recorded_name(known) == name:
                text = self.text(f"{RECORDED}/{file}")
                if file.endswith(FAILED):
                    is_there = not text.strip().endswith(_NOT_THERE)
                    raise (NotDetectedError if is_there else NotInstalledError)(
                        text.strip()
                    )
                return text
        return None

    def find(self, program: str, folders: Sequence[str] = ()) -> str | None:
        """Return the path of a tool, None if it is not installed."""
        places = [*_USUAL_FOLDERS, *folders]
        if self.is_this_one:
            places = [*self.env.get("PATH", "").split(":"), *places]
        for place in filter(None, places):
            path = os.path.join(place, program)
            path = path if self.is_this_one else self.path(path)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return None
