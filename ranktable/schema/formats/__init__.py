"""Every file format, and which of them a document has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.document import SourceSpan
from ranktable.schema.formats import hccl_1_0, hccl_1_2, sccl, sccl_2024
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.schema.diagnostic import Finding
    from ranktable.schema.format import Format

FORMATS: tuple[Format, ...] = (
    sccl.FORMAT,
    hccl_1_2.FORMAT,
    hccl_1_0.FORMAT,
    sccl_2024.FORMAT,
)
"""Every format, in the order in which a document is tried."""

DEFAULT = sccl.FORMAT
"""The format that is written unless another is named."""

_FOREIGN_KEYS = (
    ("group_list", "Ascend's HCCL, the old layout with group_list"),
    ("server_group_list", "Ascend's ClusterD"),
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
    from ranktable.schema.rules import shape as rules  # noqa: PLC0415 - for errors

    if not isinstance(document, dict):
        return rules.NOT_A_RANK_TABLE.finding(
            SourceSpan(()), f"a rank table is an object; this is {quoted(document)}"
        )
    foreign = _foreign_key(document)
    if foreign is not None:
        key, owner = foreign
        return rules.OTHER_VENDOR.finding(
            SourceSpan((key,), "key"),
            f"this is a rank table of {owner}, which is not read yet",
            hint="point RANK_TABLE_FILE at the table of this cluster, or unset it",
        )
    for format_ in FORMATS:
        if format_.matches(document):
            return format_
    near = ", ".join(map(quoted, list(document)[:5])) or "none"
    return rules.NOT_A_RANK_TABLE.finding(
        SourceSpan(()),
        f"a rank table has the key node_list; the keys here are: {near}",
    )


def _foreign_key(document: dict[str, object]) -> tuple[str, str] | None:
    """Return the key that gives another vendor away, and who that is."""
    for key, owner in _FOREIGN_KEYS:
        if key in document:
            return key, owner
    nodes = document.get("node_list")
    first = nodes[0] if isinstance(nodes, list) and nodes else None
    if isinstance(first, dict) and ("rank_list" in first or "ranks" in first):
        return "node_list", "Ascend's HCCL"
    if set(document) == {"status"}:
        return "status", "Ascend's operator, which has not filled it in"
    return None
