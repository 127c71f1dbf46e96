"""Which format a document is, ours or another vendor's, judged by its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.formats.sccl import SCCL
from ranktable.schema.formats.sccl_2024 import SCCL_2024
from ranktable.schema.messages import quoted
from ranktable.schema.rules import shape as rules

if TYPE_CHECKING:
    from ranktable.schema.finding import Finding
    from ranktable.schema.formats.format import Format

FORMATS: tuple[Format, ...] = (SCCL, SCCL_2024)
"""Every format we read, the one we write by default first."""

_FOREIGN_KEYS = (
    ("group_list", "Ascend's HCCL, the old layout with group_list"),
    ("server_group_list", "Ascend's ClusterD"),
    ("super_pod_list", "Ascend's HCCL 1.2"),
    ("rank_list", "Ascend's HCCL 2.0"),
    ("prefill_device_list", "vLLM's disaggregated prefill on Ascend"),
    ("decode_device_list", "vLLM's disaggregated prefill on Ascend"),
    ("HCL_PORT", "Intel Gaudi's HCL"),
    ("HCL_RANKS", "Intel Gaudi's HCL"),
    ("HCL_COUNT", "Intel Gaudi's HCL"),
    ("machines", "Paddle's cluster topology"),
)


def by_name(name: str) -> Format:
    """Return the format with this name.

    Raises:
        ValueError: There is no such format.
    """
    for format_ in FORMATS:
        if format_.name == name:
            return format_
    known = ", ".join(format_.name for format_ in FORMATS)
    raise ValueError(f"there is no format {name!r}; there are: {known}")


def detect(document: object) -> Format | Finding:
    """Return the format of a document, or RT110 or RT111."""
    if not isinstance(document, dict):
        return rules.NOT_A_RANK_TABLE.finding(
            SourceSpan(()), f"a rank table is an object; this is {quoted(document)}"
        )
    foreign = _foreign_key(document)
    if foreign is not None:
        key, owner = foreign
        return rules.OTHER_VENDOR.finding(
            SourceSpan((key,), "key"),
            f"this is a rank table of {owner}, not of SOPHGO's SCCL",
            hint="point RANK_TABLE_FILE at the SCCL table, or unset it",
        )
    for format_ in FORMATS:
        if format_.nodes_key in document:
            return format_
    near = ", ".join(map(quoted, list(document)[:5])) or "none"
    return rules.NOT_A_RANK_TABLE.finding(
        SourceSpan(()), f"a rank table has the key node_list; the keys here are: {near}"
    )


def _foreign_key(document: dict[str, object]) -> tuple[str, str] | None:
    """Return the key that gives another vendor away, and who that is."""
    for key, owner in _FOREIGN_KEYS:
        if key in document:
            return key, owner
    first = _first_node(document)
    if "node_list" in document and ("rank_list" in first or "ranks" in first):
        return "node_list", "Ascend's HCCL"
    # HCCL names a server by server_id and counts in strings.
    if "server_list" in document and (
        "server_id" in first
        or ("server_ip" not in first and isinstance(document.get("server_count"), str))
    ):
        return "server_list", "Ascend's HCCL"
    if set(document) == {"status"}:
        return "status", "Ascend's operator, which has not filled it in"
    return None


def _first_node(document: dict[str, object]) -> dict[str, object]:
    for key in ("node_list", "server_list"):
        nodes = document.get(key)
        if isinstance(nodes, list) and nodes and isinstance(nodes[0], dict):
            return nodes[0]
    return {}
