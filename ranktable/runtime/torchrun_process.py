"""The process of ``ranktable run``: torchrun, without tracebacks of its own.

Ctrl-C, or a rank that fails, ends torchrun with an exception. Its traceback does not
help: a script that raises has printed its own. Beside torchrun a thread watches for the
other nodes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ranktable.runtime.node_watch import (
    DEFAULT_TIMEOUT_S,
    NodeWatch,
    end_ranks,
    has_children,
    note_inherited,
    say,
)
from ranktable.runtime.table import REMOVED_AT_END, TIMEOUT_S

if TYPE_CHECKING:
    from types import FrameType

_SIGNALLED = 128  # plus the signal, as shells report it
_GRACE_S = 1.0
_JOIN_S = 3.0

_own_table: list[str] = []
"""The table that was written for the ranks of this process, if there is one."""


def main() -> None:
    """Run torchrun with the arguments of this process."""
    note_inherited()
    # Ranks do not get the variable: a run that one of them starts removes nothing.
    if path := os.environ.pop(REMOVED_AT_END, ""):
        _own_table.append(path)
    try:
        _run()
    finally:
        _remove_table()


def _remove_table() -> None:
    """Remove the table that was written for the ranks, and its folder if empty."""
    for path in _own_table:
        with suppress(OSError):
            os.unlink(path)
            os.rmdir(os.path.dirname(path))


def _end_now(status: int) -> NoReturn:
    """End at once: torchrun waits, or Python starts, and no rank is running."""
    _remove_table()
    os._exit(status)


def _run() -> None:
    before = signal.getsignal(signal.SIGINT)
    is_pythons = before is signal.default_int_handler  # else it is ignored
    if is_pythons:
        signal.signal(signal.SIGINT, _leave)  # an import would print a traceback
    _end_after_signals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # from ranktable run
    sys.argv[0] = "torchrun"  # as its help names it
    timeout_s = float(os.environ.pop(TIMEOUT_S, DEFAULT_TIMEOUT_S))
    import torch.distributed.run  # noqa: F401 - before a thread and a handler need it

    if "--node-rank" not in sys.argv:
        failure = _failure_of_torchrun(before if is_pythons else None)
        sys.exit(0 if failure is None else failure.status)
    watch = NodeWatch(sys.argv[1:], timeout_s, _end_now)
    thread = Thread(target=watch.run, daemon=True)
    thread.start()
    failure = _failure_of_torchrun(before if is_pythons else None)
    status = 0
    if failure is not None:
        for signum in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(signum)):  # a second one: no traceback
                signal.signal(signum, _leave)
        watch.tell_failure(failure.how, had_ranks=failure.had_ranks)
        status = 1 if watch.has_ended else failure.status
    watch.stop()
    thread.join(_JOIN_S)
    if thread.is_alive():
        # Python would end it within a call of the store, which aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        _end_now(status)
    sys.exit(status)


class _Failure(NamedTuple):
    status: int
    how: str
    had_ranks: bool = False


def _failure_of_torchrun(on_ctrl_c: Any) -> _Failure | None:
    """Run torchrun, and return how it has failed."""
    from torch.distributed.elastic.multiprocessing import api, errors
    from torch.distributed.run import main as torchrun

    try:
        if on_ctrl_c is not None:
            # With --signals-to-handle torchrun may have ranks and no handler.
            signal.signal(signal.SIGINT, on_ctrl_c)
        torchrun()
    except KeyboardInterrupt:
        end_ranks()
        return _Failure(_SIGNALLED + signal.SIGINT, "was ended by SIGINT")
    except api.SignalException as ended:
        end_ranks()
        name = signal.Signals(ended.sigval).name
        return _Failure(_SIGNALLED + ended.sigval, f"was ended by {name}")
    except errors.ChildFailedError as failed:
        sys.stderr.write(f"{failed}\n")  # which rank, and how it has ended
        return _Failure(1, "has failed", had_ranks=True)
    except RuntimeError as failed:  # no store: a port in use, a node that never came
        say(f"torchrun: {str(failed).partition(chr(10))[0]}")
    else:
        return None
    return _Failure(1, "has failed")


def _leave(signum: int, _frame: FrameType | None) -> NoReturn:
    _end_now(_SIGNALLED + signum)  # nothing is started yet, or any longer


def _end_after_signals() -> None:
    """Make signals end this process while torchrun waits for other nodes.

    torchrun then waits in torch's store. Python calls no handler before the store
    answers, which takes up to 15 minutes; only the byte of the signal comes at once.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    Thread(target=_end_without_ranks, args=(reader,), daemon=True).start()


def _end_without_ranks(reader: int) -> None:
    """End after a signal, unless torchrun has ranks.

    Then it does not wait for other nodes: it ends its ranks, shows what they have
    written, and ends. A reader of its output may take any time.
    """
    while True:
        signum = os.read(reader, 1)[0]
        had_ranks = has_children()
        time.sleep(_GRACE_S)
        if not had_ranks and not has_children():
            _end_now(_SIGNALLED + signum)


if __name__ == "__main__":
    main()
