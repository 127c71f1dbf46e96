"""``ranktable wait``: wait until a table is complete, sound and stable."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.output import COULD_NOT_JUDGE, Color, CommandError, show_findings
from ranktable.cli.parameters import (
    ColorOption,
    FindingsFormatOption,
    MaxSizeOption,
    valued,
)
from ranktable.cli.progress import Progress, progress
from ranktable.cli.sources import MIB, STANDARD_INPUT, named_file
from ranktable.cluster.waiting import Clock, wait_for_table
from ranktable.report.terminal import table_size
from ranktable.runtime.table import VARIABLE
from ranktable.schema.files import is_open_already, read_file
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from ranktable.cluster.waiting import Reason, WaitResult

TIMEOUT_S = 300.0
"""The same as in the start scripts of the vendors' containers."""

INTERVAL_S = 0.5
SHORTEST_INTERVAL_S = 0.01


def wait(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help=f"Rank table; by default ${VARIABLE}."),
    ] = None,
    timeout: Annotated[
        float, valued("S", "Seconds after which to give up.")
    ] = TIMEOUT_S,
    interval: Annotated[
        float, valued("S", "Seconds between two readings.")
    ] = INTERVAL_S,
    format: FindingsFormatOption = None,
    max_size: MaxSizeOption = 256,
    color: ColorOption = Color.AUTO,
) -> None:
    """Wait until a rank table exists, is sound and stays the same.

    The file may not exist yet, may be incomplete, or may be a link that is replaced, as
    in a ConfigMap. Standard error says what is missing. A misspelt status ends the wait
    at once. The wait is over when two readings of a sound table are the same.

    Exit status: 0 the table is there and sound, 2 the time is up (the defects of the
    table are printed then) or wrong usage.

    Example: ranktable wait sccl_rank_table.json --timeout 60
    """
    _refuse_times(timeout, interval)
    name = named_file(file, may_be_input=False)
    if file == STANDARD_INPUT or is_open_already(name):
        raise CommandError("a pipe can be read only once; name a file to wait for")
    with progress() as line:
        said = _Sayer(name, timeout, line)
        outcome = wait_for_table(
            lambda: read_file(name, max_size * MIB, pipe_wait_s=0),
            file=name,
            timeout_s=timeout,
            interval_s=interval,
            clock=Clock(now=time.monotonic, sleep=time.sleep),
            on_reason=said.on_reason,
        )
    if outcome.reason is None:
        _say_sound(outcome)
        return
    if outcome.report.totals and not outcome.report.is_unreadable:
        show_findings([outcome.report], format, color)
    gone = round(outcome.waited_s, 1) if outcome.reason.is_final else timeout
    raise CommandError(
        f"gave up on {name} after {gone:g} s: {outcome.reason.text}",
        COULD_NOT_JUDGE,
    )


def _refuse_times(timeout_s: float, interval_s: float) -> None:
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise CommandError("--timeout: the seconds are above 0")
    if not (math.isfinite(interval_s) and interval_s >= SHORTEST_INTERVAL_S):
        raise CommandError(f"--interval: the seconds are {SHORTEST_INTERVAL_S} or more")


class _Sayer:
    """Prints every reason once, and on a terminal how long it has waited."""

    def __init__(self, name: str, timeout_s: float, line: Progress) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self.line = line
        self.kind: str | None = None

    def on_reason(self, reason: Reason, waited_s: float) -> None:
        # If the table is ready at once, nothing is printed.
        if reason.kind and reason.kind != self.kind:
            self.kind = reason.kind
            self.line.clear()
            text = printable(f"waiting for {self.name}: {reason.text}")
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        self.line.show(f"{waited_s:.0f} s of {self.timeout_s:g} s")


def _say_sound(outcome: WaitResult) -> None:
    table = outcome.report.table
    assert table is not None
    name = printable(outcome.report.file)
    sys.stderr.write(f"{name}: sound, {table_size(table)}\n")
