"""The programs that read rank tables, for ``--for``, and how each treats a mistake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.schema.finding import Refusal
from ranktable.schema.vendor_codes import of_2025

if TYPE_CHECKING:
    from ranktable.schema.finding import Rule

_SERVER_LISTS = ("hccl-1.0", "hccl-1.2", "mindie")
_HCCL_1 = (*_SERVER_LISTS, "hccl-1.1", "hccl-lab", "hccl-cloud")
_HCCL_2 = ("hccl-2.0", "hccl-rootinfo")
_SCCL = ("sccl-1.0", "sccl-2024")
BY_VERSION = "what it says depends on the version"


def _answer_of_hccl(format_name: str, document: object) -> str:
    """Return the answer of HCCL, whose parser reads the version and the status.

    Source: config.cc, rank_table_info.cc, August 2026.
    """
    if not isinstance(document, dict):
        return "EI0004"
    version, status = document.get("version"), document.get("status")
    if version == "2.0":
        is_changed = format_name == "hccl-changed"
        return "EI0014 rank_id" if is_changed else "EI0017 rank_count"
    if version not in (None, "1.0", "1.1", "1.2"):
        return "EI0014 version"
    if status is not None and status != "completed":
        return "waits 30 minutes without a message, then HCCL_E_TIMEOUT"
    if status is None or version is None:
        return f"EI0017 {'status' if status is None else 'group_count'}"
    return "a line in the device log: no server_list"


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """A program that reads rank tables.

    Attributes:
        name: Its name on the command line.
        title: Its name in reports.
        keys: Its entries in ``Rule.readers``; the first one in a rule is used.
        formats: Names of the formats that it reads.
        refusal: Its message for a table of another format.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    formats: tuple[str, ...]
    refusal: str

    def effect(self, rule: Rule) -> str | None:
        """Return what the reader does with a mistake, None if that is not known."""
        for key in self.keys:
            if key in rule.readers:
                return rule.readers[key]
        return None

    def refusal_of(self, format_name: str, document: object) -> str:
        """Return the reader's message for a document of another format."""
        if self.name == "mindie" and format_name == "cce":
            return "HCCL, through which it communicates, says EI0014 version"
        if self.refusal != BY_VERSION:
            return self.refusal
        said = _answer_of_hccl(format_name, document)
        return of_2025(said) if self.name == "hccl-2025" else said

    def refuses(self, rule: Rule) -> bool:
        """Whether it refuses a table with a mistake."""
        return isinstance(self.effect(rule), Refusal)


READERS = (
    *(
        TableReader(
            name=name,
            title=title,
            keys=keys,
            formats=(*_HCCL_1, *_HCCL_2),
            refusal=BY_VERSION,
        )
        for name, title, keys in (
            ("hccl-2025", "HCCL 2025", ("HCCL 2025", "HCCL")),
            ("hccl-2026", "HCCL 2026", ("HCCL",)),
            ("torch_npu", "torch_npu", ("torch_npu", "HCCL")),
            ("mindspore", "MindSpore", ("MindSpore", "HCCL")),
        )
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
    """Return the reader with this name; case and blanks are ignored.

    Raises:
        ValueError: There is no such reader.
    """
    wanted = name.strip().casefold().replace(" ", "-")
    wanted = ALIASES.get(wanted, wanted)
    for reader in READERS:
        if reader.name == wanted:
            return reader
    known = ", ".join((*ALIASES, *(reader.name for reader in READERS)))
    raise ValueError(f"there is no reader {name!r}; there are: {known}")
