"""The JSON Schema of cluster specs, for editors and for other programs."""

from __future__ import annotations

from importlib.resources import files

SCHEMA_FILE = "cluster-spec.schema.json"


def spec_schema_text() -> bytes:
    """Return the JSON Schema (draft 2020-12) of a cluster spec as UTF-8 text.

    It sees the shape; that a host list is well formed, and that hosts, chips and
    addresses agree, is for ``ranktable gen --spec``.
    """
    return (files("ranktable.cluster") / "data" / SCHEMA_FILE).read_bytes()
