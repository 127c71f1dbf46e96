"""Every file format, and how the format of a document is detected.

Files that look like rank tables and that ranktable does not read are known by marks,
so that RT111 says who reads them and what to do. Source: the readers' own sources, as
``docs/formats.md`` names them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.schema.document import SourceSpan
from ranktable.schema.formats import hccl_1_0, hccl_1_2, sccl
from ranktable.schema.reader import nearest_key
from ranktable.schema.rules import shape as rules
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from ranktable.schema.declare import Format
    from ranktable.schema.finding import Finding

FORMATS: tuple[Format, ...] = (sccl.FORMAT, hccl_1_2.FORMAT, hccl_1_0.FORMAT)
"""Formats of nodes that list devices, in the order in which they are tried.

Every process of a job imports them, so they are few and small.
"""


class Other(NamedTuple):
    """A format that is imported only if a document has it.

    Attributes:
        name: Name on the command line.
        module: Module in this package.
        key: Its list of nodes or ranks.
    """

    name: str
    module: str
    key: str

    def load(self) -> Format:
        """Return the format."""
        format_: Format = import_module(f"{__name__}.{self.module}").FORMAT
        return format_


OTHERS = (
    Other("hccl-2.0", "hccl_2_0", "rank_list"),
    Other("hccl-cloud", "hccl_cloud", "group_list"),
)
"""Other formats, in the order in which they are tried, before ``FORMATS``."""

DEFAULT = sccl.FORMAT
"""The format that is written by default."""

LISTS = (
    *dict.fromkeys(one.nodes_key for one in FORMATS),
    *(other.key for other in OTHERS),
)
"""The list by which a format is detected: SCCL, HCCL 1.x, 2.0 and the cloud form."""


def by_name(name: str) -> Format:
    """Return the format with this name.

    Raises:
        ValueError: There is no such format.
    """
    for format_ in FORMATS:
        if format_.name == name:
            return format_
    for other in OTHERS:
        if other.name == name:
            return other.load()
    raise ValueError(f"there is no format {name!r}; there are: {', '.join(names())}")


def names() -> tuple[str, ...]:
    """Return the names of all formats."""
    return (*(one.name for one in FORMATS), *(other.name for other in OTHERS))


def detect(document: object) -> Format | Finding:
    """Return the format of a document, or RT110 or RT111."""
    known = foreign_format(document)
    if known is not None:
        foreign, mark = known
        key = mark.partition("[].")[0]
        return rules.OTHER_VENDOR.finding(
            SourceSpan((key,), "key") if key else SourceSpan(()),
            f"this is {foreign.title} ({foreign.name}); {foreign.readers}",
            hint=foreign.advice,
        )
    if not isinstance(document, dict):
        return rules.NOT_A_RANK_TABLE.finding(
            SourceSpan(()), f"a rank table is an object; this is {quoted(document)}"
        )
    for other in OTHERS:
        if other.key in document:
            return other.load()
    for format_ in FORMATS:
        if format_.matches(document):
            return format_
    return _without_list(document)


def _without_list(document: dict[str, object]) -> Finding:
    """Return RT110, at the key that may be a misspelt list."""
    wanted = "nodes (node_list), servers (server_list) or ranks (rank_list)"
    keys = ", ".join(map(quoted, list(document)[:5])) or "none"
    message = f"a rank table lists {wanted}; the keys here are: {keys}"
    for key in document:
        near = nearest_key(key.replace("-", "_"), LISTS, 0.8)
        if near is not None:
            hint = f"did you mean {quoted(near)}?"
            span = SourceSpan((key,), "key")
            return rules.NOT_A_RANK_TABLE.finding(span, message, hint=hint)
    return rules.NOT_A_RANK_TABLE.finding(SourceSpan(()), message)


SPARE_ID = 64
"""The local_id of the spare chip of HCCL 2.0."""

_OF_JOB = "give the rank table of the job, with server_list, in its place"


class Foreign(NamedTuple):
    """A format that is named, but not read.

    Attributes:
        name: Its name.
        marks: Groups of marks; a file with all marks of one group has this format. A
            mark is a key at the top, or ``list[].key`` for a key of the first object in
            a list.
        title: What it is.
        readers: Who reads it.
        advice: What to do.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    title: str
    readers: str
    advice: str


