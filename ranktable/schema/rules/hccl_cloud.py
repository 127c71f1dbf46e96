"""RT292 to RT296: Ascend's cloud table, before version 1.0."""

from __future__ import annotations

import json

from ranktable.schema.finding import Rule

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
RULES = (GROUP_COUNTS, DUPLICATE_POD_NAME)
