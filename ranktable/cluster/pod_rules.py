"""RT750 to RT760: what is wrong with the pods of a job.

Sources: Ascend/mind-cluster, component/ascend-operator/pkg/ranktable and
component/ascend-device-plugin; volcano-sh/volcano#4523.
"""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity

NOT_PODS = Rule(
    code="RT750",
    name="no-pods",
    summary="the list has no pod that runs",
    fix="Write the list while the job runs, in its namespace (`-n`).",
)
SEVERAL_JOBS = Rule(
    code="RT751",
    name="pods-of-several-jobs",
    summary="the list has pods with chips of several jobs",
    fix="Select the pods of one job with `kubectl get pods -l`.",
)
NO_INDEX = Rule(
    code="RT752",
    name="pod-without-index",
    summary="a pod has no index",
    fix="Set the annotation `hccl/rankIndex` of every pod.",
)
INDEX_TWICE = Rule(
    code="RT753",
    name="pod-index-twice",
    summary="two pods that run have one index",
    fix="Give every pod its own index; wait until the old pod is gone.",
)
MISSING = Rule(
    code="RT754",
    name="pod-missing",
    summary="an index has no pod that runs",
    fix="See why it does not run: `kubectl describe pod`.",
)
NOT_READY = Rule(
    code="RT755",
    name="pod-without-chips",
    summary="a pod does not have the chips that it asks for",
    fix="Wait until the pod runs; else look at the device plugin of its node.",
)
SHARED_CHIP = Rule(
    code="RT756",
    name="chip-in-two-pods",
    summary="two pods that run have the same chip of a node",
    fix="Delete the pod that should have ended; restart the device plugin of the node.",
)
BAD_ADDRESS = Rule(
    code="RT757",
    name="pod-device-address",
    summary="a chip of a pod has no address, or that of another chip",
    fix="Configure it with `hccn_tool -i CHIP -ip -s address ... netmask ...`.",
)
UNEVEN = Rule(
    code="RT758",
    name="uneven-pods",
    severity=Severity.WARNING,
    summary="the pods of a job have different numbers of chips",
    fix="Give all pods the same number of chips.",
)
SAME_NETWORK = Rule(
    code="RT759",
    name="pods-share-network",
    severity=Severity.WARNING,
    summary="two pods of a job use the network of one host",
    fix="Use one pod for each host, or pods without hostNetwork.",
)
DIFFERING = Rule(
    code="RT760",
    name="pod-annotations-differ",
    summary="the annotations of a pod name different chips",
    fix="Wait some seconds, until the device plugin has written all of them.",
)

RULES = (
    NOT_PODS, SEVERAL_JOBS, NO_INDEX, INDEX_TWICE, MISSING, NOT_READY, SHARED_CHIP,
    BAD_ADDRESS, UNEVEN, SAME_NETWORK, DIFFERING,
)  # fmt: skip
