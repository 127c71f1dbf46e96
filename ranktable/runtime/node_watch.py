"""What the nodes of ``ranktable run`` tell each other while torchrun works.

torchrun says nothing while it waits for other nodes, and goes on when another node has
failed. So every node notes in torchrun's store that it is there; node 0 names those
that do not come; and a node that fails writes so, and the others end.

Silence is never a reason to end: a node that is slow, or stopped for a while, belongs
to a job that is right.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, NoReturn

from ranktable.runtime.agents import agents_of
from ranktable.runtime.table import VARIABLE
from ranktable.schema.check import load
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_TIMEOUT_S = 890
"""Just less than torchrun's own 15 minutes, whose message names nobody."""

_QUIET_S = 10.0
_CONNECT_S = 5.0
_POLL_S = 0.5
_HEARD_S = 10.0
"""Longest time for which a failed node waits until the others have read why."""

_GRACE_S = 0.8
_LEFT_S = 5.0
"""How long a rank that torchrun has left behind gets for its end."""

_MOST_NAMED = 8
_FAILED, _HEARD = "ranktable/failed", "ranktable/heard"
_OTHER_PROGRAM = (
    "waiting for node 0: what answers at {at}, is not torchrun; if "
    "another program uses the port, give another --master-port on every node"
)


class NodeWatch:
    """The watch of one node.

    Nodes that were started with plain torchrun note nothing, and are told nothing.

    Attributes:
        has_ended: Whether it ends this process, because of another node.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        timeout_s: float,
        end_now: Callable[[int], NoReturn],
    ) -> None:
        """Read the arguments of torchrun.

        Args:
            arguments: They have the options of a node among several.
            timeout_s: Seconds for which nodes may not come.
            end_now: Ends this process if it has no ranks.
        """
        at, self._addr, port = (
            arguments[arguments.index(option) + 1]
            for option in ("--node-rank", "--master-addr", "--master-port")
        )
        self._node_rank, self._port = int(at), int(port)
        self._timeout_s, self._end_now = timeout_s, end_now
        self._start = time.monotonic()
        self._names: list[str] = []
        self._store: Any = None
        self._is_connected, self._is_over = Event(), Event()
        self.has_ended = False

    def run(self) -> None:
        """Watch until this process ends."""
        self._names = _names_of_nodes()
        timers = []
        if self._node_rank:  # the store of node 0 begins in its own process, here
            self._wait_for_store()
            if self._is_over.is_set():
                return
            at = f"{self._addr}, port {self._port}"
            other = _OTHER_PROGRAM.format(at=at)
            left = max(self._timeout_s - (time.monotonic() - self._start), 0)
            end = f"gave up after {self._timeout_s:g} s: no torchrun answers at {at}"
            timers = [Timer(_QUIET_S, say, [other]), Timer(left, self._give_up, [end])]
        for timer in timers:
            timer.daemon = True
            timer.start()
        with suppress(RuntimeError):  # no store of torch, or it is gone
            self._store = _connect(self._addr, self._port, self._node_rank == 0)
            self._store.set(_key(self._node_rank), "")
            self._is_connected.set()
            for timer in timers:
                timer.cancel()
            if self._node_rank == 0:
                self._wait_for_nodes()
            while not self._is_over.wait(_POLL_S):
                self._end_if_told()
        for timer in timers:
            timer.cancel()

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._is_over.set()

    def tell_failure(self, how: str, *, had_ranks: bool) -> None:
        """Tell the other nodes that this one has failed, and wait until they know.

        Args:
            how: How it has failed.
            had_ranks: Whether it had ranks: then all nodes have come to torchrun.
        """
        # Ranks that fail at once are faster than the watch.
        can_connect = had_ranks or _no_answer(self._addr, self._port) is None
        self._is_connected.wait(_HEARD_S if can_connect else 0)
        self._is_over.set()
        if not self._is_connected.is_set() or self.has_ended:
            return
        with suppress(RuntimeError):
            self._store.set(_FAILED, f"{self._names[self._node_rank]} {how}")
            self._wait_until_heard(had_ranks=had_ranks)

    def _wait_until_heard(self, *, had_ranks: bool) -> None:
        """Keep the store, which is in node 0, until the nodes that came have read."""
        heard = self._store.add(_HEARD, 1)
        end = time.monotonic() + _HEARD_S
        keys = [_key(at) for at in range(len(self._names))]
        there = keys if had_ranks else [one for one in keys if self._store.check([one])]
        while self._node_rank == 0 and heard < len(there) and time.monotonic() < end:
            time.sleep(_POLL_S / 5)
            heard = self._store.add(_HEARD, 0)

    def _is_late(self) -> bool:
        """Whether nodes have not come in time; with ranks here, all have come."""
        waited_s = time.monotonic() - self._start
        return waited_s >= self._timeout_s and not has_children()

    def _give_up(self, text: str) -> None:
        if self._is_late():
            self._end(text)

    def _wait_for_store(self) -> None:
        """Wait until something answers at the port of node 0; say if it does not."""
        has_said = False
        while (reason := _no_answer(self._addr, self._port)) is not None:
            if self._is_late():
                self._end(f"gave up after {self._timeout_s:g} s: node 0: {reason}")
            if time.monotonic() - self._start > _QUIET_S and not has_said:
                has_said = True
                say(f"waiting for node 0: {reason}")
            if self._is_over.wait(_POLL_S):
                return

    def _wait_for_nodes(self) -> None:
        """Wait until all nodes have come; name those that have not."""
        missing, has_said = [*range(1, len(self._names))], False
        while missing := [at for at in missing if not self._store.check([_key(at)])]:
            if has_children():
                return  # all have come to torchrun
            self._end_if_told()
            named = _listed([self._names[at] for at in missing])
            if self._is_late():
                text = f"gave up after {self._timeout_s:g} s: {named} did not come"
                self._store.set(_FAILED, text)
                self._end(text)
            if time.monotonic() - self._start > _QUIET_S and not has_said:
                has_said = True
                say(f"waiting for {named}; start ranktable run there too")
            if self._is_over.wait(_POLL_S):
                return

    def _end_if_told(self) -> None:
        if self._store.check([_FAILED]):
            self._end(self._store.get(_FAILED).decode("utf-8", "replace"))

    def _end(self, text: str) -> NoReturn:
        """End torchrun and its ranks because of another node, and this thread."""
        if self._is_over.is_set():
            sys.exit()  # this thread alone
        self.has_ended, has_ranks = True, has_children()
        say(text + ("; the ranks of this node are ended" if has_ranks else ""))
        if self._is_connected.is_set():
            with suppress(RuntimeError):
                self._wait_until_heard(had_ranks=has_ranks)
        # Once: while torchrun ends its ranks, a second signal would leave some behind.
        if has_ranks or callable(signal.getsignal(signal.SIGTERM)):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0 if has_ranks else _GRACE_S)  # it may just have started them
        if not has_ranks and not has_children():
            self._end_now(1)
        sys.exit()


def _names_of_nodes() -> list[str]:
    return [
        f"node {agent.node_rank}"
        + (f" ({printable(agent.host)})" if agent.host else "")
        for agent in agents_of(load(os.environ[VARIABLE]))
    ]


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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


def _connect(addr: str, port: int, is_ours: bool) -> Any:
    """Return torch's store at a port; this may take for ever with another program.

    Args:
        addr: Its address.
        port: Its port.
        is_ours: Whether torchrun serves it in this process. It then goes on for as long
            as what is returned, so that others can read why torchrun has ended.

    Raises:
        RuntimeError: Another program answers there.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    timeout = timedelta(seconds=60)
    store = TCPStore(
        addr,
        port,
        None,
        is_ours,
        timeout,
        wait_for_workers=False,
        multi_tenant=is_ours,
    )
    store.check([_key(0)])  # an older torch asks nothing before
    return store


