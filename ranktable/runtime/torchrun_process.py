"""The process of ``ranktable run``: torchrun, without tracebacks of its own.

Ctrl-C, or a rank that fails, ends torchrun with an exception. Its traceback does not
help: a script that raises has printed its own.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from threading import Thread
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

_SIGNALLED = 128  # plus the signal, as shells report it
_GRACE_S = 1.0


def main() -> None:
    """Run torchrun with the arguments of this process."""
    before = signal.getsignal(signal.SIGINT)
    is_pythons = before is signal.default_int_handler  # else it is ignored
    if is_pythons:
        signal.signal(signal.SIGINT, _leave)  # an import would print a traceback
    _end_after_signals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # from ranktable run
    sys.argv[0] = "torchrun"  # as its help names it
    from torch.distributed.elastic.multiprocessing import api, errors
    from torch.distributed.run import main as torchrun

    try:
        if is_pythons:
            # With --signals-to-handle torchrun may have ranks and no handler.
            signal.signal(signal.SIGINT, before)
        torchrun()
    except KeyboardInterrupt:
        sys.exit(_SIGNALLED + signal.SIGINT)
    except api.SignalException as ended:
        sys.exit(_SIGNALLED + ended.sigval)
    except errors.ChildFailedError as failed:
        sys.stderr.write(f"{failed}\n")  # which rank, and how it has ended
        sys.exit(1)


def _leave(signum: int, _frame: FrameType | None) -> NoReturn:
    os._exit(_SIGNALLED + signum)  # nothing has been started yet


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
        had_ranks = _has_children()
        time.sleep(_GRACE_S)
        if not had_ranks and not _has_children():
            os._exit(_SIGNALLED + signum)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
