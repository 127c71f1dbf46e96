"""The process of ``ranktable run``: torchrun, without tracebacks of its own.

Ctrl-C, or a rank that fails, ends torchrun with an exception. Its traceback does not
help: a script that raises has printed its own.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

_SIGNALLED = 128  # plus the signal, as shells report it


def main() -> None:
    """Run torchrun with the arguments of this process."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)  # an import would print a traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # from ranktable run
    sys.argv[0] = "torchrun"  # as its help names it
    from torch.distributed.elastic.multiprocessing import api, errors  # noqa: PLC0415
    from torch.distributed.run import main as torchrun  # noqa: PLC0415

    try:
        # With --signals-to-handle torchrun may have ranks and no handler of its own.
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


if __name__ == "__main__":
    main()
