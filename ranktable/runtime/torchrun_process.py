"""The process of ``ranktable run``: torchrun, without tracebacks of its own.

Ctrl-C, or a rank that fails, ends torchrun with an exception. Its traceback does not
help: a script that raises has printed its own. While torchrun waits for other nodes, it
says nothing; so every node notes in torchrun's store that it is there, and the first
node names those that are not.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from datetime import timedelta
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any, NoReturn

from ranktable.runtime.agents import agents_of
from ranktable.runtime.table import REMOVED_AT_END, VARIABLE
from ranktable.schema.check import load
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_SIGNALLED = 128  # plus the signal, as shells report it
_GRACE_S = 1.0
_QUIET_S = 10.0
_CONNECT_S = 5.0
_MOST_NAMED = 8
_OTHER_PROGRAM = (
    "waiting for node 0: what answers at {addr}, port {port}, is not torchrun; if "
    "another program uses the port, give another --master-port on every node"
)


_own_table: list[str] = []
"""The table that was written for the ranks of this process, if there is one."""


def main() -> None:
    """Run torchrun with the arguments of this process."""
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
    from torch.distributed.elastic.multiprocessing import api, errors
    from torch.distributed.run import main as torchrun

    if "--node-rank" in sys.argv:
        Thread(target=_watch, args=(sys.argv[1:],), daemon=True).start()
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
    except RuntimeError as failed:  # no store: a port in use, a node that never came
        _say(f"torchrun: {str(failed).partition(chr(10))[0]}")
        sys.exit(1)


def _leave(signum: int, _frame: FrameType | None) -> NoReturn:
    _end_now(_SIGNALLED + signum)  # nothing has been started yet


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
            _end_now(_SIGNALLED + signum)


def _watch(arguments: Sequence[str]) -> None:
    """Note in the store that this node is there; say who is not after a while."""
    node_rank, addr, port = (
        arguments[arguments.index(option) + 1]
        for option in ("--node-rank", "--master-addr", "--master-port")
    )
    start, has_said = time.monotonic(), False
    while (reason := _no_answer(addr, int(port))) is not None:
        if time.monotonic() - start > _QUIET_S and not has_said:
            has_said = True
            _say(f"waiting for node 0: {reason}")
        time.sleep(_GRACE_S / 2)
    late = Timer(_QUIET_S, _say, [_OTHER_PROGRAM.format(addr=addr, port=port)])
    late.daemon = True
    late.start()
    try:
        store = _store(addr, int(port))
    except RuntimeError:
        return  # torchrun tries for longer
    late.cancel()
    store.set(_key(node_rank), "")
    if node_rank == "0":
        time.sleep(max(start + _QUIET_S - time.monotonic(), 0))
        _name_missing(store)


def _no_answer(addr: str, port: int) -> str | None:
    """Return why no program answers at a port, None if one does."""
    try:
        socket.create_connection((addr, port), _CONNECT_S).close()
    except (socket.gaierror, UnicodeError):  # no such name, or none that can be
        return f"{addr} has no address on this node; --master-addr names another host"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return f"{addr}, port {port}, does not answer: {reason}"
    return None


def _store(addr: str, port: int) -> Any:
    """Return torch's store at a port; this may take for ever with another program.

    Raises:
        RuntimeError: Another program answers there.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    timeout = timedelta(seconds=60)
    store = TCPStore(addr, port, None, False, timeout, wait_for_workers=False)
    store.check([_key(0)])  # an older torch asks nothing before
    return store


def _key(node_rank: object) -> str:
    return f"ranktable/node/{node_rank}"


def _name_missing(store: Any) -> None:
    """Print the nodes that have not come to the store."""
    agents = agents_of(load(os.environ[VARIABLE]))
    names = [
        f"node {agent.node_rank}"
        + (f" ({printable(agent.host)})" if agent.host else "")
        for agent in agents
        if not store.check([_key(agent.node_rank)])
    ]
    if names:
        shown = ", ".join(names[:_MOST_NAMED])
        more = len(names) - _MOST_NAMED
        others = f" and {more} more" if more > 0 else ""
        _say(f"waiting for {shown}{others}; start ranktable run there too")


def _say(text: str) -> None:
    sys.stderr.write(f"ranktable: {text}\n")
    sys.stderr.flush()


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    main()
