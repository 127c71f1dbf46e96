"""RT750 to RT760: what is wrong with the pods of a job.

Sources: Ascend/mind-cluster, component/ascend-operator/pkg/ranktable and
component/ascend-device-plugin; volcano-sh/volcano#4523.
"""

from __future__ import annotations

import json
from typing import Any

from ranktable.schema.finding import Rule, Severity

_KEY = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
_INDEX = "hccl/rankIndex"


def pod(index: int, *chips: int, **changes: Any) -> dict[str, Any]:
    """Return a small running pod with these chips.

    Args:
        index: Its index, and the last number of its addresses.
        chips: Physical ids of its chips.
        changes: Other annotations under ``marks``, ``job``, ``phase``, ``network``,
            ``node`` and ``addresses``.
    """
    node = changes.get("node", index)
    job = changes.get("job", "train")
    addresses = changes.get("addresses", [f"10.1.{index}.{chip}" for chip in chips])
    devices = [
        {"device_id": str(chip), "device_ip": address}
        for chip, address in zip(chips, addresses, strict=True)
    ]
    marks = {_INDEX: str(index), _KEY: json.dumps({"devices": devices})}
    marks |= changes.get("marks", {})
    meta = {
        "name": f"{job}-{index}",
        "labels": {"job-name": job},
        "annotations": {key: text for key, text in marks.items() if text},
    }
    spec = {"nodeName": f"n{node}", "hostNetwork": changes.get("network", False)}
    status = {
        "phase": changes.get("phase", "Running"),
        "podIP": f"10.2.0.{index}",
        "hostIP": f"10.0.0.{node}",
    }
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def pod_list(*pods: dict[str, Any]) -> bytes:
    """Return a list of pods, one a line."""
    lines = ",\n ".join(json.dumps(one) for one in pods)
    return f'{{"kind":"List","items":[\n {lines}]}}\n'.encode()


_GOOD = pod_list(pod(0, 0, 1), pod(1, 0, 1))
_FROM: dict[str, Any] = {
    "command": "convert",
    "options": {"from": "kubernetes-pods"},
}

