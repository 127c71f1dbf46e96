"""A table, a change and findings as Markdown, for a pull request or a run's summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.parallel import describe_sizes
from ranktable.layout.traffic import GIB, is_reached
from ranktable.report.finding_lines import escaped, markdown_help
from ranktable.report.folding import fold_nodes
from ranktable.report.page_data import change_lines, cost_model
from ranktable.schema.text import plural_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.report.page_data import ReportFacts

MAX_LINES = 50
"""Most nodes and most findings that are listed."""

_TIB = 1024  # GiB

_MARKS = {"error": "🔴", "warning": "🟡", "note": "🔵"}


def render_markdown(facts: ReportFacts) -> Iterator[str]:
    """Yield the summary."""
    yield f"### {escaped(facts.name)}: {facts.sizes}, {facts.verdict}\n\n"
    parts = [facts.columns.format.name]
    if facts.layout is not None:
        parts.append(f"{describe_sizes(facts.layout)}, order {facts.layout.order}")
    if facts.table is not None:
        parts.append(f"`{facts.table.digest()[:16]}`")
    yield " · ".join(parts) + "\n\n"
    yield from _findings(facts)
    yield from _change(facts)
    yield from _traffic(facts)
    yield from _nodes(facts)


def _findings(facts: ReportFacts) -> Iterator[str]:
    for one in facts.findings[:MAX_LINES]:
        place = f" ({escaped(one.place)})" if one.place else ""
        hint = markdown_help(one.hint)
        mark = _MARKS[one.severity]
        yield f"- {mark} **{escaped(one.code)}** {escaped(one.message)}{place}{hint}\n"
    left = len(facts.findings) - MAX_LINES
    if left > 0:
        yield f"- ... and {left} more\n"
    if facts.findings:
        yield "\n"


def _change(facts: ReportFacts) -> Iterator[str]:
    if facts.change is None:
        return
    yield f"Compared with {escaped(facts.old_name)}:\n\n"
    for line in change_lines(facts.change):
        is_below = line.startswith("  ")
        yield f"{'  ' * is_below}- {escaped(line.strip())}\n"
    yield "\n"


def _traffic(facts: ReportFacts) -> Iterator[str]:
    costs = cost_model(facts)
    if costs is None or facts.table is None or not costs.flows:
        return
    names = [escaped(one.name) for one in costs.boundaries]
    heads = "".join(f" inside {name} | {name} GiB |" for name in names)
    yield f"| axis | groups | size |{heads}\n"
    yield "|---|--:|--:|" + "--:|--:|" * len(names) + "\n"
    rows, totals = costs.summary(list(facts.table.node_ranks))
    for row in rows:
        cells = "".join(
            f" {one.inside}/{row.num_groups} | {size.removesuffix(' GiB')} |"
            for one in row.at
            for size in [_sized(one.crossing.least if one.crossing else 0)]
        )
        yield f"| {row.axes} | {row.num_groups} | {row.group_size} |{cells}\n"
    held = [len(node.devices) for node in facts.table.nodes]
    yield "\n"
    for name, total, bound in zip(names, totals, costs.bounds(held), strict=True):
        sent = total.sent
        how = (
            "the least that is possible"
            if is_reached(bound, sent)
            else f"the lower bound is {_sized(bound)}"
        )
        yield f"Between {plural_of(name)}: {_sized(sent)} a step, {how}.  \n"
    if facts.costs is not None and facts.costs.sizes is None:
        yield "These are typical bytes; `--bytes` gives yours.\n"
    yield "\n"


def _sized(size_bytes: float) -> str:
    """Return bytes in GiB, and large ones in TiB, as the page has them."""
    size = size_bytes / GIB
    return f"{size:.2f} GiB" if size < _TIB else f"{size / _TIB:.2f} TiB"


def _nodes(facts: ReportFacts) -> Iterator[str]:
    if facts.table is None:
        return
    folds = fold_nodes(facts.table)
    yield "<details><summary>Nodes, chips and ranks</summary>\n\n"
    yield "| node | chips | ranks |\n|---|---|---|\n"
    for fold in folds[:MAX_LINES]:
        yield f"| {escaped(fold.host)} | {fold.chips or 'none'} | {fold.ranks} |\n"
    left = len(folds) - MAX_LINES
    if left > 0:
        yield f"| ... and {left} more lines | | |\n"
    yield "\n</details>\n"
