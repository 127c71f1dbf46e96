"""What a RayCluster starts, or that of a RayJob.

Source: ray-project/kuberay, ray-operator/controllers/ray/common/pod.go.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import SERVERS, fact_of
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_roles import ONCE, POD, pod_job
from ranktable.cluster.submissions.shell import Scope, plain_number
from ranktable.cluster.submissions.submission import (
    Fact,
    LaunchCommand,
    Role,
    Submission,
)
from ranktable.cluster.submissions.task_command import task_command
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.schema.document import Path


def read_ray(job: Manifest, made: Manifests) -> list[Submission]:
    """Return the pods of a RayCluster, or of that of a RayJob."""
    top: Path = ("spec",)
    if job.text("kind") == "RayJob":
        top = ("spec", "rayClusterSpec")
    if not job.members(*top, "headGroupSpec"):
        return []
    groups = range(len(job.items(*top, "workerGroupSpecs")))
    paths: list[Path] = [(*top, "workerGroupSpecs", at) for at in groups]
    roles = []
    for path in ((*top, "headGroupSpec"), *paths):
        template = PodTemplate(job, (*path, *POD))
        template.index = 0  # Ray runs in the first container
        judge_pod(made, template)
        _judge_ray_params(made, job, path, template)
        nodes: Fact | None = ONCE
        if path in paths:
            count = job.number(*path, "replicas")
            hosts = job.number(*path, "numOfHosts", default=1)
            nodes = count and hosts and count._replace(value=count.value * hosts.value)
            _warn_limits(made, job, path)
        role = Role(
            name=job.text(*path, "groupName") or "head",
            nodes=nodes,
            chips=template.chips(),
            lacks_chips=template.lacks_chips(),
            command=LaunchCommand(is_whole=False, span=job.span(*path)),
        )
        roles.append(role)
    most = [job.number(*path, "maxReplicas") for path in paths]
    if not any(most):  # an autoscaler may add pods
        _judge_entrypoint(made, job, roles)
    return pod_job(job, roles)


def _judge_entrypoint(made: Manifests, job: Manifest, roles: Sequence[Role]) -> None:
    """Compare the chips that the server of a RayJob needs with those of the cluster."""
    text, span = job.text("spec", "entrypoint"), job.span("spec", "entrypoint")
    command = task_command(["sh", "-c", text], Scope(), {}, span).command
    sizes = [fact_of(command.options.get(name)) for name in ("tp", "pp")]
    given = [size for size in sizes if size is not None]
    pairs = [(one.nodes, ONCE._replace(value=0) if one.lacks_chips else one.chips)
             for one in roles]  # fmt: skip
    if command.program not in SERVERS or not given or any(None in p for p in pairs):
        return
    total = sum(nodes.value * each.value for nodes, each in pairs if nodes and each)
    product = prod(size.value for size in given)
    if product > total:
        made.report(
            rules.MORE_THAN_CHIPS,
            span,
            f"{' and '.join(size.said for size in given)}: {counted(product, 'chip')}, "
            f"but all pods together have {total}",
            hint="change the sizes, or the number of pods",
        )


def _warn_limits(made: Manifests, job: Manifest, path: Path) -> None:
    """Warn about limits of a group that contradict each other."""
    least, count, most = (
        job.number(*path, key) for key in ("minReplicas", "replicas", "maxReplicas")
    )
    for less in (least, count):
        if less is not None and most is not None and less.value > most.value:
            made.report(
                rules.REFUSED,
                less.span,
                f"{less.said} is more than {most.said}",
                severity=Severity.WARNING,
            )
            return


def _judge_ray_params(
    made: Manifests, job: Manifest, path: Path, template: PodTemplate
) -> None:
    """Compare the chips that Ray is told with those of the pod."""
    params = job.members(*path, "rayStartParams")
    told, chips = plain_number(str(params.get("num-gpus", ""))), template.chips()
    span = job.span(*path, "rayStartParams", "num-gpus")
    if told and template.lacks_chips():
        made.report(
            rules.POD_RESOURCES,
            span,
            f"Ray counts {counted(told, 'chip')} in this pod (num-gpus), whose limits "
            "have none",
            hint="give the container limits, from which KubeRay takes num-gpus",
            severity=Severity.WARNING,
        )
    if not told or chips is None or "gpu" not in chips.said.lower():
        return
    if told != chips.value:
        is_more = told > chips.value
        made.report(
            rules.MORE_THAN_CHIPS if is_more else rules.IDLE_CHIPS,
            span,
            f"Ray counts {told} chips in this pod (num-gpus), which has {chips.value} "
            f"({chips.said})",
            hint="leave num-gpus out: KubeRay takes it from the limits",
        )
