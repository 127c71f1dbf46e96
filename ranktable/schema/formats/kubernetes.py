"""The placeholder that an operator replaces by a rank table later."""

from __future__ import annotations

from ranktable.schema.declare import NO_RECORD, Format, Record, Role, text

_PLACEHOLDER = Record(
    name="placeholder",
    description="What stands there until an operator writes the table.",
    keys=(
        text(
            "status",
            "initializing, until the table is there.",
            is_required=True,
            values=("initializing",),
        ),
        text("version", "Version of the table to come.", "1.0", role=Role.VERSION),
    ),
)

FORMAT = Format(
    name="kubernetes",
    title="Placeholder for a rank table (status)",
    description="What an operator of Kubernetes writes before the table.",
    record=_PLACEHOLDER,
    nodes_key="",
    devices_key="",
    node=NO_RECORD,
    device=NO_RECORD,
    example=_PLACEHOLDER.example,
    matches=lambda _: False,
    fill=lambda _reader, _data: None,
    has_global_ranks=False,
    rules=(),
)
