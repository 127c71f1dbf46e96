"""A round of many clients in one store: ``python -m benchmarks.rounds COUNT LATE_S``.

The store is a process of its own, whose CPU time counts; the clients are threads of
four processes.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ranktable.runtime.consensus import Spec
from ranktable.runtime.store_round import StoreRound

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Semaphore

DRIVERS = 4
CONNECTIONS = 8
WAIT_S = 120.0
_STACK_BYTES = 1 << 18
SPEC = Spec(text="the same", advice="give all the same", noun="spec")


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store: object) -> None:
        """Keep the store."""
        self.store = store
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        """Return a function of the store."""
        function = getattr(self.store, name)

        def counted(*given: object) -> object:
            self.count += 1
            return function(*given)

        return counted


def serve(pipe: Connection) -> None:
    """Serve a store, and say what CPU time it has taken while clients had it."""
    from torch._C._distributed_c10d import TCPStore

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    for _ in range(2):
        pipe.recv()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(usage.ru_utime + usage.ru_stime)
    pipe.recv()


def drive(port: int, ranks: range, count: int, late_s: float) -> list[int]:
    """Return how many requests each of some ranks makes; the last of all is late."""
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    threading.stack_size(_STACK_BYTES)
    requests = dict.fromkeys(ranks, 0)
    timeout = timedelta(seconds=WAIT_S)
    # A connection takes a tenth of a second to make, so clients share some.
    stores = [
        TCPStore("127.0.0.1", port, wait_for_workers=False, timeout=timeout)
        for _ in range(CONNECTIONS)
    ]
    begin = threading.Event()

    def take_part(rank: int) -> None:
        begin.wait()
        if rank == count - 1:
            time.sleep(late_s)
        store = Counting(PrefixStore("round", stores[rank % CONNECTIONS]))
        held = StoreRound(
            store=store,  # type: ignore[arg-type] # it has what a store has
            rank=rank,
            ranks=range(count),
            wording=SPEC,
            is_erased=True,
        )
        held.post(SPEC.text)
        verdict = held.hear(WAIT_S)
        assert verdict is not None
        assert verdict.kind == "agreed", verdict
        requests[rank] = store.count

    threads = [threading.Thread(target=take_part, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    SIGNALS[0].release()
    SIGNALS[1].acquire()
    begin.set()
    for thread in threads:
        thread.join()
    return list(requests.values())


SIGNALS: list[Semaphore] = []
"""That a process of clients is ready, and that all may begin."""


def _keep(*signals: Semaphore) -> None:
    SIGNALS.extend(signals)


def main() -> int:
    """Print what a round has cost."""
    count, late_s = int(sys.argv[1]), float(sys.argv[2])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed"])  # 1.5 s in each process
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,))
    server.start()
    port = ours.recv()
    step = -(-count // DRIVERS)
    parts = [range(n, min(n + step, count)) for n in range(0, count, step)]
    ready, begin = context.Semaphore(0), context.Semaphore(0)
    with context.Pool(len(parts), _keep, (ready, begin)) as pool:
        tasks = [(port, part, count, late_s) for part in parts]
        running = pool.starmap_async(drive, tasks, chunksize=1)
        for _ in parts:
            ready.acquire()
        ours.send("before")
        before_s = ours.recv()
        begin_s = time.monotonic()
        for _ in parts:
            begin.release()
        requests = [each for part in running.get() for each in part]
        took_s = time.monotonic() - begin_s
    ours.send("after")
    cpu_s = ours.recv() - before_s
    ours.send("end")
    server.join()
    print(
        json.dumps(
            {
                "mean": sum(requests) / count,
                "most": max(requests),
                "cpu_s": cpu_s,
                "took_s": took_s,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
