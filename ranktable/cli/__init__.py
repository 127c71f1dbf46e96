"""The command line: arguments in, text and exit codes out."""

from ranktable.cli.output import main

__all__ = ["main"]
