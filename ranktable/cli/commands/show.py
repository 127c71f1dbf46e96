"""``ranktable show``: nodes, chips and ranks; equal nodes share a line."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from ranktable.cli import completion
from ranktable.cli.options import RACKS_HELP, holders, links_of
from ranktable.cli.output import (
    COULD_NOT_JUDGE,
    DEFECTS_FOUND,
    Color,
    CommandError,
    show_findings,
    style_of,
    write,
    write_json,
)
from ranktable.cli.parameters import (
    ColorOption,
    FileOrHereArgument,
    OutputFormatOption,
    flag,
    valued,
)
from ranktable.cli.sources import OtherKindError, named_file
from ranktable.cli.table_input import sound_table
from ranktable.report.cluster_views import (
    MAX_DRAWN_CHIPS,
    fold_line,
    node_branch,
    render_links,
    render_tree,
)
from ranktable.report.folding import fold_nodes
from ranktable.report.terminal import MAX_DRAWN_ROWS, table_size, tree_lines
from ranktable.schema.text import counted, fold_numbers, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cli.output import OutputFormat
    from ranktable.report.terminal import Style
    from ranktable.schema.model import Device, Node, RankTable

_SHOWN = 8
"""Most spares with the same chips that are named, and most such groups."""


def show(
    file: FileOrHereArgument = None,
    rank: Annotated[int | None, valued("R", "Show only this rank.")] = None,
    node: Annotated[
        str | None, valued("NODE", "Show every device of this node: a host, or 0.")
    ] = None,
    tree: Annotated[
        bool, flag("Show racks, nodes, chips and ranks as a tree.", "--tree")
    ] = False,
    racks: Annotated[str | None, valued("RACKS", f"For --tree. {RACKS_HELP}")] = None,
    links: Annotated[
        str | None,
        valued(
            "LINKS",
            "Show the links between the chips of a node: sophgo-8, or a file with a "
            "matrix or pairs.",
            completes=completion.links,
        ),
    ] = None,
    digest: Annotated[
        bool,
        flag(
            "Show only the SHA-256 of the content, which is the same for every "
            "formatting.",
            "--digest",
        ),
    ] = False,
    format: OutputFormatOption = "text",
    color: ColorOption = Color.AUTO,
) -> None:
    """Show which chip each rank has.

    Of a batch script or the manifest of a job, show what would start where. Identical
    nodes share a line. --links shows the node of --node or --rank, otherwise the first
    one. White space, the order of keys, numbers written as strings, and rank or
    world_rank make no difference for --digest.

    Example: ranktable show sccl_rank_table.json --rank 3
    """
    if rank is not None and node is not None:
        raise CommandError("--rank and --node do not go together")
    try:
        name, table, *_ = sound_table(named_file(file, may_be_here=True))
    except OtherKindError as other:
        is_more = {rank, node, racks, links} != {None} or tree or digest
        _show_other(other, format, color, is_more=is_more)
        return
    if digest:
        _show_digest(name, table, format, others=(rank, node, racks, links, tree))
        return
    chosen = _chosen(rank, node, table)
    style = style_of(color)
    if racks is not None and not tree:
        raise CommandError("--racks is for --tree; give that too")
    if tree or links is not None:
        if format == "json" or (tree and chosen):
            raise CommandError(
                "--tree goes with --racks and --links only, --links not with --format"
            )
        if tree:
            holding = holders(racks, table, format, color)
            write(render_tree(_head(name, table, style), table, holding, style))
        write(_matrix(links, table, (chosen or [0])[0], style))
        return
    if format == "json":
        # json indents in Python code, which takes ten times as long.
        text = json.dumps(_data(name, table, chosen, rank))
        write([msgspec.json.format(text, indent=2) + "\n"])
    else:
        write(_text(name, table, chosen, rank, style))


def _chosen(rank: int | None, node: str | None, table: RankTable) -> list[int] | None:
    """Return the place of the node that is shown, None for all nodes."""
    if node is not None:
        return [_place_of(node, table)]
    if rank is None:
        return None
    if not 0 <= rank < table.world_size:
        raise CommandError(f"rank {rank} is not among the {table.world_size} ranks")
    return [table.node_rank_of(rank)]


def _show_other(
    other: OtherKindError, format: OutputFormat, color: Color, *, is_more: bool
) -> None:
    """Print what a file that is not a rank table says.

    Raises:
        OtherKindError: Files of its kind are not shown, or not with more options, or
            nothing of its kind is in it after all.
    """
    if other.kind.show is None or is_more:
        raise other
    shown = other.kind.show(other.source)
    if not (shown.text or shown.reports):
        raise other
    if any(report.totals for report in shown.reports):
        show_findings(shown.reports, None, color, aside=True)
    bad = [report for report in shown.reports if not report.ok]
    if bad:
        unread = any(report.is_unreadable for report in bad)
        raise typer.Exit(COULD_NOT_JUDGE if unread else DEFECTS_FOUND)
    if format == "json":
        write_json(shown.data)
    else:
        write([shown.text])


def _show_digest(
    name: str, table: RankTable, form: OutputFormat, *, others: tuple[object, ...]
) -> None:
    if any(other not in (None, False) for other in others):
        raise CommandError("--digest shows nothing else; leave the other options out")
    if form == "json":
        write_json({"file": name, "digest": table.digest()})
    else:
        write([f"{table.digest()}  {printable(name)}\n"])


def _matrix(
    links: str | None, table: RankTable, place: int, style: Style
) -> Iterator[str]:
    """Yield the links of a node, nothing if they are not wanted.

    Raises:
        CommandError: The node has chips that the links do not have.
    """
    found = None if links is None else links_of(links, table)
    if found is None:
        return
    node = table.nodes[place]
    most = max((device.device_id for device in node.devices), default=0)
    if most >= found.num_chips:
        count = counted(found.num_chips, "chip")
        raise CommandError(f"{links} has {count}, but the node has a chip {most}")
    yield from render_links(node.host or f"node {place}", node, found, style)


def _place_of(node: str, table: RankTable) -> int:
    """Return the number of a node that is given by its host or its number.

    Raises:
        CommandError: There is no such node.
    """
    if node in table.hosts:
        return table.hosts.index(node)
    if node.isdecimal() and int(node) < len(table.nodes):
        return int(node)
    near = get_close_matches(node, filter(None, table.hosts), n=2)
    meant = f"; did you mean {' or '.join(map(printable, near))}?" if near else ""
    raise CommandError(
        f"node {printable(node)} is not among the {len(table.nodes)} nodes{meant}"
    )


def _data(
    name: str, table: RankTable, chosen: list[int] | None, rank: int | None
) -> dict[str, object]:
    places = range(len(table.nodes)) if chosen is None else chosen
    return {
        "file": name,
        "format": table.format,
        "world_size": table.world_size,
        "num_nodes": len(table.nodes),
        "digest": table.digest(),
        "nodes": [_node_data(place, table.nodes[place], rank) for place in places],
        "spares": [
            {
                "host": spare.host,
                "device_ids": [device.device_id for device in spare.devices],
            }
            for spare in table.spares
        ],
    }


def _node_data(place: int, node: Node, rank: int | None) -> dict[str, object]:
    return {
        "node_rank": place,
        "host": node.host,
        "devices": [
            {
                "rank": device.rank,
                "local_rank": local_rank,
                "device_id": device.device_id,
                "address": device.address,
            }
            for local_rank, device in enumerate(node.devices)
            if rank is None or device.rank == rank
        ],
    }


def _text(
    name: str,
    table: RankTable,
    chosen: list[int] | None,
    rank: int | None,
    style: Style,
) -> Iterator[str]:
    if chosen is None:
        yield from _overview(name, table, style)
        return
    place = chosen[0]
    node = table.nodes[place]
    for local_rank, device in enumerate(node.devices):
        if rank is None or device.rank == rank:
            yield _device_line(place, node, local_rank, device, style)


def _head(name: str, table: RankTable, style: Style) -> str:
    title = style.mark(printable(name), "bold")
    return f"{title}: {table.format}, {table_size(table)}"


def _overview(name: str, table: RankTable, style: Style) -> Iterator[str]:
    head = _head(name, table, style)
    folds = fold_nodes(table)
    if style.is_drawn and len(folds) <= MAX_DRAWN_ROWS:
        has_chips = sum(len(table.nodes[fold.first].devices) for fold in folds)
        branches = (
            node_branch(fold.host, table.nodes[fold.first], style)
            if has_chips <= MAX_DRAWN_CHIPS and fold.first == fold.last
            else fold_line(fold, style)
            for fold in folds
        )
        yield from tree_lines(head, branches, style)
    else:
        yield f"{head}\n"
        yield from (f"{fold_line(fold, style)}\n" for fold in folds)
    yield from _spares(table)


def _spares(table: RankTable) -> Iterator[str]:
    """Yield one line with the spares, those with the same chips together."""
    of_chips: dict[str, list[str]] = {}
    for spare in table.spares:
        chips = fold_numbers([device.device_id for device in spare.devices])
        of_chips.setdefault(chips, []).append(spare.host or "without a host")
    parts = [
        f"{', '.join(hosts[:_SHOWN])}{_more(hosts)} (chips {chips})"
        for chips, hosts in of_chips.items()
    ]
    if parts:
        yield f"spares: {printable('; '.join(parts[:_SHOWN]))}{_more(parts)}\n"


def _more(shown: list[str]) -> str:
    rest = len(shown) - _SHOWN
    return f" and {rest} more" if rest > 0 else ""


def _device_line(
    place: int, node: Node, local_rank: int, device: Device, style: Style
) -> str:
    host = f" ({printable(node.host)})" if node.host else ""
    address = f", address {printable(device.address)}" if device.address else ""
    head = style.mark(f"rank {device.rank}", "bold")
    return (
        f"{head}: node {place}{host}, local_rank {local_rank}, "
        f"chip {device.device_id}{address}\n"
    )
