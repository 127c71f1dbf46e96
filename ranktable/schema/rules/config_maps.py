"""RT255: tables in ConfigMaps."""

from __future__ import annotations

from ranktable.schema.diagnostic import Refusal, Rule


def _config_map(key: str) -> bytes:
    return (
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"rings-config-job"},\n'
        f'"data":{{"{key}":"{{\\"status\\":\\"initializing\\"}}"}}}}\n'
    ).encode()


CONFIG_MAP = Rule(
    code="RT255",
    name="config-map",
    summary="the table cannot be taken out of its ConfigMap",
    why=(
        "The table is the text of hccl.json, jobstart_hccl.json or "
        "global_ranktable.json, or base64 of gzip. A table that ClusterD has cut is in "
        "as many ConfigMaps as total says."
    ),
    fix="Put the table under one of these keys, and all parts into one file.",
    readers={"HCCL": Refusal("EI0004: the file that the pod mounts cannot be read")},
    bad=_config_map("table.json"),
    good=_config_map("hccl.json"),
)

RULES = (CONFIG_MAP,)
