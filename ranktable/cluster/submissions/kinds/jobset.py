"""What a JobSet starts.

Source: kubernetes-sigs/jobset, pkg/controllers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_names import (
    Pods,
    judge_addresses,
    judge_lengths,
)
from ranktable.cluster.submissions.pod_roles import (
    POD,
    judge_completions,
    pod_job,
    pod_role,
    pods_at_once,
    report_same_index,
    worlds_of,
)
from ranktable.cluster.submissions.shell_marks import has_marks
from ranktable.cluster.submissions.submission import Fact, Role, Submission
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.schema.document import Path


_INDEXES: Final = ("jobIndex", "podIndex")


def read_jobset(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what a JobSet starts."""
    count = len(job.items("spec", "replicatedJobs"))
    roles = [_replicated_job(job, made, at) for at in range(count)]
    _judge_coordinator(job, made, roles)
    domain = job.text("spec", "network", "subdomain") or job.name
    if job.get("spec", "network", "enableDNSHostnames") is False:
        domain = ""
    pods = [
        Pods(role, f"{job.name}-{role.name}", _counts(job, at))
        for at, role in enumerate(roles)
    ]
    if job.name and pods:
        judge_addresses(made, pods, domain)
        inner = ("template", "spec", "completionMode")
        indexed = [
            each
            for at, each in enumerate(pods)
            if job.text("spec", "replicatedJobs", at, *inner) != "NonIndexed"
        ]
        judge_lengths(made, job, indexed, "-xxxxx")
    worlds = worlds_of(roles)
    for world in worlds:
        for role in world:
            if len(world) > 1 or role.per_job is not None:
                report_same_index(made, role)
    found = [one for world in worlds for one in pod_job(job, world)]
    return found or pod_job(job, roles)


def _judge_coordinator(job: Manifest, made: Manifests, roles: Sequence[Role]) -> None:
    """Report a coordinator that is not a pod of the JobSet: its webhook refuses it."""
    path: Path = ("spec", "coordinator")
    name = job.text(*path, "replicatedJob")
    names = [role.name for role in roles]
    if not name or has_marks(name):
        return
    wrong = {}
    if name not in names:
        wrong["replicatedJob"] = f"no replicatedJob is called {quoted(name)}"
    else:
        for key, size in zip(_INDEXES, _counts(job, names.index(name)), strict=True):
            index = job.number(*path, key)
            if index is not None and size is not None and index.value >= size:
                wrong[key] = f"{index.said}, but {name} has {size}, counted from 0"
    for key, message in wrong.items():
        made.report(
            rules.REFUSED, job.span(*path, key), f"{message}; JobSet refuses it"
        )


def _counts(job: Manifest, at: int) -> tuple[int | None, ...]:
    """Return the numbers of Jobs and of their pods."""
    path: Path = ("spec", "replicatedJobs", at)
    jobs = job.number(*path, "replicas", default=1)
    pods = pods_at_once(job, (*path, "template", "spec"))
    return jobs and jobs.value, pods and pods.value


def _replicated_job(job: Manifest, made: Manifests, at: int) -> Role:
    """Return the pods of one of the Jobs of a JobSet."""
    path: Path = ("spec", "replicatedJobs", at)
    inner = (*path, "template", "spec")
    jobs = job.number(*path, "replicas", default=1)
    pods = pods_at_once(job, inner)
    nodes = None
    if jobs is not None and pods is not None:
        said = f"{jobs.said}, {pods.said}"
        nodes = Fact(jobs.value * pods.value, said, pods.span)
    template = PodTemplate(job, (*inner, *POD))
    is_indexed = job.text(*inner, "completionMode") != "NonIndexed"
    role = pod_role(
        template,
        nodes,
        name=job.text(*path, "name") or str(at),
        counted_from={"JOB_COMPLETION_INDEX": 0} if is_indexed else {},
    )
    judge_pod(made, template, role)
    judge_completions(job, made, role, inner)
    is_repeated = jobs is not None and jobs.value > 1
    if is_repeated and pods is not None and pods.value:
        role = replace(role, per_job=pods.value)
    return role
