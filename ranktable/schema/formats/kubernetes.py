"""ConfigMaps around tables, and the placeholder that an operator replaces later."""

from __future__ import annotations

from ranktable.schema.format import Kind, Role
from ranktable.schema.record import Member, Record, RecordFormat, text

_PLACEHOLDER = Record(
    name="placeholder",
    title="Placeholder",
    description="What stands there until an operator writes the table.",
    members=(
        text(
            "status",
            "Status",
            "initializing, until the table is there.",
            is_required=True,
            values=("initializing",),
        ),
        text("version", "Version", "Version of the table to come.", "1.0"),
    ),
)
_TABLE = '{"status":"initializing"}'
_DATA_EXAMPLE = {"hccl.json": _TABLE}
_CONFIG_MAP = Record(
    name="config_map",
    title="ConfigMap",
    description="A ConfigMap of Kubernetes that holds a table as text, or as base64 of "
    "gzip.",
    example={
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rings-config-job"},
        "data": _DATA_EXAMPLE,
    },
    members=(
        text("apiVersion", "Version of the API", "v1.", "v1"),
        text("kind", "Kind", "Kind of the object.", values=("ConfigMap",)),
        Member(
            key="metadata",
            kind=Kind.OBJECT,
            title="Metadata",
            description="Its name and labels.",
            examples=({"name": "rings-config-job"},),
        ),
        Member(
            key="data",
            kind=Kind.OBJECT,
            is_required=True,
            each=Record(
                name="data",
                title="Data",
                description="The table under one of its keys.",
                example=_DATA_EXAMPLE,
                one_of=("hccl.json", "jobstart_hccl.json", "global_ranktable.json"),
                members=(
                    text("hccl.json", "Table", "Of operators.", _TABLE),
                    text("jobstart_hccl.json", "Table", "Of CCE.", _TABLE),
                    text("global_ranktable.json", "Table", "Of MindIE.", _TABLE),
                    text("total", "Parts", "Number of ConfigMaps.", "1"),
                    text("cm_index", "Part", "Number of this one.", "0"),
                ),
            ),
            title="Data",
            description="The table under one of its keys.",
            examples=(_DATA_EXAMPLE,),
        ),
    ),
)


class KubernetesFormat(RecordFormat):
    """A ConfigMap; a table that is read from it has the format of its content."""

    def json_schema(self) -> dict[str, object]:
        """Return the JSON Schema of a ConfigMap or a placeholder."""
        from ranktable.schema.json_schema import record_schema_of

        return record_schema_of(self, (_CONFIG_MAP, _PLACEHOLDER))


FORMAT = KubernetesFormat(
    name="kubernetes",
    title="ConfigMap of Kubernetes (data of hccl.json)",
    description="A rank table in a ConfigMap, or the placeholder for one.",
    record=_PLACEHOLDER,
    table_fields=(Member(key="version", kind=Kind.TEXT, role=Role.VERSION),),
    has_global_ranks=False,
    rules=(),
)
