"""The programs that read rank tables, and what they do with a mistake: ``--for``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.schema.diagnostic import Refusal

if TYPE_CHECKING:
    from ranktable.schema.diagnostic import Rule

_SERVER_LISTS = ("hccl-1.0", "hccl-1.2", "mindie")
_HCCL_1 = (*_SERVER_LISTS, "hccl-1.1", "hccl-lab", "hccl-cloud")
_HCCL_2 = ("hccl-2.0", "hccl-rootinfo", "hccl-topology", "hccl-changed")
_SCCL = ("sccl-1.0", "sccl-2024")


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """A program that reads rank tables.

    Attributes:
        name: Its name on the command line.
        title: Its name in reports.
        keys: Its entries in ``Rule.readers``; the first that a rule has counts.
        formats: Names of the formats that it reads.
        refusal: What it says to a table of another format.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    formats: tuple[str, ...]
    refusal: str

    def effect(self, rule: Rule) -> str | None:
        """Return what it does with a mistake, None if that is not known."""
        for key in self.keys:
            if key in rule.readers:
                return rule.readers[key]
        return None

    def refuses(self, rule: Rule) -> bool:
        """Whether it does not go on after a mistake."""
        return isinstance(self.effect(rule), Refusal)


_EI0014 = "EI0014 version"
READERS = (
    TableReader(
        name="hccl-2025",
        title="HCCL 2025",
        keys=("HCCL 2025", "HCCL"),
        formats=(*_HCCL_1, *_HCCL_2),
        refusal="EI0004",
    ),
    TableReader(
        name="hccl-2026",
        title="HCCL 2026",
        keys=("HCCL",),
        formats=(*_HCCL_1, *_HCCL_2),
        refusal=_EI0014,
    ),
    TableReader(
        name="torch_npu",
        title="torch_npu",
        keys=("torch_npu", "HCCL"),
        formats=(*_HCCL_1, *_HCCL_2),
        refusal=_EI0014,
    ),
    TableReader(
        name="mindspore",
        title="MindSpore",
        keys=("MindSpore", "HCCL"),
        formats=(*_HCCL_1, *_HCCL_2),
        refusal=_EI0014,
    ),
    TableReader(
        name="mindie",
        title="MindIE",
        keys=("MindIE", "HCCL"),
        formats=(*_SERVER_LISTS, "server-groups"),
        refusal="it has no server_list",
    ),
    TableReader(
        name="vllm",
        title="vLLM",
        keys=("vLLM",),
        formats=("vllm-pd", "local-comm-res"),
        refusal="KeyError: 'prefill_device_list'",
    ),
    TableReader(
        name="xllm",
        title="xLLM",
        keys=("xLLM", "HCCL"),
        formats=(*_SERVER_LISTS, "hccl-lab", "hccl-cloud"),
        refusal="it has no server_list",
    ),
    TableReader(
        name="sccl",
        title="SCCL",
        keys=("SCCL",),
        formats=_SCCL,
        refusal="answers chip -1 for every rank",
    ),
    TableReader(
        name="torch_tpu",
        title="torch_tpu",
        keys=("torch_tpu",),
        formats=_SCCL,
        refusal="KeyError: 'node_list'",
    ),
)

ALIASES = {"hccl": "hccl-2026"}


def reader_by_name(name: str) -> TableReader:
    """Return the reader with this name; upper case and blanks make no difference.

    Raises:
        ValueError: There is none.
    """
    wanted = name.strip().casefold().replace(" ", "-")
    wanted = ALIASES.get(wanted, wanted)
    for reader in READERS:
        if reader.name == wanted:
            return reader
    known = ", ".join((*ALIASES, *(reader.name for reader in READERS)))
    raise ValueError(f"there is no reader {name!r}; there are: {known}")
