"""What stands in the place of a table until an operator has written it.

A placeholder is a state of a table, whatever its format will be.
"""

from __future__ import annotations

from ranktable.schema.declare import KeyRole, Record, text

PLACEHOLDER = Record(
    name="placeholder",
    description="What stands there until an operator writes the table.",
    keys=(
        text(
            "status",
            "initializing, until the table is there.",
            is_required=True,
            values=("initializing",),
        ),
        text("version", "Version of the table to come.", "1.0", role=KeyRole.VERSION),
    ),
)


def is_placeholder(document: object) -> bool:
    """Whether a document has a status and no nodes."""
    return (
        isinstance(document, dict)
        and "status" in document
        and document.keys() <= {"status", "version"}
    )
