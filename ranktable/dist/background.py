"""Asynchronous collectives that need the shapes of other ranks before tensors travel.

The exchange of shapes begins at the call. If tensors then travelled in the same group,
a call of torch could begin before them on one rank and after them on another. So they
travel in a gloo group of the same members that nothing else uses. A thread does one
collective after the other, in the order of the calls. Ranks that wait for the call use
that group too: the shapes come with a sign that another rank does not wait.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock, Thread, main_thread
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._C._distributed_c10d import PrefixStore
from torch.distributed import ProcessGroupGloo

from ranktable.dist.calls import refused
from ranktable.dist.collective_errors import DistError
from ranktable.dist.own_group import OwnGroup
from ranktable.dist.steps import finish
from ranktable.dist.work import continued

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

    from ranktable.dist.calls import CollectiveCall
    from ranktable.dist.steps import Steps
    from ranktable.dist.work import Pending

_ENDED_S: Final = 5.0
"""Time for other ranks to come after the script has ended without a ``wait``."""

_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.5


@dataclass(eq=False)
class _QueuedCollective:
    """A collective that is done in the background, as a step of its work."""

    call: CollectiveCall
    shapes: Pending | None
    steps: Steps[Any]
    is_inference: bool
    result: Future[Any]
    is_awaited: bool = False
    is_last = False

    def is_completed(self) -> bool:
        return self.result.done()

    def wait(self) -> None:
        self.is_awaited = True
        try:
            self.result.result()
        finally:  # Ctrl-C ends this wait, and often the script
            self.is_awaited = False


class BackgroundQueue:
    """The collectives of a group that are done in the background.

    There is a thread while there are collectives. The gloo group is made for the first
    of them, and kept.
    """

    def __init__(self, store: Store) -> None:
        """Make an empty queue.

        Args:
            store: The store of the group.
        """
        self._store = store
        self._own_store: Store | None = None
        self._queued: deque[_QueuedCollective] = deque()
        self._lock = Lock()
        self._group: OwnGroup | None = None
        self._ended_at: float | None = None

    def put(
        self, call: CollectiveCall, shapes: Pending | None, steps: Steps[Any]
    ) -> Steps[Any]:
        """Do a collective after all that were put before, and return a wait for it.

        Args:
            call: The collective.
            shapes: The exchange of shapes.
            steps: The steps after it.
        """
        collective = _QueuedCollective(
            call, shapes, steps, torch.is_inference_mode_enabled(), Future()
        )
        with self._lock:
            if not self._queued:
                Thread(target=self._do_all).start()
            self._queued.append(collective)
        yield collective
        return collective.result.result()

    def join(self, call: CollectiveCall) -> None:
        """Let a collective that this rank waits for use the group of the others."""
        finish(self.put(call, None, _nothing()))

    def _do_all(self) -> None:
        while True:
            with self._lock:
                collective = self._queued[0]
            try:
                collective.result.set_result(self._do(collective))
            except BaseException as error:  # noqa: BLE001 - who waits gets it
                collective.result.set_exception(error)
            del collective  # its tensors belong to the script
            with self._lock:
                self._queued.popleft()
                if not self._queued:
                    return

    def _do(self, collective: _QueuedCollective) -> object:
        call, members = collective.call, collective.call.members
        with members.using_store():
            if self._own_store is None:
                self._own_store = _own_connection(self._store)
        call.verify_in_background(
            self._own_store, lambda: self._is_given_up(collective)
        )
        if collective.shapes is not None:
            collective.shapes.wait()
        if self._group is None:
            self._group = self._connect(collective, self._own_store)
        call.own_group = self._group
        with continued(None, is_inference=collective.is_inference):
            return finish(collective.steps)

    def _connect(self, collective: _QueuedCollective, store: Store) -> OwnGroup:
        """Return a gloo group of the members.

        Raises:
            DistError: A member does not come, or cannot be reached.
        """
        call, store = collective.call, PrefixStore("background", store)
        members = call.members
        with members.using_store():
            number = self._await_members(collective, store)
        try:
            group = ProcessGroupGloo(
                PrefixStore(str(number), store),
                members.group_rank,
                members.size,
                members.timeout,
            )
        except RuntimeError as error:
            raise refused(error, members, "gloo", call) from error
        return OwnGroup(group, members.ranks)

    def _await_members(self, collective: _QueuedCollective, store: Store) -> int:
        """Wait until all members make the group, and return its number.

        A store may outlive a group, and a later group may have the same name. So groups
        are numbered by the members that came to them.

        Raises:
            DistError: A member does not come.
        """
        call, members = collective.call, collective.call.members
        pause_s = _FIRST_PAUSE_S
        end = time.monotonic() + members.timeout.total_seconds()
        number = (store.add("came", 1) - 1) // members.size
        while (late := (number + 1) * members.size - store.add("came", 0)) > 0:
            if time.monotonic() > end or self._is_given_up(collective):
                raise DistError(
                    f"{late} of {members.size} ranks did not begin "
                    f"{call.fingerprint}, collective {call.seq} of {members.name}"
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return number

    def _is_given_up(self, collective: _QueuedCollective) -> bool:
        """Whether the script has ended, and had ranks that are late the time to come.

        What has begun ends anyway, as in torch.
        """
        if collective.is_awaited or main_thread().is_alive():
            return False
        now = time.monotonic()
        if self._ended_at is None:
            self._ended_at = now
        return now > self._ended_at + _ENDED_S


def _nothing() -> Steps[None]:
    yield from ()


def _own_connection(store: Store) -> Store:
    """Return a store on a connection that only one thread uses.

    A store has one connection for all threads, and torch uses it to wait, for example
    while it makes a group.
    """
    clone = getattr(store, "clone", None)  # since torch 2.8
    own: Store = store if clone is None else clone()
    return own
