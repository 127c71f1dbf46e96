"""RT292 to RT296: Ascend's cloud table, before version 1.0."""

from __future__ import annotations

import json

from ranktable.schema.finding import Rule, Severity

_LOG = "a line in the device log only (HCCL_E_PARA)"


def _cloud(*pods: tuple[str, str], group_count: int = 1) -> bytes:
    """Return an example with a pod of one chip for each (name, server)."""
    instances = [
        {
            "pod_name": name,
            "server_id": server,
            "devices": [{"device_id": "0", "device_ip": f"10.0.0.{place + 1}"}],
        }
        for place, (name, server) in enumerate(pods)
    ]
    return _text(
        {
            "status": "completed",
            "group_count": str(group_count),
            "group_list": [
                {
                    "group_name": "g",
                    "device_count": str(len(pods)),
                    "instance_count": str(len(pods)),
                    "instance_list": instances,
                }
            ],
        }
    )


def _two_groups(second: str) -> bytes:
    data = json.loads(_cloud(("p1", "n1"), group_count=2))
    group = json.loads(_cloud(("p2", "n2")))["group_list"][0]
    group["group_name"] = second
    group["instance_list"][0]["devices"][0]["device_ip"] = "10.0.0.2"
    data["group_list"].append(group)
    return _text(data)


def _text(data: object) -> bytes:
    return (json.dumps(data, indent=1) + "\n").encode()


GROUP_COUNTS = Rule(
    code="RT292",
    name="group-counts",
    summary="a count of a cloud table is not what it counts",
    why=(
        "group_count, instance_count and device_count are the lengths of lists, and "
        "HCCL compares them."
    ),
    fix="Write the number of entries, or add what is missing.",
    readers={"HCCL": _LOG},
    bad=_cloud(("p1", "n1"), group_count=2),
    good=_cloud(("p1", "n1")),
)
DUPLICATE_GROUP = Rule(
    code="RT294",
    name="duplicate-group",
    summary="two groups have the same name",
    why="HCCL finds a group by its name.",
    fix="Give each group its own name.",
    readers={"HCCL": _LOG},
    bad=_two_groups("g"),
    good=_two_groups("h"),
)
DUPLICATE_POD_NAME = Rule(
    code="RT295",
    name="duplicate-pod-name",
    summary="two instances have the same pod_name",
    why="A process finds its rank by the name of its pod and its chip.",
    fix="Write the name of each pod.",
    readers={"HCCL": 'EI0014 Value of "IP" is repeated'},
    seen_as=("is repeated",),
    bad=_cloud(("p1", "n1"), ("p1", "n2")),
    good=_cloud(("p1", "n1"), ("p2", "n2")),
)
TEXT_ORDER = Rule(
    code="RT296",
    name="text-order",
    severity=Severity.NOTE,
    summary="HCCL numbers the servers of a cloud table in another order than the file",
    why=(
        "A cloud table does not have ranks. HCCL sorts server_id as text, so 10.0.0.10 "
        "comes before 10.0.0.9, and then counts the chips server by server."
    ),
    fix="Sort the instances by server_id as text. Then the file has the order of the "
    "ranks.",
    readers={"HCCL": "accepted"},
    bad=_cloud(("p1", "10.0.0.9"), ("p2", "10.0.0.10")),
    good=_cloud(("p2", "10.0.0.10"), ("p1", "10.0.0.9")),
)

RULES = (GROUP_COUNTS, DUPLICATE_GROUP, DUPLICATE_POD_NAME, TEXT_ORDER)
