"""Make, check and use rank tables: which process of a job runs on which chip.

A rank table is a JSON file with ``version``, ``node_list`` and ``device_list``. In a
training script::

    chip_map = ranktable.read_rank_table()  # chip_map[rank] is that rank's chip

Everything here is imported on first use, so ``import ranktable`` costs next to nothing.
"""

from __future__ import annotations

from ranktable._lazy import attach

TYPE_CHECKING = False  # typing takes longer to import than all that is needed here

if TYPE_CHECKING:
    from ranktable._error import Error
    from ranktable.report.drawing import draw
    from ranktable.runtime.table import is_rank_table_valid, read_rank_table
    from ranktable.schema.check import check, load, loads
    from ranktable.schema.document import Location
    from ranktable.schema.finding import Diagnostic, RankTableError, Severity
    from ranktable.schema.model import Device, Node, RankTable
    from ranktable.schema.report import Report
    from ranktable.schema.writing import dump, dumps

__version__ = "0.2.0"

__all__ = [
    "Device",
    "Diagnostic",
    "Error",
    "Location",
    "Node",
    "RankTable",
    "RankTableError",
    "Report",
    "Severity",
    "__version__",
    "check",
    "draw",
    "dump",
    "dumps",
    "is_rank_table_valid",
    "load",
    "loads",
    "read_rank_table",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Device": "ranktable.schema.model",
            "Diagnostic": "ranktable.schema.finding",
            "Error": "ranktable._error",
            "Location": "ranktable.schema.document",
            "Node": "ranktable.schema.model",
            "RankTable": "ranktable.schema.model",
            "RankTableError": "ranktable.schema.finding",
            "Report": "ranktable.schema.report",
            "Severity": "ranktable.schema.finding",
            "check": "ranktable.schema.check",
            "draw": "ranktable.report.drawing",
            "dump": "ranktable.schema.writing",
            "dumps": "ranktable.schema.writing",
            "is_rank_table_valid": "ranktable.runtime.table",
            "load": "ranktable.schema.check",
            "loads": "ranktable.schema.check",
            "read_rank_table": "ranktable.runtime.table",
        },
    )
