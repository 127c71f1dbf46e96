"""The command line: arguments in, text and exit codes out.

Exit status: 0 sound, 1 defects found, 2 could not judge or wrong usage. Findings go to
standard output, everything else to standard error.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``ranktable`` and leave the process with its exit status."""
    from ranktable.cli.app import app_for  # noqa: PLC0415 - keeps the package light
    from ranktable.cli.failure import reported  # noqa: PLC0415

    with reported("ranktable"):
        app = app_for(sys.argv[1:])
        sys.exit(app(prog_name="ranktable", standalone_mode=False) or 0)
