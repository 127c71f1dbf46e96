"""One fresh process that times one call: ``python -m benchmarks.worker CALL FILE N``.

Everything is imported before the first call is timed. The first call meets fresh memory
and a cold cache, as the one read of a training process does; the best of the N that
follow is what the code itself costs.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.calls import CALLS

if TYPE_CHECKING:
    from collections.abc import Callable

SHORTEST_S = 0.01
"""A call that is shorter is repeated for so long, because the clock is too coarse."""

_KIB = 1024
_RESET_PEAK = "5"  # Linux: proc(5), /proc/pid/clear_refs


def main() -> None:
    """Measure what the command line names and print the figures as JSON."""
    name, path, count = sys.argv[1:]
    call = CALLS[name](path)
    gc.collect()
    before = _memory("VmRSS")
    # The peak of a process includes that of its imports, so it is reset.
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
    first_s = _time(call, 1)
    growth = _memory("VmHWM") - before
    number = max(1, int(SHORTEST_S / first_s))
    times = [_time(call, number) for _ in range(int(count))]
    best_s = min(times, default=first_s)
    print(json.dumps({"first_s": first_s, "best_s": best_s, "peak_bytes": growth}))


def _time(call: Callable[[], object], number: int) -> float:
    """Return the CPU seconds of a call, the mean of a number of them.

    Releasing what the call returns is part of it, as it is for ``timeit``: a parser
    hands over a document, and whoever wants the chips has to throw that away.
    """
    gc.collect()
    start = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - start) / number


def _memory(field: str) -> int:
    """Return a field of ``/proc/self/status`` in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * _KIB
    raise LookupError(field)


if __name__ == "__main__":
    main()
