"""The placeholder that an operator replaces by a rank table later."""

from __future__ import annotations

from ranktable.schema.format import Kind, Role
from ranktable.schema.record import Member, Record, RecordFormat, text

_PLACEHOLDER = Record(
    name="placeholder",
    title="Placeholder",
    description="What stands there until an operator writes the table.",
    members=(
        text(
            "status",
            "Status",
            "initializing, until the table is there.",
            is_required=True,
            values=("initializing",),
        ),
        text("version", "Version", "Version of the table to come.", "1.0"),
    ),
)
FORMAT = RecordFormat(
    name="kubernetes",
    title="Placeholder for a rank table (status)",
    description="What an operator of Kubernetes writes before the table.",
    record=_PLACEHOLDER,
    table_fields=(Member(key="version", kind=Kind.TEXT, role=Role.VERSION),),
    has_global_ranks=False,
    rules=(),
)
