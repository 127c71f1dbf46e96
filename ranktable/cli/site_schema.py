"""``ranktable validate --schema``: tables and cluster specs by a site's JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cli import CommandError
from ranktable.cluster.specs.read_spec import read_spec
from ranktable.schema.document import Document
from ranktable.schema.json_parser import parse
from ranktable.schema.site_schema import SiteSchemaError
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from ranktable.schema.diagnostic import Report
    from ranktable.schema.site_schema import SiteSchema

_SPEC_ENDINGS = (".yaml", ".yml")


def judge_by_schema(report: Report, schema: SiteSchema) -> Report:
    """Return a report with what a site's schema finds besides.

    Args:
        report: What our rules have found in a table. A file whose name ends in .yaml
            or .yml is a cluster spec, and is judged as one instead.
        schema: The schema.

    Raises:
        CommandError: Nothing can be judged by the schema.
    """
    if is_spec(report.file) and report.data is not None:
        report = read_spec(report.data, file=report.file, limit=schema.limit).report
    try:
        return schema.added_to(report, _document(report))
    except SiteSchemaError as error:
        raise CommandError(str(error)) from None


def is_spec(name: str) -> bool:
    """Whether a file is a cluster spec by its name."""
    return name.endswith(_SPEC_ENDINGS)


def _document(report: Report) -> Document | None:
    """Return what there is to judge, None where the text could not be read."""
    if report.text is None:
        return None
    if is_spec(report.file):
        documents, _ = parse_yaml(report.text)
        return documents[0] if documents else None
    parsed = parse(report.text)
    return (
        Document(text=report.text, data=parsed[0])
        if isinstance(parsed, tuple)
        else None
    )
