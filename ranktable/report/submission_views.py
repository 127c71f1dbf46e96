"""What a batch script or the manifest of a job would start: as text and as data."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from ranktable.cluster.submissions.read_submissions import read_submissions
from ranktable.cluster.submissions.shell_marks import shown
from ranktable.runtime.submitted import (
    MAX_PROCESSES,
    compare_with_table,
    count_processes,
    predict,
)
from ranktable.schema.check import check_bytes
from ranktable.schema.document import find_locations
from ranktable.schema.file_kind import Shown
from ranktable.schema.options import Options
from ranktable.schema.text import counted, fold_numbers, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.submissions.submission import Submission
    from ranktable.runtime.submitted import SubmittedProcess
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.file_kind import Source
    from ranktable.schema.finding import Finding
    from ranktable.schema.report import Report

_FIELDS: Final = (
    *("rank", "world_size", "local_rank", "local_world_size", "node_rank"),
    *("num_nodes", "master_addr", "master_port", "launcher"),
)


def judge_source(source: Source, options: Options, *, is_script: bool) -> list[Report]:
    """Return the report of a batch script or of manifests, none if there is no job."""

    def compare(one: Submission) -> Iterator[Finding]:
        size = options.job_size or _size_of(one.tables)
        if size is not None:
            yield from compare_with_table(one, *size)

    read = read_submissions(
        source.data,
        file=source.name,
        limit=options.limit,
        is_script=is_script,
        compare=compare,
    )
    return [] if read.report is None else [read.report]


def _size_of(tables: tuple[str, ...]) -> tuple[int, int] | None:
    """Return ranks and nodes of the only table of a job, None if there is none."""
    texts = set(tables)
    if len(texts) != 1:
        return None
    table = check_bytes(texts.pop().encode(), Options(), file="").table
    return (table.world_size, len(table.nodes)) if table and table.nodes else None


def show_source(source: Source, *, is_script: bool) -> Shown:
    """Return what a batch script or the jobs of manifests would start where."""
    name, data = source
    read = read_submissions(data, file=name, limit=20, is_script=is_script)
    text = "" if read.report is None else read.report.text or ""
    spans = [one.span for one in read.submissions]
    lines = _lines(text, spans + [each.span for each in read.unjudged])
    made = [(one, list(predict(one)), lines[one.span]) for one in read.submissions]
    return Shown(
        reports=[] if read.report is None else [read.report],
        text="".join(line for each in made for line in _text(*each)),
        data={
            "file": name,
            "submissions": [_data(*each) for each in made],
            "not_judged": [
                {"line": lines[each.span], "reason": each.reason}
                for each in read.unjudged
            ],
        },
    )


def _lines(
    text: str, spans: list[SourceSpan | None]
) -> dict[SourceSpan | None, int | None]:
    """Return the line of each place."""
    known = {span for span in spans if span is not None}
    found = find_locations(text, known, file="") if text else {}
    return {
        span: found[span].line if span is not None and span in found else None
        for span in spans
    }


def _data(
    one: Submission, found: list[SubmittedProcess], line: int | None
) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "name": shown(one.name) or None,
        "line": line,
        "program": one.roles[0].command.program or None,
        "num_nodes": one.nodes,
        "num_starts": one.starts(),
        "num_processes": count_processes(one),
        "roles": [
            {
                "name": role.name or None,
                "num_nodes": None if role.nodes is None else role.nodes.value,
                "chips_per_node": None if role.chips is None else role.chips.value,
            }
            for role in one.roles
        ],
        "processes": [
            {
                "node": each.node,
                "role": each.role or None,
                **{name: getattr(each.environment, name, None) for name in _FIELDS},
                "problem": each.problem,
            }
            for each in found
        ],
    }


def _text(
    one: Submission, found: list[SubmittedProcess], line: int | None
) -> Iterator[str]:
    """Yield what a submission starts; nodes that are alike share a line."""
    name = f" {printable(shown(one.name))}" if one.name else ""
    program = one.roles[0].command.program
    yield (
        f"line {line}: {one.kind}{name}: {_amount(one.nodes, one.node)}, "
        f"{_amount(count_processes(one), 'process')}"
        + (f", started by {program}\n" if program else "\n")
    )
    chips = {
        index: None if role.chips is None else role.chips.value
        for index, role, _ in (one.by_node() if found else ())
    }
    nodes = [(n, list(g)) for n, g in groupby(found, key=lambda each: each.node)]
    for node, here in nodes:
        yield f"  {one.node} {node}: {_ranks(here)}{_chips(chips.get(node))}\n"
    backend = one.roles[0].option("rdzv-backend")
    if found and backend is not None and backend.text != "static":
        yield f"  the {one.node}s are numbered as they join ({backend.said})\n"
    if not found and (count_processes(one) or 0) > MAX_PROCESSES:
        yield f"  more than {MAX_PROCESSES} processes are not listed\n"


def _amount(number: int | None, what: str) -> str:
    plural = "processes" if what == "process" else None
    if number is None:
        return f"an unknown number of {plural or what + 's'}"
    return counted(number, what, plural)


def _chips(number: int | None) -> str:
    return "" if number is None else f"; {counted(number, 'chip')}"


def _ranks(here: list[SubmittedProcess]) -> str:
    """Return the ranks of a node in words."""
    problem = next((each.problem for each in here if each.problem), None)
    if problem is not None:
        return f"no rank: {printable(problem)}"
    places = [each.environment for each in here if each.environment is not None]
    ranks = [each.rank for each in places if each.rank is not None]
    locals_ = [each.local_rank for each in places if each.local_rank is not None]
    if not ranks:
        node_rank = places[0].node_rank if places else None
        known = "" if node_rank is None else f" (node rank {node_rank})"
        return f"{counted(len(here), 'process', 'processes')} without RANK{known}"
    local = f", LOCAL_RANK {fold_numbers(locals_)}" if locals_ else ""
    return f"RANK {fold_numbers(ranks)}{local}, WORLD_SIZE {places[0].world_size}"
