"""What a LeaderWorkerSet starts.

Source: kubernetes-sigs/lws, pkg/controllers.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.parallel_sizes import parallel_sizes
from ranktable.cluster.submissions.pod_roles import (
    operator_settings,
    pod_job,
    pod_role,
    warn_chips_differ,
)
from ranktable.cluster.submissions.submission import Fact, Role, Submission
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.schema.document import Path

_SERVING: Final = ("tensor-parallel-size", "pipeline-parallel-size", "tp", "pp")


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
    warn_chips_differ(made, job, roles, "all pods of a group usually do the same")
    _judge_serving(made, job, roles, (*top, leader, "spec"))
    return pod_job(job, roles)


def _judge_serving(
    made: Manifests, job: Manifest, roles: list[Role], path: Path
) -> None:
    """Compare the sizes of vLLM's groups with the chips of a group of pods."""
    template = PodTemplate(job, path)
    keys = ("command", "args")
    words = [w for key in keys for w in job.items(*template.here, key)]
    sizes = parallel_sizes(" ".join(map(str, words)).split(), _SERVING)
    pairs = [(role.nodes, role.chips) for role in roles]
    if not sizes or any(None in pair for pair in pairs):
        return
    chips = sum(nodes.value * each.value for nodes, each in pairs if nodes and each)
    product = prod(sizes.values())
    if product > chips:
        listed = " x ".join(f"{name} {size}" for name, size in sizes.items())
        made.report(
            rules.MORE_THAN_CHIPS,
            job.span(*template.here, "command"),
            f"{listed} needs {counted(product, 'chip')}, but the pods of a group have "
            f"{chips}",
            hint="change the sizes, or the size of the group",
        )
