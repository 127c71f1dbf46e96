"""What a StatefulSet starts; most run no job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.agents import NUMBERED
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_names import Pods, judge_addresses, judge_service
from ranktable.cluster.submissions.pod_roles import POD, pod_job, pod_role
from ranktable.cluster.submissions.pod_text import judge_unread
from ranktable.cluster.submissions.shell_marks import POD_INDEX

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Submission


def read_statefulset(job: Manifest, made: Manifests) -> list[Submission]:
    """Return the agents that a StatefulSet starts; most run no job."""
    template = PodTemplate(job, ("spec", *POD))
    if template.has_own_name() and not job.members("spec", "ordinals"):
        template.host, template.is_named_so = f"{job.name}-{POD_INDEX}", True
    role = pod_role(template, job.number(*_REPLICAS, default=1))
    if role.command.program not in NUMBERED:
        judge_unread(made, template, role)
        return []
    judge_pod(made, template, role)
    domain = job.text("spec", "serviceName")
    if job.name:
        is_counted = role.nodes is not None and not job.members("spec", "ordinals")
        count = role.nodes.value if is_counted and role.nodes else None
        judge_addresses(made, [Pods(role, job.name, (count,))], domain)
    judge_service(job, made, domain)
    return pod_job(job, [role])


_REPLICAS: Final = ("spec", "replicas")
