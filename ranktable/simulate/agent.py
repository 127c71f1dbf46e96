"""The torchrun of one simulated node.

It is torch's own. What differs: the arguments of the script are kept from torchrun's
parser, which takes ``--nproc`` for an ambiguous option of its own wherever it stands;
and when a rank fails there is a note for the launcher, which says it in a sentence,
where torchrun prints a page.
"""

from __future__ import annotations

import ctypes
import logging
import signal
import sys
from pathlib import Path

import msgspec

_PR_SET_PDEATHSIG = 1  # Linux: prctl(2)
_SIGNALLED = 128  # plus the signal, as shells report it


class RankFailure(msgspec.Struct, frozen=True, kw_only=True):
    """How the first rank of a node that failed has ended.

    Attributes:
        rank: Its global rank.
        status: Its exit status; a negative one is the signal that ended it.
        time_s: When, in seconds since 1970.
    """

    rank: int
    status: int
    time_s: int


def main() -> None:
    """Run torchrun with so many arguments; those that follow are the script's."""
    # Should the launcher be killed, this process ends its ranks and goes.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    note, count, *rest = sys.argv[1:]
    try:
        status = _run(Path(note), rest[: int(count)], rest[int(count) :])
    except KeyboardInterrupt:  # while torch was being imported
        status = _SIGNALLED + signal.SIGINT
    sys.exit(status)


def _run(note: Path, of_torchrun: list[str], of_script: list[str]) -> int:
    from torch.distributed import run  # noqa: PLC0415 - it takes a second
    from torch.distributed.elastic.multiprocessing import (  # noqa: PLC0415
        SignalException,
    )
    from torch.distributed.elastic.multiprocessing.errors import (  # noqa: PLC0415
        ChildFailedError,
    )

    # torchrun logs every process that it ends, and every failure twice.
    logging.disable(logging.ERROR)
    arguments = run.parse_args(of_torchrun)  # type: ignore[no-untyped-call]
    arguments.training_script_args = of_script
    try:
        run.run(arguments)  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        found = RankFailure(
            rank=rank, status=failure.exitcode, time_s=failure.timestamp
        )
        note.write_bytes(msgspec.json.encode(found))
        return 1
    except SignalException as error:
        return _SIGNALLED + error.sigval
    return 0


if __name__ == "__main__":
    main()
