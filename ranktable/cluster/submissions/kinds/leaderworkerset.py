"""What a LeaderWorkerSet starts.

Source: kubernetes-sigs/lws, pkg/controllers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_names import Pods, judge_addresses
from ranktable.cluster.submissions.pod_roles import (
    operator_settings,
    pod_job,
    pod_role,
    warn_chips_differ,
)
from ranktable.cluster.submissions.submission import Fact, Role, Submission

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.schema.document import Path


def read_leaderworkerset(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what one group of a LeaderWorkerSet starts; every group is a world."""
    top: Path = ("spec", "leaderWorkerTemplate")
    size = job.number(*top, "size", default=1)
    variables = operator_settings(
        LWS_GROUP_SIZE=None if size is None else size.value,
        LWS_LEADER_ADDRESS=f"{job.name}-0.{job.name}",
    )
    leader = (
        "leaderTemplate" if job.members(*top, "leaderTemplate") else "workerTemplate"
    )
    roles = []
    for name, key, first in (("leader", leader, 0), ("worker", "workerTemplate", 1)):
        count = None
        if size is not None:
            value = 1 if name == "leader" else size.value - 1
            count = Fact(value, size.said, size.span)
        template = PodTemplate(job, (*top, key, "spec"))
        counting = {"LWS_WORKER_INDEX": first}
        role = pod_role(
            template, count, name=name, variables=variables, counted_from=counting
        )
        if name == "worker" or leader == "leaderTemplate":
            judge_pod(made, template, role)
        roles.append(role)
    _judge_names(made, job, roles)
    warn_chips_differ(made, job, roles, "all pods of a group usually do the same")
    return pod_job(job, roles)


def _judge_names(made: Manifests, job: Manifest, roles: list[Role]) -> None:
    """Judge the names of the pods of a group: NAME-GROUP, and NAME-GROUP-INDEX."""
    groups = job.number("spec", "replicas", default=1)
    size = job.number("spec", "leaderWorkerTemplate", "size", default=1)
    policy = job.text("spec", "networkConfig", "subdomainPolicy")
    if not job.name or policy not in ("", "Shared"):
        return
    leader, worker = roles
    worker = replace(worker, counted=dict.fromkeys(worker.counted, 0))
    counts = (groups and groups.value, size and size.value)
    pods = [
        Pods(Role(nodes=leader.nodes), job.name, counts[:1]),  # node 0 of each group
        Pods(leader, job.name, (0,)),
        Pods(worker, job.name, counts),
    ]
    judge_addresses(made, pods, job.name)
