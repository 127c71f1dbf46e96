"""The command line: arguments in, text and exit codes out."""

from __future__ import annotations

import sys

_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main() -> None:
    """Run ``ranktable`` and end the process with its exit status."""
    try:
        # Imported here, so that Ctrl-C while it is imported shows no traceback.
        from ranktable.cli.output import run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
