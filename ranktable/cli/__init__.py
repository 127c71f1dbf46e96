"""The command line: arguments in, text and exit codes out."""

from __future__ import annotations

import gc
import sys

_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_OBJECTS = 2_000_000
"""Number of new objects after which Python searches for reference cycles.

Tables have many objects but no cycles, and the search takes a third of the time.
"""


def main() -> None:
    """Run ``ranktable`` and end the process with its exit status."""
    gc.set_threshold(_OBJECTS)
    try:
        # Imported here, so that Ctrl-C while it is imported shows no traceback.
        from ranktable.cli.output import COULD_NOT_JUDGE, reported

        with reported("ranktable"):
            from ranktable.cli.app import app_for

            arguments = sys.argv[1:]
            app = app_for(arguments)
            status = app(
                arguments or ["--help"], prog_name="ranktable", standalone_mode=False
            )
            sys.exit(status or (0 if arguments else COULD_NOT_JUDGE))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
