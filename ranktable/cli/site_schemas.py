"""Judge a table or a cluster spec by a site's own JSON Schema too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cli.file_kinds import YAML_NAMES
from ranktable.cluster.specs.read_spec import read_spec
from ranktable.schema.document import Document
from ranktable.schema.finding import Finding
from ranktable.schema.json_parser import parse
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from ranktable.schema.report import Report
    from ranktable.schema.site_schema import SiteSchema


def judge_by_schema(report: Report, schema: SiteSchema) -> Report:
    """Return a report with the findings of a site's schema added.

    Args:
        report: The report of a table. A file whose name ends in .yaml or .yml is judged
            as a cluster spec instead.
        schema: The schema.

    Raises:
        SiteSchemaError: The schema cannot be used.
    """
    if _is_yaml(report.file) and report.data is not None:
        report = read_spec(report.data, file=report.file, limit=schema.limit).report
    return schema.added_to(report, _document(report))


def _is_yaml(name: str) -> bool:
    """Whether a file is a cluster spec, by its name."""
    return name.endswith(YAML_NAMES)


def _document(report: Report) -> Document | None:
    """Return the document to judge, None if the text could not be read."""
    if report.text is None:
        return None
    if _is_yaml(report.file):
        documents, _ = parse_yaml(report.text)
        return documents[0] if documents else None
    parsed = parse(report.text)
    if isinstance(parsed, Finding):
        return None
    return Document(text=report.text, data=parsed[0])
