"""Names of ``finding``, ``report``, ``columns`` and ``text`` in one place."""

from ranktable.schema.finding import (
    Diagnostic,
    Edit,
    Finding,
    Findings,
    Location,
    RankTableError,
    Refusal,
    Rule,
    Severity,
)
from ranktable.schema.report import Options, Report, make_report, order_of
from ranktable.schema.text import (
    counted,
    fold_numbers,
    folded,
    named_ranks,
    plural_of,
    printable,
    quoted,
    times,
)

__all__ = [
    "Diagnostic",
    "Edit",
    "Finding",
    "Findings",
    "Location",
    "Options",
    "RankTableError",
    "Refusal",
    "Report",
    "Rule",
    "Severity",
    "counted",
    "fold_numbers",
    "folded",
    "make_report",
    "named_ranks",
    "order_of",
    "plural_of",
    "printable",
    "quoted",
    "times",
]
