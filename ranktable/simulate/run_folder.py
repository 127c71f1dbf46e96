"""The private folder of a run, which goes when the run does.

A launcher that is killed cannot remove its folder, so the next one does. A lock that
each holds tells the dead from the living: unlike the number of a process, it means the
same in another container that shares the folder for temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ranktable.simulate import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "ranktable-simulate-"
_LOCK = "launcher.lock"


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Make a private folder for a run; in the end nothing of either is left."""
    _remove_orphans(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        processes.end(None, folder)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    """Remove the folders of this user's launchers that are dead."""
    for folder in parent.glob(f"{_PREFIX}*"):
        # It may have gone by now, have no lock yet, or be locked: then it stays.
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.getuid():
                _remove_unlocked(folder)


def _remove_unlocked(folder: Path) -> None:
    with (folder / _LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not processes.processes_of(folder):
            shutil.rmtree(folder, ignore_errors=True)
