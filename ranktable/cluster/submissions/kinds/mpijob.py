"""What an MPIJob starts.

Source: kubeflow/mpi-operator, pkg/controller and pkg/apis/kubeflow/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_roles import GANG, POD, judge_gang, pod_job
from ranktable.cluster.submissions.submission import Fact, Role, Submission
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests


def read_mpijob(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what an MPIJob of version v2beta1 starts."""
    specs = ("spec", "mpiReplicaSpecs")
    workers = job.number(*specs, "Worker", "replicas", default=1)
    slots = job.number("spec", "slotsPerWorker", default=1)
    works = job.get("spec", "runLauncherAsWorker") is True
    launcher = PodTemplate(job, (*specs, "Launcher", *POD))
    worker = PodTemplate(job, (*specs, "Worker", *POD))
    role = Role(
        nodes=workers,
        chips=worker.chips(),
        command=launcher.command(launcher.env()).command,
    )
    judge_pod(made, launcher, role)
    judge_pod(made, worker)
    chips = worker.chips()
    if slots is not None and chips is not None and chips.value != slots.value:
        _judge_slots(made, slots, chips)
    if works and chips is not None and launcher.chips() is None:
        made.report(
            rules.POD_RESOURCES,
            job.span("spec", "runLauncherAsWorker"),
            "rank 0 is in the Launcher (runLauncherAsWorker), which asks for no chips",
            hint="give the Launcher the limits of the Worker",
            severity=Severity.WARNING,
        )
    if workers is not None:
        judge_gang(made, job.number(*GANG), workers.value + 1, (workers.value,))
    total = None
    if slots is not None and workers is not None:
        pods = workers.value + works
        total = Fact(slots.value * pods, f"{slots.said} on {counted(pods, 'pod')}")
    return pod_job(job, [role], slots=total, tasks_per_node=slots)


def _judge_slots(made: Manifests, slots: Fact, chips: Fact) -> None:
    is_more = slots.value > chips.value
    made.report(
        rules.MORE_THAN_CHIPS if is_more else rules.IDLE_CHIPS,
        slots.span,
        f"a worker has {counted(slots.value, 'slot')} ({slots.said}) and "
        f"{counted(chips.value, 'chip')} ({chips.said})",
        hint=f"set slotsPerWorker: {chips.value}",
    )
