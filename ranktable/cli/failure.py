"""What a user sees when a command fails: one message, never a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from ranktable.schema.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFECTS_FOUND = 1
COULD_NOT_JUDGE = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it

DEBUG_VARIABLE = "RANKTABLE_DEBUG"
"""Set to anything, it lets the traceback of an internal error through."""


class CommandError(Exception):
    """A command that cannot go on; its text is what the user reads."""

    def __init__(self, message: str, status: int = COULD_NOT_JUDGE) -> None:
        """Keep the message and the exit status."""
        super().__init__(message)
        self.status = status


@contextlib.contextmanager
def reported(program: str) -> Iterator[None]:
    """Turn every exception into a message on standard error and an exit status."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough. Python flushes once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except CommandError as error:
        sys.exit(_say(program, str(error), error.status))
    except Exception as error:  # the last line of defence
        if os.environ.get(DEBUG_VARIABLE):
            raise
        sys.exit(_say(program, _message(error), COULD_NOT_JUDGE))


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror.lower()}"
    if isinstance(error, ValueError):  # ours: what was given is wrong
        return str(error)
    name = type(error).__name__
    return (
        f"internal error: {name}: {error}\n"
        f"please report it with the output of the same command under {DEBUG_VARIABLE}=1"
    )


def _say(program: str, message: str, status: int) -> int:
    lines = [printable(line) for line in message.splitlines()] or ["failed"]
    with contextlib.suppress(OSError):
        sys.stderr.write("\n".join([f"{program}: {lines[0]}", *lines[1:]]) + "\n")
    return status