def _key(node_rank: object) -> str:
    return f"ranktable/node/{node_rank}"


def say(text: str) -> None:
    """Print a line about this node on standard error."""
    sys.stderr.write(f"ranktable: {text}\n")
    sys.stderr.flush()


_inherited: set[int] = set()
"""Children of the shell that became this process."""


def note_inherited() -> None:
    """Note the children that are there before this process starts any."""
    _inherited.update(_children() - {0})


def has_children() -> bool:
    """Whether this process has ranks: children that it has started.

    Process 1 of a container gets others whose parent has ended. They are in the session
    of that parent, and torchrun's ranks are in this one, or begin one.
    """
    there = _children()
    if there and not _inherited and os.getpid() != 1:
        return True  # the kernel's list may miss one while others end
    return bool(_ranks(there))


def end_ranks() -> None:
    """End the ranks that torchrun has left behind.

    If a signal comes while it starts them, it ends without knowing those that it has
    started. They have hardly begun, and get a few seconds to end. A second signal
    would leave them again, so it counts for nothing until then.
    """
    ignored = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(signum, signal.SIG_IGN) for signum in ignored]
    for signum in (signal.SIGTERM, signal.SIGKILL):
        _end_by(signum)
    for number, handler in zip(ignored, before, strict=True):
        signal.signal(number, handler or signal.SIG_DFL)


def _end_by(signum: int) -> None:
    """Send a signal to all ranks, and wait some seconds until they have ended."""
    end = time.monotonic() + _LEFT_S
    for pid in _ranks(_children()):
        with suppress(OSError):  # it has ended
            kill = os.killpg if os.getpgid(pid) == pid else os.kill
            kill(pid, signum)
    while (left := _ranks(_children())) and time.monotonic() < end:
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_POLL_S / 5)


def _ranks(children: set[int]) -> set[int]:
    _inherited.intersection_update(children)
    found, own = set(), os.getsid(0)
    for pid in children - _inherited - {0}:
        with suppress(OSError):  # it has ended
            if os.getsid(pid) in (own, pid):
                found.add(pid)
    return found


def _children() -> set[int]:
    """Return the children of all threads; 0 for any, where the kernel lists none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    files = list(Path("/proc/self/task").glob("*/children"))
    found: set[int] = set()
    for file in files:
        with suppress(OSError):  # the thread has ended
            found.update(map(int, file.read_text().split()))
    return found or {0}
