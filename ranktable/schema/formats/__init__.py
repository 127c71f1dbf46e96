"""Every file format, and how the format of a document is detected.

Source: the readers' own sources, as ``docs/formats.md`` names them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.document import SourceSpan
from ranktable.schema.formats import hccl_1_0, hccl_1_2, sccl
from ranktable.schema.formats.foreign import foreign_format
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
