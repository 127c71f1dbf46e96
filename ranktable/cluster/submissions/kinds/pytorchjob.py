"""What a PyTorchJob starts.

Source: kubeflow/training-operator release-1.9, pkg/controller.v1/pytorch, pkg/webhooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_names import (
    Pods,
    judge_addresses,
    judge_lengths,
)
from ranktable.cluster.submissions.pod_roles import (
    GANG,
    PET,
    POD,
    judge_gang,
    operator_settings,
    pod_job,
    pod_role,
    total_of,
    warn_chips_differ,
    warn_one_for_all,
    warn_set_by_hand,
)
from ranktable.cluster.submissions.shell import plain_number
from ranktable.cluster.submissions.shell_marks import UNKNOWN
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Role, Submission
    from ranktable.schema.document import Path


def read_pytorchjob(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what a PyTorchJob starts."""
    specs = ("spec", "pytorchReplicaSpecs")
    given = job.members(*specs)
    _refuse_pytorchjob(job, made, specs)
    names = [name for name in ("Master", "Worker") if name in given]
    counts = [job.number(*specs, name, "replicas", default=1) for name in names]
    total, elastic = total_of(counts), job.get("spec", "elasticPolicy")
    processes = job.get("spec", "nprocPerNode")
    text = str("auto" if processes is None else processes)
    each = plain_number(text)
    variables = operator_settings(PET_NNODES=total, PET_NPROC_PER_NODE=text)
    if isinstance(elastic, dict):
        workers = job.number(*specs, "Worker", "replicas", default=1)
        least, most = (
            elastic.get(key, workers.value if workers else UNKNOWN)
            for key in ("minReplicas", "maxReplicas")
        )
        variables |= operator_settings(
            PET_NNODES=f"{least}:{most}",
            PET_NPROC_PER_NODE=elastic.get("nProcPerNode", text),
            PET_RDZV_BACKEND=elastic.get("rdzvBackend", "c10d"),
            PET_RDZV_ENDPOINT=f"{job.name}-worker-0:{elastic.get('rdzvPort', 23456)}",
        )
    if "Master" in given:
        port = _port_of(job, (*specs, "Master", *POD))
        world = None if total is None else total * (each or 1)
        master = f"{job.name}-master-0"
        variables |= operator_settings(
            WORLD_SIZE=world,
            MASTER_ADDR=master,
            MASTER_PORT=port,
            PET_MASTER_ADDR=master,
            PET_MASTER_PORT=port,
        )
    roles = []
    for name, count in zip(names, counts, strict=True):
        template = PodTemplate(job, (*specs, name, *POD), "pytorch")
        first = {"Master": 0, "Worker": 1}[name]
        counting = dict.fromkeys(("RANK", "PET_NODE_RANK"), first)
        counting = counting if "Master" in given else {}
        warn_set_by_hand(
            made, template, ("RANK", "WORLD_SIZE", *(f"PET_{n}" for n in PET))
        )
        role = pod_role(
            template, count, name=name, variables=variables, counted_from=counting
        )
        judge_pod(made, template, role)
        roles.append(role)
    _judge_pytorchjob(job, made, roles, text, total)
    fewer = range(total or 0) if isinstance(elastic, dict) else ()
    judge_gang(made, job.number(*GANG), total, fewer)
    pods = [
        Pods(role, f"{job.name}-{role.name.lower()}", (count and count.value,))
        for role, count in zip(roles, counts, strict=True)
    ]
    if job.name:
        judge_addresses(made, pods, None)
        judge_lengths(made, job, pods)
    return pod_job(job, roles)


def _refuse_pytorchjob(job: Manifest, made: Manifests, specs: Path) -> None:
    """Report what the webhook refuses."""

    def refuse(path: Path, message: str, hint: str | None = None) -> None:
        made.report(rules.REFUSED, job.span(*path), message, hint=hint)

    elastic = job.members("spec", "elasticPolicy")
    is_elastic = job.get("spec", "elasticPolicy") is not None
    if is_elastic and "Worker" not in job.members(*specs):
        refuse(("spec", "elasticPolicy"), "elasticPolicy needs the role Worker")
    if "nProcPerNode" in elastic and job.get("spec", "nprocPerNode") is not None:
        refuse(
            ("spec", "nprocPerNode"), "nprocPerNode and nProcPerNode exclude each other"
        )
    for name in job.members(*specs):
        if name in ("Master", "Worker"):
            _refuse_role(job, made, (*specs, name))
        else:
            message = f"{quoted(name)} is not a role; there are Master and Worker"
            refuse((*specs, name), message)


def _refuse_role(job: Manifest, made: Manifests, path: Path) -> None:
    """Report what the webhook refuses in a role."""

    def refuse(place: Path, message: str, hint: str | None = None) -> None:
        made.report(rules.REFUSED, job.span(*path, *place), message, hint=hint)

    name = str(path[-1])
    containers = PodTemplate(job, (*path, *POD)).containers()
    if containers and "pytorch" not in [each.get("name") for each in containers]:
        hint = "call the container that trains pytorch"
        refuse((), f"{name} has no container with the name pytorch", hint)
    for index, container in enumerate(containers):
        if not container.get("image"):
            refuse((*POD, "containers", index), "the container has no image")


def _port_of(job: Manifest, path: Path) -> int | str:
    template = PodTemplate(job, path, "pytorch")
    for each in job.items(*template.here, "ports"):
        if isinstance(each, dict) and each.get("name") == "pytorchjob-port":
            return each.get("containerPort") or UNKNOWN
    return 23456


def _judge_pytorchjob(
    job: Manifest, made: Manifests, roles: list[Role], text: str, total: int | None
) -> None:
    """Judge what the operator accepts, and what does not work."""
    each = plain_number(text)
    if each is None and UNKNOWN not in text:
        why = f"with nprocPerNode {text} WORLD_SIZE is the number of pods, {total}"
        if len({r.chips.value for r in roles if r.chips}) > 1:
            warn_chips_differ(made, job, roles, why)
        warn_one_for_all(made, roles, why)
    for role in roles:
        chips, program = role.chips, role.command.program
        if each is not None and chips and each > chips.value and program != "torchrun":
            made.report(
                rules.MORE_THAN_CHIPS,
                job.span("spec", "nprocPerNode"),
                f"nprocPerNode is {each}, but a pod of {role.name} has "
                f"{counted(chips.value, 'chip')} ({chips.said})",
                hint=f'set it to "{chips.value}"',
            )
    is_alone = all(role.name != "Master" for role in roles) and (total or 0) > 1
    elastic = job.get("spec", "elasticPolicy")
    if not is_alone or elastic is not None or not roles:
        return
    command = roles[0].command
    own = {name for name in command.options if name.startswith("rdzv")} | (
        {"node-rank"} & command.options.keys()
    )
    if command.program == "torchrun" and not own:
        message = "every pod would be node 0, with itself as master"
    elif command.program == "python":
        message = "no pod gets RANK, WORLD_SIZE and MASTER_ADDR"
    else:
        return
    made.report(
        rules.NO_RANK,
        job.span("spec", "pytorchReplicaSpecs", of_key=True),
        f"there is no Master and no elasticPolicy: {message}",
        hint="add the role Master with replicas: 1, or an elasticPolicy",
        severity=None if command.program == "torchrun" else Severity.WARNING,
    )
