"""What an MPIJob starts.

Source: kubeflow/mpi-operator, pkg/controller and pkg/apis/kubeflow/validation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.judge_nccl_tests import chips_of_test
from ranktable.cluster.submissions.launch_options import (
    base,
    find_launch,
    is_shell_file,
)
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_names import (
    Pods,
    judge_lengths,
)
from ranktable.cluster.submissions.pod_roles import GANG, POD, judge_gang, pod_job
from ranktable.cluster.submissions.shell_marks import has_marks
from ranktable.cluster.submissions.submission import (
    Fact,
    LaunchCommand,
    Role,
    Setting,
    Submission,
)
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, quoted

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
    command = launcher.command(launcher.env()).command
    role = Role(
        nodes=workers,
        chips=worker.chips(),
        command=command,
        variables=_given(command),
    )
    judge_pod(made, launcher, role)
    judge_pod(made, worker)
    _judge_hosts(made, job, role)
    chips = worker.chips()
    if slots is not None and chips is not None:
        _judge_slots(made, slots, chips, chips_of_test(role))
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


def _given(command: LaunchCommand) -> dict[str, Setting]:
    """Return what the options of an mpirun give its processes, if a program reads it.

    What the Launcher computes is not known: it is none of the processes.
    """
    first = base(next(iter(command.script), ""))
    if find_launch(command.script)[0] != "python" or is_shell_file(first):
        return {}
    return {n: s for n, s in command.given.items() if not has_marks(s.text)}


def _judge_hosts(made: Manifests, job: Manifest, role: Role) -> None:
    """Report hosts of an mpirun that are named as workers and are none."""
    given = role.option("host")
    workers = Pods(role, f"{job.name}-worker", (role.nodes and role.nodes.value,))
    judge_lengths(made, job, [workers])
    for host in given.text.split(",") if given and job.name else ():
        label = re.split("[.:]", host)[0]
        if re.fullmatch(r"[a-z0-9-]+-worker-\d+", label) and not workers.indexes(label):
            made.report(
                rules.POD_NAMES,
                given.span if given else None,
                f"no worker of this job is called {quoted(label)}",
                hint=f"the first worker is called {workers.base}-0",
            )


def _judge_slots(made: Manifests, slots: Fact, chips: Fact, each: int) -> None:
    """Compare the slots of a worker, for processes of some chips each, with chips."""
    is_more = slots.value > chips.value
    if not is_more and slots.value * each >= chips.value:
        return
    made.report(
        rules.MORE_THAN_CHIPS if is_more else rules.IDLE_CHIPS,
        slots.span,
        f"a worker has {counted(slots.value, 'slot')} ({slots.said}) and "
        f"{counted(chips.value, 'chip')} ({chips.said})",
        hint=f"set slotsPerWorker: {chips.value}",
    )
