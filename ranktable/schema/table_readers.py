"""The programs that read rank tables, for ``--for``.

Source: their own readers, August 2026; what each does with a mistake is in the rules.
"""

from __future__ import annotations

from typing import NamedTuple

SCCL_FORMATS = ("sccl-1.0",)
_SERVER_LISTS = ("hccl-1.0", "hccl-1.2")
_HCCL = (*_SERVER_LISTS, "hccl-cloud", "hccl-2.0")


class TableReader(NamedTuple):
    """A program that reads rank tables.

    Attributes:
        name: Its name on the command line.
        title: Its name in messages.
        formats: Names of the formats that it reads.
        refuses: Codes that are an error for this reader and less for others. What is
            an error for all is one for this reader too.
        link: What it does with a path that is a symbolic link, None if it follows it.
        versions: Versions that it refuses, although the format has them.
        rank_key: The key of the rank that it reads, if others read another one.
        own_tables: Formats that it alone reads, beside tables of a job.
    """

    name: str
    title: str
    formats: tuple[str, ...]
    refuses: tuple[str, ...] = ()
    link: str | None = None
    versions: tuple[str, ...] = ("1.3", "1.4")
    rank_key: str | None = None
    own_tables: tuple[str, ...] = ()


READERS = (
    TableReader("hccl", "HCCL", _HCCL),
    TableReader("hccl-2025", "HCCL of 2025", _HCCL, ("RT271",)),
    TableReader(
        "torch_npu",
        "torch_npu",
        _HCCL,
        link="ignores such a table, and the ranks negotiate without it, silently",
    ),
    TableReader("mindspore", "MindSpore", _HCCL),
    TableReader(
        "mindie",
        "MindIE",
        _SERVER_LISTS,
        ("RT270", "RT271", "RT288", "RT289", "RT290"),
        own_tables=("server-groups",),
    ),
    TableReader(
        "xllm",
        "xLLM",
        (*_SERVER_LISTS, "hccl-cloud"),
        link="aborts on such a path",
    ),
    TableReader("sccl", "SCCL", SCCL_FORMATS, ("RT118",), rank_key="rank"),
    TableReader(
        "torch_tpu", "torch_tpu", SCCL_FORMATS, ("RT118",), rank_key="world_rank"
    ),
    # NCCL reads no table: ranktable reads it, and starts the processes.
    TableReader("nccl", "ranktable for NCCL", (*SCCL_FORMATS, *_HCCL), versions=()),
)


def reader_by_name(name: str) -> TableReader:
    """Return the reader with this name; case and blanks are ignored.

    Raises:
        ValueError: There is no such reader.
    """
    wanted = name.strip().casefold().replace(" ", "-")
    for reader in READERS:
        if reader.name == wanted:
            return reader
    known = ", ".join(reader.name for reader in READERS)
    raise ValueError(f"there is no reader {name!r}; there are: {known}")
