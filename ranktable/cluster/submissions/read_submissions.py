"""Read and judge a file with submissions: a batch script or manifests of jobs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.detect import is_sbatch
from ranktable.cluster.submissions.job_kinds import read_manifests
from ranktable.cluster.submissions.judge import judge, unknown_parts
from ranktable.cluster.submissions.sbatch import read_sbatch
from ranktable.schema.file_kind import not_judged
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.json_parser import decode
from ranktable.schema.report import Report, make_report
from ranktable.schema.rules.syntax import TOO_LARGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ranktable.cluster.submissions.submission import Submission, Unjudged

    Compare = Callable[[Submission], Iterable[Finding]]

MAX_BYTES = 8 * 1024 * 1024
"""Usual scripts and manifests have 10 kB."""


class ReadSubmissions(NamedTuple):
    """A file with submissions.

    Attributes:
        report: What is wrong with them; None if nothing in the file is a submission.
        submissions: What the file starts.
        unjudged: What was not judged.
    """

    report: Report | None
    submissions: tuple[Submission, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()


def read_submissions(
    data: bytes,
    *,
    file: str,
    limit: int | None = None,
    is_script: bool | None = None,
    compare: Compare | None = None,
) -> ReadSubmissions:
    """Return what a file starts, and what is wrong with it.

    Args:
        data: The file.
        file: Name to report.
        limit: Most findings of each code to locate; the report counts all.
        is_script: Whether it is a batch script; by default its beginning says so.
        compare: Compares what is started with something else, such as a rank table.
    """
    if len(data) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES} bytes"
        found = [TOO_LARGE.finding(None, message)]
        return ReadSubmissions(make_report(found, file=file))
    decoded = decode(data)
    if isinstance(decoded, Finding):
        text = data.decode("utf-8", "replace") if decoded.span else None
        return ReadSubmissions(make_report([decoded], file=file, text=text))
    text, marks = decoded
    is_script = is_sbatch(text) if is_script is None else is_script
    read = read_sbatch(text) if is_script else read_manifests(text)
    findings = Findings(marks, limit=limit)
    told = set()
    compare = compare or (lambda _: ())
    judged = (each for one in read.submissions for each in (*judge(one), *compare(one)))
    for finding in chain(read.found, judged):
        key = finding.rule.code, finding.message, finding.span
        if key not in told:  # several lines may have one assignment
            findings.add(finding)
        told.add(key)
    is_without = not findings.has_errors if is_script else not findings
    is_nothing = not read.submissions and is_without
    parts = (each for one in read.submissions for each in unknown_parts(one))
    unjudged = tuple(dict.fromkeys([*read.unjudged, *parts]))
    for line in unjudged:
        findings.add(rules.NOT_JUDGED.finding(line.span, f"not judged: {line.reason}"))
    name = "sbatch" if is_script else "job"
    made = make_report(findings, file=file, text=text, format_name=name)
    report = _nothing(made, is_script=is_script) if is_nothing else made
    return ReadSubmissions(report, tuple(read.submissions), unjudged)


def _nothing(report: Report, *, is_script: bool) -> Report | None:
    """Return the report of a file in which nothing could be judged."""
    if not is_script and not report.totals:
        return None
    reason = "nothing in the script starts processes by words that can be judged"
    if not is_script:
        reason = "nothing in the manifest could be judged"
    alone = not_judged(report.file, reason)
    return alone._replace(
        diagnostics=(*alone.diagnostics, *report.diagnostics),
        counts={**alone.counts, **report.counts},
    )
