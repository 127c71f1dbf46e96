"""Every reader, ours first, and what they make of one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.readers.own import Ranktable
from ranktable.schema.readers.reader import Reader, Reading
from ranktable.schema.readers.sccl import Sccl
from ranktable.schema.readers.torch_tpu import TorchTpu
from ranktable.schema.readers.torch_tpu_2024 import TorchTpu2024

if TYPE_CHECKING:
    from collections.abc import Sequence

READERS: tuple[Reader, ...] = (Ranktable(), TorchTpu(), Sccl(), TorchTpu2024())
"""In the order of a report."""


def readings(data: bytes, ranks: Sequence[int]) -> list[Reading]:
    """Return what every reader makes of a file; nothing is raised for any bytes.

    Args:
        data: Bytes of the file.
        ranks: Global ranks of the processes to answer for.
    """
    return [
        Reading(
            reader=reader.name,
            title=reader.title,
            outcomes=tuple(zip(ranks, reader.outcomes(data, ranks), strict=True)),
        )
        for reader in READERS
    ]
