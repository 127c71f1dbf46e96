"""What a Job of Kubernetes starts, if it is one of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import NUMBERED, is_static
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_names import (
    Pods,
    judge_addresses,
    judge_lengths,
    judge_service,
)
from ranktable.cluster.submissions.pod_roles import (
    POD,
    judge_completions,
    pod_job,
    pod_role,
    pods_at_once,
)
from ranktable.cluster.submissions.pod_text import judge_unread
from ranktable.cluster.submissions.shell_marks import POD_INDEX

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Submission


def read_job(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what an Indexed Job of Kubernetes starts."""
    template = PodTemplate(job, ("spec", *POD))
    is_indexed = job.text("spec", "completionMode") == "Indexed"
    counting = {"JOB_COMPLETION_INDEX": 0} if is_indexed else {}
    if is_indexed and template.has_own_name():
        template.host = f"{job.name}-{POD_INDEX}"
    pods = pods_at_once(job, ("spec",))
    role = pod_role(template, pods, counted_from=counting)
    if role.command.program not in NUMBERED and not is_indexed:
        judge_unread(made, template, role)
        return []  # any program that runs to its end
    judge_pod(made, template, role)
    is_endless = job.get("spec", "completions") is None
    if is_indexed and is_endless and job.get("spec", "parallelism") is not None:
        made.report(
            rules.REFUSED,
            job.span("spec", "completionMode"),
            "an Indexed Job with parallelism needs completions",
            hint="write the number of parallelism as completions too",
        )
    if is_indexed:
        judge_completions(job, made, role, ("spec",))
    domain = job.text("spec", *POD, "subdomain")
    if pods is not None and pods.value > 1:
        is_numbered = is_indexed or "node-rank" in role.command.options
        if not is_numbered and role.command.program in NUMBERED and is_static(role):
            made.report(
                rules.NO_RANK,
                job.span("spec"),
                "the Job is not Indexed, so its pods have no JOB_COMPLETION_INDEX",
                hint="add completionMode: Indexed",
            )
        if job.name:
            judge_addresses(made, [Pods(role, job.name, (pods.value,))], domain)
    if is_indexed and pods is not None:
        judge_lengths(made, job, [Pods(role, job.name, (pods.value,))])
    judge_service(job, made, domain)
    return pod_job(job, [role])