FOREIGN = (
    Foreign(
        "vllm-pd",
        (("prefill_device_list",), ("decode_device_list",)),
        "vLLM-Ascend's table of prefill and decode devices",
        "vllm-ascend up to 0.12 reads it, and no HCCL",
        "name it in DISAGGREGATED_PREFILL_RANK_TABLE_PATH, not in RANK_TABLE_FILE",
    ),
    Foreign(
        "server-groups",
        (("server_group_list",),),
        "the table of all groups of MindIE or ClusterD",
        "MindIE reads it, and no HCCL",
        "name it in GLOBAL_RANK_TABLE_FILE_PATH; a job has the table of its group",
    ),
    Foreign(
        "hccl-topology",
        (("peer_list",), ("edge_list",)),
        "a topology file of Ascend 950",
        "HCCL finds it by topo_file_path of /etc/hccl_rootinfo.json",
        "leave it where the driver has put it, and give the table of the job",
    ),
    Foreign(
        "hccl-rootinfo",
        (("topo_file_path",),),
        "what the driver writes about one host, hccl_rootinfo.json",
        "HCCL of Ascend 950 reads it without being told",
        "leave it in /etc, and give the table of the job, with rank_list",
    ),
    Foreign(
        "hccl-1.1",
        (("node_list[].ranks",), ("node_list", "collective_id")),
        "HCCL's table 1.1 of ranks on hosts and on chips",
        "only HCCL with parameter servers reads it",
        _OF_JOB,
    ),
    Foreign(
        "hccl-2.0-draft",
        (("rank_list[].level_list[].rank_addrs",),),
        "the early draft of HCCL's table 2.0",
        "no release reads it",
        "generate the table again, with a tool of the released version",
    ),
    Foreign(
        "local-comm-res",
        (("endpoint_list",), ("net_instance_id", "version")),
        "the communication resource of one process",
        "LLM-DataDist and HIXL read it",
        "name it in ASCEND_LOCAL_COMM_RES; it gives no ranks",
    ),
    Foreign(
        "hccl-lab",
        (("group_list", "deploy_mode"),),
        "HCCL's lab form of the table before 1.0",
        "only HCCL of the first 910 reads it",
        _OF_JOB,
    ),
    Foreign(
        "hccl-logical",
        (("node_list[].rank_list",),),
        "a logical table for compiling ahead of time",
        "only HCCL's offline compiler reads it",
        _OF_JOB,
    ),
    Foreign(
        "hccl-roles",
        (("Servers", "Clients"),),
        "HCCL's table of the roles of parameter servers",
        "only HCCL with parameter servers reads it",
        _OF_JOB,
    ),
    Foreign(
        "gaudi-hcl",
        (("HCL_PORT",), ("HCL_COUNT",), ("HCL_RANKS",)),
        "the configuration of Habana's HCL",
        "the library of the first Gaudi reads it by HCL_CONFIG_PATH",
        "today's HCCL of Habana takes no file: start the job with its launcher",
    ),
    Foreign(
        "paddle-mapping",
        (("[].ranks",),),
        "PaddlePaddle's mapping of ranks",
        "paddle.distributed.launch reads it by --rank_mapping_path",
        "leave it to the launcher; it takes no rank table",
    ),
    Foreign(
        "paddle-topology",
        (("machines",),),
        "PaddlePaddle's topology of a cluster",
        "paddle.distributed.launch reads it by --cluster_topo_path",
        "leave it to the launcher; it takes no rank table",
    ),
    Foreign(
        "volcano-links",
        (("pod_count",),),
        "the list of links of Huawei Cloud's Volcano",
        "no library for communication reads it",
        "give the table beside it, jobstart_hccl.json",
    ),
)
SCCL_2024 = Foreign(
    "sccl-2024",
    (("server_list[].server_ip",),),
    "the form of July 2024 of a table of SCCL",
    "only the torch_tpu of that time reads it",
    "write the form of today: ranktable gen --device-id '[[4,5]]' for the same chips",
)
CHANGED = Foreign(
    "hccl-changed",
    (("rank_list",),),
    "a list of the ranks whose chip a spare has replaced",
    "HCCL of Ascend 950 reads it beside the table",
    "give the table of the job, which has every rank",
)


def foreign_format(document: object) -> tuple[Foreign, str] | None:
    """Return the format of a document that is not read, and the mark of it.

    Returns:
        None for a document of another format.
    """
    for foreign in FOREIGN:
        for marks in foreign.marks:
            if all(_has(document, mark) for mark in marks):
                return foreign, marks[-1]
    if _is_sccl_2024(document):
        return SCCL_2024, "server_list"
    if _is_changed(document):
        return CHANGED, "rank_list"
    return None


def _has(document: Any, mark: str) -> bool:
    """Whether a document has a mark."""
    key, is_inner, inner = mark.partition("[].")
    if not is_inner:
        return isinstance(document, dict) and key in document
    listed = document
    if key:
        listed = document.get(key) if isinstance(document, dict) else None
    return isinstance(listed, list) and bool(listed) and _has(listed[0], inner)


def _is_sccl_2024(document: Any) -> bool:
    """Whether servers have an address for an id, and are counted by an integer.

    HCCL counts them by a string, so there ``server_ip`` is a misspelt ``server_id``.
    """
    return (
        _has(document, "server_list[].server_ip")
        and not _has(document, "server_list[].server_id")
        and type(document.get("server_count")) is int
    )


def _is_changed(document: Any) -> bool:
    """Whether ranks beyond the count are listed, with a spare chip among them."""
    listed = document.get("rank_list") if isinstance(document, dict) else None
    if not isinstance(listed, list) or type(document.get("rank_count")) is not int:
        return False
    ranks = [one for one in listed if isinstance(one, dict)]
    numbers = [one.get("rank_id") for one in ranks]
    return any(one.get("local_id") == SPARE_ID for one in ranks) and any(
        type(number) is int and number >= document["rank_count"] for number in numbers
    )
