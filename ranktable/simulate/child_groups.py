"""Groups of processes that a rank has started itself, as scripts with mp.spawn do.

Every rank starts the same processes, so those of two ranks join one group under the
same numbers, and wait for each other in vain. Such a script is to be started once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from torch.distributed import distributed_c10d

from ranktable.simulate.barrier import is_running
from ranktable.simulate.simulated_run import RANK_PROCESS, RUN_ID, current_run
from ranktable.simulate.simulation_error import reported

if TYPE_CHECKING:
    from pathlib import Path

_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
_REFUSED = "refused"  # stands for the number of a process that has not joined

_c10d: Any = distributed_c10d  # its function is imported there, not exported
_rendezvous_of_torch = _c10d.rendezvous


def install() -> None:
    """Look at each group that this process joins, and its forks."""
    _c10d.rendezvous = _rendezvous


def _rendezvous(
    url: str, rank: int = -1, *args: Any, timeout: timedelta, **options: Any
) -> Any:
    """Return torch's rendezvous, within the time-out of the run.

    Raises:
        SimulationError: A process of another rank has joined it with this number.
    """
    folder, run = current_run(os.environ)
    pid, _, port = os.environ.get(RANK_PROCESS, "").partition(":")
    if pid:
        place, rank_there = _place(url, rank)
        if pid != str(os.getpid()):
            _refuse_clash(folder, pid, place, rank_there)
        is_other = place.isdecimal() and place != port
        if is_other and os.environ.get("TORCHELASTIC_RUN_ID") == RUN_ID:
            # Our agent serves the run's own port only; a torchrun in the script has
            # its own id. Otherwise rank 0 would be a client of whoever listens there.
            os.environ[_AGENT_STORE] = "False"
    limit = min(timeout, timedelta(seconds=run.timeout_s))
    return _rendezvous_of_torch(url, rank, *args, timeout=limit, **options)


def _place(url: str, rank: int) -> tuple[str, str]:
    """Return the port of a rendezvous, or its path, and the rank of this process."""
    parts = urlsplit(url)
    given = parse_qs(parts.query).get("rank", [str(rank)])[0]
    if parts.scheme == "env":
        place = os.environ.get("MASTER_PORT", "")
    else:
        place = str(parts.port or parts.path)
    return place, os.environ.get("RANK", "") if given == "-1" else given


def _refuse_clash(folder: Path, parent: str, place: str, rank: str) -> None:
    """Note who joins a rendezvous with a number.

    Another rank may use the place after all processes there have ended. If only this
    process of it could join, because its others were refused, it would wait in vain.

    Raises:
        SimulationError: A process of another rank has joined it with the same number.
    """
    name = hashlib.sha256(place.encode()).hexdigest()
    with (folder / f"join-{name}").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        joined = [line.rstrip("\n").split("\t") for line in file]
        is_taken = any(given == rank and of != parent for given, of, _ in joined)
        if is_taken and not any(
            given == _REFUSED or is_running(int(pid)) for given, _, pid in joined
        ):
            file.truncate(0)
            is_taken = False
        file.write(f"{_REFUSED if is_taken else rank}\t{parent}\t{os.getpid()}\n")
    if is_taken:
        raise reported(
            folder,
            "several ranks have started processes that make the same process group; "
            "give --once to ranktable simulate, which then runs the script once",
        )
