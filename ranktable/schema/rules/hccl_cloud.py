"""RT292 to RT296: Ascend's cloud table, before version 1.0."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

GROUP_COUNTS = Rule(
    code="RT292",
    name="group-counts",
    summary="a count of a cloud table is not what it counts",
    fix="Write the number of entries, or add what is missing.",
)
DUPLICATE_GROUP = Rule(
    code="RT294",
    name="duplicate-group",
    summary="two groups have the same name",
    fix="Give each group its own name.",
)
DUPLICATE_POD_NAME = Rule(
    code="RT295",
    name="duplicate-pod-name",
    summary="two instances have the same pod_name",
    fix="Write the name of each pod.",
)
TEXT_ORDER = Rule(
    code="RT296",
    name="text-order",
    severity=Severity.NOTE,
    summary="HCCL numbers the servers of a cloud table in another order",
    fix="Sort the instances by server_id as text. Then the file has the order of the "
    "ranks.",
)

RULES = (GROUP_COUNTS, DUPLICATE_GROUP, DUPLICATE_POD_NAME, TEXT_ORDER)
