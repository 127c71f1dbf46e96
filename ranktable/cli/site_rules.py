"""The rules of a site: its own JSON Schema, beside our rules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ranktable.cluster.specs.spec import NAME
from ranktable.schema.document import Document
from ranktable.schema.finding import Finding
from ranktable.schema.json_parser import parse
from ranktable.schema.text import printable
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from ranktable.schema.report import Report
    from ranktable.schema.site_schema import SiteSchema


def judge_by_schema(report: Report, schema: SiteSchema) -> Report:
    """Return the report of a table or a spec with the findings of a site's schema.

    Raises:
        SiteSchemaError: The schema cannot be used.
    """
    document = None
    if report.format == NAME:
        documents, _ = parse_yaml(report.text or "")
        document = documents[0] if documents else None
    elif report.text is not None:
        parsed = parse(report.text)
        if not isinstance(parsed, Finding):
            document = Document(text=report.text, data=parsed[0])
    if document is None and report.ok:
        name = printable(report.file)
        sys.stderr.write(f"{name}: not judged by the site's schema: it is not JSON\n")
    return schema.added_to(report, document)
