"""Starts the commands of the project by forking a process that has them imported.

For most commands the imports take longer than the command. A fork is a process like any
other, with its own streams, folder, environment, umask and exit status; only the
imports are done already. ``tests.commands`` starts this, and says when that will not
do.

A request comes with the descriptors of the three standard streams and of the folder:
``program umask count argument... name=value...``, with NUL between them. The answer is
the exit status, negative for a signal, or nothing if a new interpreter is needed. While
it runs, the caller may send the number of a signal for it; if the caller has ended, the
program is killed.

Python itself is one of the programs, and ``sys.executable`` asks the server for it, so
that whatever these programs start is a fork as well. With ``torch`` as its third
argument a server has imported torch too, and torchrun is a program besides: a rank that
starts costs a fork, not an import of two seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import importlib.metadata
import io
import os
import pkgutil
import runpy
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
import types
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import typer.main

from ranktable.cli.app import COMMANDS, app_for, make_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_REQUEST_BYTES = 1 << 17
PACKAGES = ("schema", "cluster", "layout", "report", "cli")
LIBRARIES = (
    *("ranktable.runtime.environment", "ranktable.runtime.rules", "jsonschema", "yaml"),
    *("rich.table", "rich.tree", "rich.console"),
)
# What every rank imports, those of tests.rank_worker and on simulated chips too.
TORCH_LIBRARIES = (
    *("torch", "torch.distributed", "torch.distributed.run", "numpy.random"),
    *("ranktable.runtime.process_group", "ranktable.dist.collectives"),
    "ranktable.simulate.backend.joining",
    *("tests.rank_worker", "hypothesis.strategies"),
)
# What an interpreter, or a library, looks at but once.
AT_START = ("PYTHON", "LC_", "LANG", "TYPER_", "_TYPER_")
# What typer looks at each time that a shell asks it to complete something.
OF_COMPLETION = ("_TYPER_COMPLETE_ARGS", "_TYPER_COMPLETE_FISH_ACTION")
# Of these a fork that is to be Python itself can do what there is to do.
DONE_LATER = (
    *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHON_EXEC", "PYTHONDONTWRITEBYTECODE"),
)
IMPORTED_FIRST = "RANKTABLE_TESTS_IMPORTED_FIRST"
"""The variable with what this process is to import before it forks a program."""
STDERR = 2
BIN = Path(sys.executable).parent
ROOT = Path(__file__).parent.parent


def main() -> None:
    """Serve on an inherited socket until standard input ends; remove the folder."""
    folder, descriptor, *more = sys.argv[1:]
    entry_points: dict[str, Callable[[], object]] = {
        point.name: point.load()
        for point in importlib.metadata.distribution("ranktable").entry_points
        if point.group == "console_scripts"
    }
    import_all()
    build_commands()
    assert not {"torch", "numpy", "typer.rich_utils"} & set(sys.modules)
    entry_points["python"] = run_python
    sys.path[0] = str(ROOT)
    import_libraries(TORCH_LIBRARIES if more else ())
    if more:
        entry_points["torchrun"] = run_torchrun
    sys.executable = f"{folder}/python"
    sys.path[0] = str(BIN)
    Server(socket.socket(fileno=int(descriptor)), entry_points).serve()
    shutil.rmtree(folder)


def import_all() -> None:
    for package in PACKAGES:
        path = importlib.import_module(f"ranktable.{package}").__path__
        for module in pkgutil.walk_packages(path, f"ranktable.{package}."):
            importlib.import_module(module.name)
    for library in LIBRARIES:
        importlib.import_module(library)


def import_libraries(names: Iterable[str]) -> None:
    """Import modules once for all forks; they begin nothing when they are imported."""
    for name in names:
        importlib.import_module(name)
    tempfile.tempdir = None  # torch asked for it, and each fork has its own TMPDIR
    # What torch takes apart again when an interpreter ends is this process' alone, and
    # costs each fork 45 ms.
    for each in weakref.finalize._registry:  # type: ignore[attr-defined]
        each.atexit = False
    gc.collect()
    gc.freeze()


def run_torchrun() -> None:
    importlib.import_module("torch.distributed.run").main()


def run_python() -> None:
    """Run Python with the arguments of an interpreter: -c, -m or a script."""
    arguments = sys.argv[1:]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    while arguments[0] in ("-u", "-W", "-X"):
        if arguments[0] == "-u":
            for opened in (sys.stdout, sys.stderr):
                cast("io.TextIOWrapper", opened).reconfigure(write_through=True)
        arguments = arguments[1 if arguments[0] == "-u" else 2 :]
    sys.path[0:1] = [
        each for each in os.environ.get("PYTHONPATH", "").split(":") if each
    ]
    sys.modules.pop("__main__", None)
    what = arguments[0]
    if what == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        main_module = types.ModuleType("__main__")
        sys.modules["__main__"] = main_module
        exec(compile(arguments[1], "<string>", "exec"), vars(main_module))  # noqa: S102
    elif what == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        sys.modules.pop(arguments[1], None)  # runpy warns of what is there
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(what).resolve().parent))
        runpy.run_path(what, run_name="__main__")


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
    return {
        name: env[name]
        for name in env
        if name.startswith(AT_START) and name not in OF_COMPLETION
    }


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
                elif key.data in self.running:
                    self._pass_on(key.data, self.running[key.data])

    def _pass_on(self, pid: int, asker: socket.socket) -> None:
        """Pass a signal of the caller on to its program; the caller may have ended."""
        number = b""
        with contextlib.suppress(OSError):
            number = asker.recv(16)
        os.kill(pid, int(number) if number else signal.SIGKILL)
        if not number:
            self.selector.unregister(asker)

    def _start(self, asker: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(asker, MAX_REQUEST_BYTES, 4)
        if not data:  # who was about to ask has been ended
            asker.close()
            return
        program, umask, count, *rest = os.fsdecode(data).split("\0")
        arguments, variables = rest[: int(count)], rest[int(count) :]
        env = dict(variable.split("=", 1) for variable in variables if variable)
        if missing := set(env.pop(IMPORTED_FIRST, "").split()) - set(sys.modules):
            import_libraries(missing)
        entry_point = self.entry_points.get(program)
        if entry_point is None or not self._has_begun_like(program, env):
            asker.close()
        elif (pid := os.fork()) == 0:
            sys.argv = [str(BIN / program), *arguments]
            os.environ.clear()
            os.environ.update(env)
            show_environment()
            os.umask(int(umask))
            take(descriptors)
            leave(entry_point)
        else:
            self.running[pid] = asker
            self.selector.register(asker, selectors.EVENT_READ, pid)
        for descriptor in descriptors:
            os.close(descriptor)

    def _has_begun_like(self, program: str, env: dict[str, str]) -> bool:
        """Whether this process has begun as one with these variables would."""
        wanted, had = at_start(env), dict(self.at_start)
        has_torch = "torchrun" in self.entry_points
        if has_torch and env.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0":
            return False
        if has_torch or program == "python":
            for name in DONE_LATER:
                wanted.pop(name, None)
                had.pop(name, None)
        return wanted == had

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


def show_environment() -> None:
    """Let /proc/PID/environ show the variables of this process and its own forks.

    It is the memory that an interpreter started with, and nobody's any more.
    """
    numbers = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()
    begin, end = (int(number) for number in numbers[47:49])  # env_start and env_end
    shown = b"".join(b"%s=%s\0" % pair for pair in os.environb.items())[: end - begin]
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, shown, len(shown))


def take(descriptors: list[int]) -> None:
    """Use the streams and the folder of a request in this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, folder = descriptors
    os.fchdir(folder)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # that of the list itself
            if int(name) > STDERR:
                os.close(int(name))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = stream(number, getattr(sys, name))
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)


def stream(number: int, before: TextIO) -> TextIO:
    """Open a standard stream as an interpreter does at its start."""
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
        # As an interpreter that ends: it waits for threads.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
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
    except Exception as error:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        sys.last_value = error
        code = 1
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


if __name__ == "__main__":
    main()
