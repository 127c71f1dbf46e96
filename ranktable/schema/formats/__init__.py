"""Every file format, and how the format of a document is detected."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.document import SourceSpan
from ranktable.schema.formats import (
    detection,
    hccl_1_0,
    hccl_1_2,
    sccl,
    sccl_2024,
)
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding, Findings
    from ranktable.schema.format import Format

FORMATS: tuple[Format, ...] = (
    sccl.FORMAT,
    hccl_1_2.FORMAT,
    hccl_1_0.FORMAT,
    sccl_2024.FORMAT,
)
"""Formats of nodes that list devices, in the order in which they are tried.

Every process of a job imports them, so they are few and small.
"""


class Other(NamedTuple):
    """A format that is imported only if a document has it.

    Attributes:
        name: Name on the command line.
        module: Module in this package.
        attribute: Name of the format in its module.
        matches: Whether a document has this format, sound or not.
    """

    name: str
    module: str
    attribute: str
    matches: Callable[[dict[str, Any]], bool]

    def load(self) -> Format:
        """Return the format."""
        module = import_module(f"{__name__}.{self.module}")
        format_: Format = getattr(module, self.attribute)
        return format_


OTHERS = (
    Other("kubernetes", "kubernetes", "FORMAT", detection.is_placeholder),
    Other("vllm-pd", "vllm_pd", "FORMAT", detection.is_vllm_pd),
    Other("server-groups", "server_groups", "FORMAT", detection.is_server_groups),
    Other("hccl-rootinfo", "hccl_2_0", "ROOTINFO", detection.is_rootinfo),
    Other("hccl-topology", "hccl_topology", "FORMAT", detection.is_topology),
    Other("hccl-changed", "hccl_2_0", "CHANGED", detection.is_changed),
    Other("hccl-2.0", "hccl_2_0", "FORMAT", detection.is_hccl_2_0),
    Other("hccl-1.1", "hccl_1_1", "FORMAT", detection.is_hccl_1_1),
    Other("local-comm-res", "local_comm_res", "FORMAT", detection.is_local_comm_res),
    Other("cce", "server_lists", "CCE", detection.is_cce),
    Other("mindie", "server_lists", "MINDIE", detection.is_of_no_file),
    Other("hccl-lab", "hccl_groups", "LAB_FORMAT", detection.is_lab),
    Other("hccl-cloud", "hccl_groups", "CLOUD_FORMAT", detection.is_cloud),
    Other("hccl-logical", "hccl_offline", "FORMAT", detection.is_logical),
    Other("hccl-roles", "hccl_offline", "ROLES", detection.is_roles),
    Other("gaudi-hcl", "gaudi_hcl", "FORMAT", detection.is_gaudi),
    Other("paddle-mapping", "paddle", "MAPPING", detection.is_paddle_mapping),
    Other("paddle-topology", "paddle", "TOPOLOGY", detection.is_paddle_topology),
)
"""Other formats, in the order in which they are tried, before ``FORMATS``."""

LARGE = (("hccl-2.0", b'"rank_list"'),)
"""Formats of ``OTHERS`` with a fast decoder, and the key by which they are detected."""

HEAD_BYTES = 64 * 1024
"""Bytes at the beginning of a file that contain this key."""

DEFAULT = sccl.FORMAT
"""The format that is written by default."""

_LISTS = "nodes (node_list), servers (server_list) or ranks (rank_list)"
_FOREIGN_KEYS = (("pod_count", "Huawei Cloud's Volcano, its list of links"),)


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


def decode_large(data: bytes, found: Findings | None = None) -> Columns | None:
    """Return the columns of a large table of another form, by the fast path.

    Returns:
        None for a document that needs all checks.
    """
    for name, key in LARGE:
        if data.find(key, 0, HEAD_BYTES) >= 0:
            return by_name(name).decode(data, found)
    return None


def detect(document: object) -> Format | Finding:
    """Return the format of a document, or RT110 or RT111."""
    from ranktable.schema.rules import shape as rules

    if detection.is_paddle_mapping(document):
        return by_name("paddle-mapping")
    if not isinstance(document, dict):
        return rules.NOT_A_RANK_TABLE.finding(
            SourceSpan(()), f"a rank table is an object; this is {quoted(document)}"
        )
    for other in OTHERS:
        if other.matches(document):
            return other.load()
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
        f"a rank table lists {_LISTS}; the keys here are: {near}",
    )


def _foreign_key(document: dict[str, object]) -> tuple[str, str] | None:
    """Return a key that shows another vendor's format, and the vendor."""
    for key, owner in _FOREIGN_KEYS:
        if key in document:
            return key, owner
    return None
