"""Starts the commands of the project by forking a process that has them imported.

Importing costs a command several times what it does. A fork is a process as any other,
with its own streams, folder, environment, umask and end; only the imports are had
already. ``tests.commands`` starts this, and says when that will not do.

A request comes with the descriptors of the three standard streams and of the folder:
``program umask count argument... name=value...``, with NUL between them. The answer is
the exit status, negative for a signal, or nothing where it takes an interpreter that
starts afresh.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import importlib.metadata
import io
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer.main

from ranktable.cli.app import COMMANDS, app_for, make_app

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REQUEST_BYTES = 1 << 17
PACKAGES = ("schema", "cluster", "layout", "report", "cli")
LIBRARIES = (
    *("ranktable.runtime.environment", "ranktable.runtime.rules", "jsonschema", "yaml"),
    *("rich.columns", "rich.markdown", "rich.panel", "rich.traceback"),
)
# What an interpreter, or a library, looks at but once.
AT_START = ("PYTHON", "LC_", "LANG", "TYPER_", "_TYPER_")
STDERR = 2
BIN = Path(sys.executable).parent


def main() -> None:
    """Serve on an inherited socket until standard input ends; remove the folder."""
    folder, descriptor = sys.argv[1:]
    entry_points = {
        point.name: point.load()
        for point in importlib.metadata.distribution("ranktable").entry_points
        if point.group == "console_scripts"
    }
    import_all()
    build_commands()
    assert not {"torch", "numpy", "typer.rich_utils"} & set(sys.modules)
    sys.path[0] = str(BIN)
    gc.collect()
    gc.freeze()
    Server(socket.socket(fileno=int(descriptor)), entry_points).serve()
    shutil.rmtree(folder)


def import_all() -> None:
    for package in PACKAGES:
        path = importlib.import_module(f"ranktable.{package}").__path__
        for module in pkgutil.walk_packages(path, f"ranktable.{package}."):
            importlib.import_module(module.name)
    for library in LIBRARIES:
        importlib.import_module(library)


def build_commands() -> None:
    """Build now what typer builds at each start from the functions of all commands."""
    typer.main.get_command = functools.cache(typer.main.get_command)
    for names in (tuple(COMMANDS), (), *((name,) for name in COMMANDS)):
        typer.main.get_command(make_app(names))
    # A first call also imports what it needs to read arguments.
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
        arguments = ["explain", "RT202"]
        app = app_for(arguments)
        app(arguments, prog_name="ranktable", standalone_mode=False)


def at_start(env: dict[str, str]) -> dict[str, str]:
    return {name: env[name] for name in env if name.startswith(AT_START)}


class Server:
    """Forks for each request, and answers when the fork has ended."""

    def __init__(
        self, listener: socket.socket, entry_points: dict[str, Callable[[], object]]
    ) -> None:
        self.listener = listener
        self.entry_points = entry_points
        self.at_start = at_start(dict(os.environ))
        self.running: dict[int, socket.socket] = {}
        self.selector = selectors.DefaultSelector()

    def serve(self) -> None:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(wake_read, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == 0:
                    self._end()
                    return
                if key.fileobj == wake_read:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake_read, 1 << 12)
                    self._reap()
                elif key.fileobj is self.listener:
                    self._start(self.listener.accept()[0])
                elif key.data in self.running:  # whoever asked has gone
                    os.kill(key.data, signal.SIGTERM)
                    self.selector.unregister(key.fileobj)

    def _start(self, asker: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(asker, MAX_REQUEST_BYTES, 4)
        program, umask, count, *rest = os.fsdecode(data).split("\0")
        arguments, variables = rest[: int(count)], rest[int(count) :]
        env = dict(variable.split("=", 1) for variable in variables if variable)
        entry_point = self.entry_points.get(program)
        if entry_point is None or at_start(env) != self.at_start:
            asker.close()
        elif (pid := os.fork()) == 0:
            sys.argv = [str(BIN / program), *arguments]
            os.environ.clear()
            os.environ.update(env)
            os.umask(int(umask))
            take(descriptors)
            leave(entry_point)
        else:
            self.running[pid] = asker
            self.selector.register(asker, selectors.EVENT_READ, pid)
        for descriptor in descriptors:
            os.close(descriptor)

    def _reap(self) -> None:
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            asker = self.running.pop(pid)
            with contextlib.suppress(KeyError):
                self.selector.unregister(asker)
            with contextlib.suppress(OSError):
                asker.send(str(os.waitstatus_to_exitcode(status)).encode())
            asker.close()

    def _end(self) -> None:
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)


def take(descriptors: list[int]) -> None:
    """Make the streams and the folder of a request those of this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, folder = descriptors
    os.fchdir(folder)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - names are what is wanted
        with contextlib.suppress(OSError):  # that of the list itself
            if int(name) > STDERR:
                os.close(int(name))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = stream(number, getattr(sys, name))
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)


def stream(number: int, before: TextIO) -> TextIO:
    """Open a standard stream as an interpreter does that starts."""
    return io.TextIOWrapper(
        open(number, "wb" if number else "rb", closefd=False),
        encoding=before.encoding,
        errors=before.errors,
        newline="\n" if number else None,
        line_buffering=number == STDERR or os.isatty(number),
    )


def leave(entry_point: Callable[[], object]) -> None:
    """Run a command as its console script does, and end this process."""
    status = 1
    try:
        status = status_of(entry_point)
        atexit._run_exitfuncs()  # noqa: SLF001 - as an interpreter that ends
        for opened in (sys.stdout, sys.stderr):
            opened.flush()
    except BaseException:  # noqa: BLE001 - nothing may get back to the server
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def status_of(entry_point: Callable[[], object]) -> int:
    try:
        code = entry_point()
    except SystemExit as end:
        code = end.code
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


if __name__ == "__main__":
    main()
