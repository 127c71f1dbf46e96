"""What is said of a group that cannot go on: the first sentence stands.

Several ranks see that one is missing, and the more of them end the more are missing. So
whoever is first says it, and the others repeat it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


class Verdict(msgspec.Struct, frozen=True):
    """Why a group cannot go on.

    Attributes:
        message: One sentence, readable alone.
        ranks: The global ranks that are to blame.
    """

    message: str
    ranks: tuple[int, ...]


def give_verdict(folder: Path, verdict: Verdict) -> Verdict:
    """Return the verdict on a group: this one, unless another was given before.

    Args:
        folder: The folder of the group.
        verdict: What this process has seen.
    """
    path = folder / "verdict.json"
    draft = folder / f"verdict-{os.getpid()}.json"
    draft.write_bytes(msgspec.json.encode(verdict))
    # A link is made whole or not at all, and not where there is a file.
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()  # what was written to it later would change the verdict
    return msgspec.json.decode(path.read_bytes(), type=Verdict)
