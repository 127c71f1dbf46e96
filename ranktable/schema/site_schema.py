"""A site's own JSON Schema, an additional check of a table or a spec.

Judging by a schema may never end: its patterns may try every way to match, and its
references may form a cycle. So this happens in another process (``schema_process``)
with a limit of time and of memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ranktable._error import Error
from ranktable.schema.json_parser import walk
from ranktable.schema.odd_numbers import BadNumber
from ranktable.schema.rules.shape import SITE_SCHEMA

if TYPE_CHECKING:
    from ranktable.schema.diagnostic import Report
    from ranktable.schema.document import Document

CPU_LIMIT_S = 10
"""Processor time for a small file; usual schemas take milliseconds."""

CPU_LIMIT_S_PER_MB = 10
"""Additional time for a large file: a sound table of 10 MB takes about 20 s."""

WALL_FACTOR = 6
"""Wall time for each second of processor time; a busy machine needs more."""

MEMORY_LIMIT_BYTES = 2 << 30
MEMORY_FACTOR = 100
"""Bytes of memory for each byte of a large file."""

MAX_FOUND = 10_000
"""Most defects that are described if no limit is given."""

# Not -m: it would first look for modules in the working folder.
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from ranktable.schema.schema_process import main; main()"
)


class SiteSchemaError(Error, ValueError):
    """The schema cannot be used; the text has the file and the reason."""


class SchemaRequest(msgspec.Struct):
    """The input of the process."""

    schema: str
    data: msgspec.Raw
    max_found: int
    cpu_limit_s: int
    memory_limit_bytes: int


class Violation(msgspec.Struct):
    """A value that does not satisfy the schema.

    Attributes:
        path: Keys and indices of the value.
        message: What is wrong.
        of_key: Whether the violation is about the key, not its value.
    """

    path: list[str | int]
    message: str
    of_key: bool = False


class Answer(msgspec.Struct):
    """The output of the process.

    Attributes:
        found: The violations, at most as many as requested.
        count: Number of all violations.
        error: Why nothing could be judged, empty if it was judged.
    """

    found: list[Violation] = []
    count: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSchema:
    """The JSON Schema of a site.

    Attributes:
        path: Its file.
        limit: Findings to describe; None for all.
        cpu_limit_s: Seconds of processor time for a small file.
    """

    path: str
    limit: int | None = None
    cpu_limit_s: int = CPU_LIMIT_S

    def added_to(self, report: Report, document: Document | None) -> Report:
        """Return a report with the findings of the schema added.

        Args:
            report: The findings of our rules.
            document: The document, None if it could not be read.

        Raises:
            SiteSchemaError: The schema is wrong, or judging takes too long.
        """
        if document is None or any(
            isinstance(value, BadNumber) for _, value in walk(document.data)
        ):
            return report
        answer = self._ask(document.data)
        found = [
            SITE_SCHEMA.finding(
                document.span_of(*violation.path, of_key=violation.of_key),
                violation.message,
            )
            for violation in answer.found
        ]
        if not found:
            return report
        return report.with_findings(SITE_SCHEMA, found, answer.count)

    def _ask(self, data: object) -> Answer:
        document = msgspec.json.encode(data)
        megabytes = len(document) // 10**6
        cpu_limit_s = self.cpu_limit_s + CPU_LIMIT_S_PER_MB * megabytes
        request = SchemaRequest(
            schema=self.path,
            data=msgspec.Raw(document),
            max_found=self.limit or MAX_FOUND,
            cpu_limit_s=cpu_limit_s,
            memory_limit_bytes=MEMORY_LIMIT_BYTES + MEMORY_FACTOR * len(document),
        )
        try:
            done = subprocess.run(  # noqa: S603 - this interpreter, our own module
                [sys.executable, "-c", _START, *sys.path],
                input=msgspec.json.encode(request),
                capture_output=True,
                timeout=cpu_limit_s * WALL_FACTOR,
                check=False,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        except subprocess.TimeoutExpired:
            status = -signal.SIGXCPU
        else:
            status = done.returncode
        if status == -signal.SIGXCPU:
            answer = Answer(
                error=f"judging by it did not end in {cpu_limit_s} s; look for "
                "patterns with a repetition inside a repetition, and for parts that "
                "refer to one part several times"
            )
        elif status:
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            answer = Answer(
                error=f"judging by it failed: {lines[-1] if lines else status}"
            )
        else:
            answer = msgspec.json.decode(done.stdout, type=Answer)
        if answer.error:
            raise SiteSchemaError(f"{self.path}: {answer.error}")
        return answer
