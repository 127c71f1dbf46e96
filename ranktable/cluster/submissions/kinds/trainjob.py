"""What a TrainJob starts.

Source: kubeflow/trainer 2.0 to 2.3, pkg/runtime.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.manifests import (
    PodTemplate,
    chips_in,
    judge_resources,
)
from ranktable.cluster.submissions.pod_roles import (
    PET,
    POD,
    listed,
    operator_settings,
    pod_job,
    pod_role,
)
from ranktable.cluster.submissions.pod_text import judge_texts
from ranktable.cluster.submissions.shell import plain_number
from ranktable.cluster.submissions.shell_marks import UNKNOWN
from ranktable.cluster.submissions.submission import (
    Fact,
    LaunchCommand,
    Role,
    Submission,
)
from ranktable.schema.finding import Severity
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.schema.document import Path


def read_trainjob(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what a TrainJob starts, with its runtime if that is in the file."""
    trainer = ("spec", "trainer")
    reference = job.text("spec", "runtimeRef", "name")
    runtime = next(
        (
            made.named[kind, reference]
            for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
            if (kind, reference) in made.named
        ),
        None,
    )
    policy = {} if runtime is None else runtime.members("spec", "mlPolicy")
    is_torch = "torch" in policy or (runtime is None and reference.startswith("torch"))
    nodes = job.number(*trainer, "numNodes")
    if nodes is None and runtime is not None and job.get(*trainer, "numNodes") is None:
        nodes = runtime.number("spec", "mlPolicy", "numNodes", default=1)
    if runtime is not None and {"torch", "mpi"} <= policy.keys():
        span = runtime.span("spec", "mlPolicy", "mpi")
        message = "mlPolicy has torch and mpi, and Trainer takes only one of them"
        made.report(rules.REFUSED, span, message)
    resources = (*trainer, "resourcesPerNode")
    chips = chips_in(job, resources)
    judge_resources(made, job, resources)
    processes = _trainer_processes(job, made, policy, chips, is_torch=is_torch)
    if job.get(*resources) is None and runtime is not None:
        chips = _chips_of_runtime(runtime)
    for at, item in enumerate(job.items(*trainer, "env")):
        name = item.get("name") if isinstance(item, dict) else None
        if name in {f"PET_{each}" for each in PET} and is_torch:
            message = f"{name} is set by Trainer, which refuses it here"
            made.report(rules.REFUSED, job.span(*trainer, "env", at), message)
    master = f"{job.name}-node-0-0.{job.name}"
    variables = operator_settings(
        PET_NNODES=None if nodes is None else nodes.value,
        PET_NPROC_PER_NODE=processes,
        PET_MASTER_ADDR=master,
        PET_MASTER_PORT=29500,
    )
    template = _TrainerTemplate(job, ())
    role = pod_role(
        template,
        nodes,
        variables=variables if is_torch else {},
        counted_from={"PET_NODE_RANK": 0} if is_torch else {},
        chips=chips,
    )
    judge_texts(made, template, role)
    if is_torch:
        _judge_torch_trainer(made, job, runtime, role, processes)
    if role.command.program == "" and not role.command.is_whole and is_torch:
        role = replace(
            role,
            command=LaunchCommand(
                program="torchrun", span=role.command.span, script=(UNKNOWN,)
            ),
        )
    return pod_job(job, [role])


def _chips_of_runtime(runtime: Manifest) -> Fact | None:
    """Return the chips of the container node of a runtime, which a job may replace."""
    inner = ("spec", "template", "spec", "replicatedJobs")
    for at in range(len(runtime.items(*inner))):
        template = PodTemplate(runtime, (*inner, at, *POD, *POD), "node")
        names = [each.get("name") for each in template.containers()]
        if "node" in names:
            return template.chips()
    return None