NOT_PODS = Rule(
    code="RT750",
    name="no-pods",
    summary="the list has no pod that runs",
    why="A table of pods needs what `kubectl get pods -o json` prints: a List with one "
    "pod at least that has not ended.",
    fix="Write the list while the job runs, in its namespace (`-n`).",
    bad=b'{"kind":"PodList","items":[]}\n',
    good=_GOOD,
    **_FROM,
)
SEVERAL_JOBS = Rule(
    code="RT751",
    name="pods-of-several-jobs",
    summary="the list has pods with chips of several jobs",
    why="Every job counts its pods from 0, and has a table of its own.",
    fix="Select the pods of one job with `kubectl get pods -l`.",
    bad=pod_list(pod(0, 0), pod(0, 1, job="other")),
    good=_GOOD,
    **_FROM,
)
NO_INDEX = Rule(
    code="RT752",
    name="pod-without-index",
    summary="a pod has no index",
    why="The ranks of a pod follow from its index among the pods of its job. The "
    "controller writes it in an annotation or a label.",
    fix="Set the annotation `hccl/rankIndex` of every pod.",
    readers={"ascend-operator": "gives it the lowest number that is free"},
    bad=pod_list(pod(0, 0), pod(1, 0, marks={_INDEX: "one"})),
    good=_GOOD,
    **_FROM,
)
INDEX_TWICE = Rule(
    code="RT753",
    name="pod-index-twice",
    summary="two pods that run have one index",
    why="Both would get the same ranks. Volcano counts each task from 0, so that "
    "master-0 and worker-0 have the same task index; or an old pod has not ended.",
    fix="Give every pod its own index; wait until the old pod is gone.",
    bad=pod_list(pod(0, 0), pod(1, 0, marks={_INDEX: "0"})),
    good=_GOOD,
    **_FROM,
)
MISSING = Rule(
    code="RT754",
    name="pod-missing",
    summary="an index has no pod that runs",
    why="The other pods wait for it when they start to communicate.",
    fix="See why it does not run: `kubectl describe pod`.",
    readers={"ascend-operator": "empties the table until all pods are there"},
    bad=pod_list(pod(0, 0), pod(2, 0)),
    good=_GOOD,
    **_FROM,
)
NOT_READY = Rule(
    code="RT755",
    name="pod-without-chips",
    summary="a pod does not have the chips that it asks for",
    why="The device plugin writes the chips of a pod into an annotation after its "
    "start. Until then, or if it does not run on the node, nobody knows them.",
    fix="Wait until the pod runs; else look at the device plugin of its node.",
    readers={"ascend-operator": "leaves the table initializing"},
    bad=pod_list(pod(0, 0), pod(1, marks={_KEY: ""}, phase="Pending")),
    good=_GOOD,
    **_FROM,
)
SHARED_CHIP = Rule(
    code="RT756",
    name="chip-in-two-pods",
    summary="two pods that run have the same chip of a node",
    why="The second process finds the chip in use, or both get out of memory.",
    fix="Delete the pod that should have ended; restart the device plugin of the node.",
    bad=pod_list(pod(0, 0, 1, node=7), pod(1, 1, 2, node=7)),
    good=pod_list(pod(0, 0, 1, node=7), pod(1, 2, 3, node=7)),
    **_FROM,
)
BAD_ADDRESS = Rule(
    code="RT757",
    name="pod-device-address",
    summary="a chip of a pod has no address, or that of another chip",
    why="The device plugin writes -1 if it cannot read the address, because the "
    "network card of the chip is not configured.",
    fix="Configure it with `hccn_tool -i CHIP -ip -s address ... netmask ...`.",
    readers={"HCCL": "EI0014 device_ip"},
    bad=pod_list(pod(0, 0), pod(1, 0, addresses=["-1"])),
    good=_GOOD,
    **_FROM,
)
UNEVEN = Rule(
    code="RT758",
    name="uneven-pods",
    severity=Severity.WARNING,
    summary="the pods of a job have different numbers of chips",
    why="Operators multiply the index of a pod by its own number of chips, which "
    "leaves gaps or gives a rank twice. Here ranks count up over the pods.",
    fix="Give all pods the same number of chips.",
    readers={"ascend-operator": "rank_id = index x chips of this pod"},
    bad=pod_list(pod(0, 0, 1), pod(1, 0)),
    good=_GOOD,
    **_FROM,
)
SAME_NETWORK = Rule(
    code="RT759",
    name="pods-share-network",
    severity=Severity.WARNING,
    summary="two pods of a job use the network of one host",
    why="With hostNetwork they have one address, and both want the same ports: 16666, "
    "those from HCCL_IF_BASE_PORT (60000) on, and MASTER_PORT.",
    fix="Use one pod for each host, or pods without hostNetwork.",
    bad=pod_list(pod(0, 0, node=7, network=True), pod(1, 1, node=7, network=True)),
    good=pod_list(pod(0, 0, node=7), pod(1, 1, node=7)),
    **_FROM,
)
DIFFERING = Rule(
    code="RT760",
    name="pod-annotations-differ",
    summary="the annotations of a pod name different chips",
    why="huawei.com/AscendReal has the chips that are mounted. An older annotation of "
    "addresses names chips that the process does not see. huawei.com/kltDev may "
    "differ, which is a note.",
    fix="Wait some seconds, until the device plugin has written all of them.",
    bad=pod_list(pod(0, 0, 1, marks={"huawei.com/AscendReal": "Ascend910-0"})),
    good=_GOOD,
    **_FROM,
)

RULES = (
    NOT_PODS, SEVERAL_JOBS, NO_INDEX, INDEX_TWICE, MISSING, NOT_READY, SHARED_CHIP,
    BAD_ADDRESS, UNEVEN, SAME_NETWORK, DIFFERING,
)  # fmt: skip
