"""``ranktable probe``: the chips of this node, as one line of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.output import Color, OutputFormat, style_of, write
from ranktable.cli.parameters import ColorOption, RootOption, RunProgramsOption, valued
from ranktable.cli.this_node import ROOT, TIMEOUT_S, probe_node
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.probes.probe_line import NodeProbe, ProbedChip
    from ranktable.report.terminal import Style

NO_CHIPS = 1


def probe(
    format: Annotated[
        OutputFormat,
        typer.Option(help="One line of JSON for merge, or text for people."),
    ] = "json",
    host: Annotated[
        str | None, valued("NAME", "Name of this node; by default its own.")
    ] = None,
    root: RootOption = ROOT,
    run_programs: RunProgramsOption = False,
    timeout: Annotated[
        float, valued("S", "Seconds to wait for each of the vendors' tools.")
    ] = TIMEOUT_S,
    record: Annotated[
        str | None,
        valued("DIR", "Also write all that check reads of this node to a new folder."),
    ] = None,
    color: ColorOption = Color.AUTO,
) -> None:
    """Print the chips of this node, and what could not be detected.

    It looks for chips of SOPHGO, Ascend and NVIDIA, in this order.
    Exit status: 0 there are chips, 1 there are none, 2 wrong usage.

    Example: ranktable probe --format text; echo "exit status $?"
    """
    found = probe_node(
        root, run_programs=run_programs, host=host, timeout_s=timeout, record=record
    )
    if format == "json":
        write([found.to_line()])
    else:
        write(_text(found, style_of(color)))
    raise typer.Exit(0 if found.chips else NO_CHIPS)


def _text(found: NodeProbe, style: Style) -> Iterator[str]:
    host = style.mark(printable(found.host), "bold")
    if found.chips:
        parts = (found.model or "", f"driver {found.driver}" if found.driver else "")
        more = "".join(f", {printable(part)}" for part in parts if part)
        number = counted(len(found.chips), "chip")
        yield f"{host}: {number} of {printable(found.vendor or 'unknown make')}{more}\n"
    else:
        yield f"{host}: no chips\n"
    for chip in found.chips:
        yield f"  {_chip(chip, style)}\n"
    for item in found.unseen:
        what = style.mark(printable(item.what), "place")
        yield f"  not detected: {what}: {printable(item.why)}\n"


def _chip(chip: ProbedChip, style: Style) -> str:
    words = [
        chip.bus_address,
        chip.model,
        chip.address and f"address {chip.address}",
        chip.uuid,
        chip.serial and f"serial {chip.serial}",
    ]
    line = ", ".join(printable(word) for word in words if word)
    head = f"chip {chip.device_id}" + (f"  {line}" if line else "")
    if chip.status is None:
        return head
    kind = "help" if chip.is_healthy else "error"
    return f"{head}  {style.mark(printable(chip.status), kind)}"