def _judge_torch_trainer(
    made: Manifests,
    job: Manifest,
    runtime: Manifest | None,
    role: Role,
    processes: int | str,
) -> None:
    """Warn where nobody reads the PET_* variables of Trainer."""
    size = (role.nodes.value if role.nodes else 1) * (plain_number(str(processes)) or 1)
    if role.command.program == "python" and size > 1:
        made.report(
            rules.NO_RANK,
            role.command.span,
            "Trainer sets PET_* only, which torchrun reads: with python there are no "
            "RANK, WORLD_SIZE and MASTER_ADDR",
            hint="start torchrun",
            severity=Severity.WARNING,
        )
    inner = ("spec", "template", "spec", "replicatedJobs")
    jobs = [] if runtime is None else runtime.items(*inner)
    names = [
        each.get("name")
        for at in range(len(jobs))
        for each in PodTemplate(runtime, (*inner, at, *POD, *POD)).containers()  # type: ignore[arg-type]
    ]
    if names and "node" not in names:
        made.report(
            rules.NO_RANK,
            job.span("spec", "runtimeRef"),
            f"Trainer sets PET_* in the container called node, and the runtime has "
            f"{listed(dict.fromkeys(map(str, names)))}",
            hint="call the container of the runtime node",
            severity=Severity.WARNING,
        )


class _TrainerTemplate(PodTemplate):
    """The part of a TrainJob that stands for its container."""

    @property
    def here(self) -> Path:
        """The path of the trainer."""
        return ("spec", "trainer")

    @property
    def has_other_variables(self) -> bool:
        """Whether the container has other variables: those of the runtime."""
        return True

    def chips(self) -> Fact | None:
        """Return the chips of a node."""
        return chips_in(self.job, ("spec", "trainer", "resourcesPerNode"))


def _trainer_processes(
    job: Manifest,
    made: Manifests,
    policy: Mapping[str, object],
    chips: Fact | None,
    *,
    is_torch: bool,
) -> int | str:
    """Return the processes of a node, and judge how the job says them."""
    path: Path = ("spec", "trainer", "numProcPerNode")
    given = job.get(*path)
    torch = policy.get("torch")
    in_runtime = torch.get("numProcPerNode") if isinstance(torch, dict) else None
    if in_runtime is not None:
        message = "numProcPerNode of mlPolicy.torch is unknown to Trainer 2.2 and later"
        hint = "write it in spec.trainer of the TrainJob"
        made.report(
            rules.REFUSED,
            job.span("spec", "runtimeRef"),
            message,
            hint=hint,
            severity=Severity.WARNING,
        )
    if isinstance(given, str) and UNKNOWN not in given:
        made.report(
            rules.REFUSED,
            job.span(*path),
            f"numProcPerNode is {quoted(given)}; Trainer 2.2 and later take a number "
            "only",
            hint="write a number, or leave it out",
            severity=Severity.WARNING,
        )
    if given is not None or in_runtime is not None:
        return str(given if given is not None else in_runtime)
    resources = ("spec", "trainer", "resourcesPerNode")
    limits = job.members(*resources, "limits")
    names = [name for name in limits if "gpu" in name.lower()]
    if chips is not None and not names:
        cpus = limits.get("cpu", 1)
        made.report(
            rules.POD_RESOURCES,
            chips.span,
            f"Trainer counts chips only if their name contains gpu, so {chips.said} "
            "gives "
            f"as many processes as CPUs ({cpus})",
            hint=f"add numProcPerNode: {chips.value}",
            severity=None if is_torch else Severity.WARNING,
        )
        return UNKNOWN
    if len(names) > 1:
        message = f"Trainer takes one of {' and '.join(names)}, whichever comes first"
        made.report(
            rules.POD_RESOURCES,
            job.span(*resources),
            message,
            severity=Severity.WARNING,
        )
        return UNKNOWN
    if names and is_torch and not job.members(*resources, "requests"):
        made.report(
            rules.POD_RESOURCES,
            job.span(*resources),
            "with limits and no requests Trainer 2.0 starts one process per node",
            hint=f"add numProcPerNode: {limits[names[0]]}, or the same requests",
            severity=Severity.NOTE,
        )
    return str(limits[names[0]]) if names else UNKNOWN
