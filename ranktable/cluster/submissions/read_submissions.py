"""Read and judge a file with submissions: a batch script or manifests of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.job_kinds import KINDS
from ranktable.cluster.submissions.judge import judge
from ranktable.cluster.submissions.manifests import is_manifest, read_manifests
from ranktable.cluster.submissions.sbatch import is_sbatch, read_sbatch
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.json_parser import decode
from ranktable.schema.report import Report, make_report
from ranktable.schema.rules.syntax import NOTHING

if TYPE_CHECKING:
    from ranktable.cluster.submissions.submission import Submission

FORMAT = "submission"


class ReadSubmissions(NamedTuple):
    """A file with submissions.

    Attributes:
        report: What is wrong with them.
        submissions: What the file starts.
    """

    report: Report
    submissions: tuple[Submission, ...]


def is_submission(text: str) -> bool:
    """Whether the beginning of a file is that of a batch script or of a job."""
    return is_sbatch(text) or is_manifest(text)


def read_submissions(
    data: bytes, *, file: str, limit: int | None = None
) -> ReadSubmissions:
    """Return what a file starts, and what is wrong with it.

    Args:
        data: The file.
        file: Name to report.
        limit: Most findings of each code to locate; the report counts all.
    """
    decoded = decode(data)
    if isinstance(decoded, Finding):
        text = data.decode("utf-8", "replace") if decoded.span else None
        return ReadSubmissions(make_report([decoded], file=file, text=text), ())
    text, marks = decoded
    read = read_sbatch(text) if is_sbatch(text) else read_manifests(text, KINDS)
    found = Findings([*marks, *read.found], limit=limit)
    for one in read.submissions:
        found.add(*judge(one))
    is_nothing = not read.submissions and not found
    for line in read.unjudged:
        found.add(rules.NOT_JUDGED.finding(line.span, f"not judged: {line.reason}"))
    if is_nothing:
        message = "nothing in the file could be judged"
        found.add(NOTHING.finding(None, message))
    report = make_report(found, file=file, text=text, format_name=FORMAT)
    return ReadSubmissions(report, tuple(read.submissions))
