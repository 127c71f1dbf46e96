"""The kinds of jobs of Kubernetes: one reader each.

Sources: kubeflow/training-operator release-1.9, pkg/controller.v1/pytorch and
pkg/webhooks; kubeflow/trainer 2.0 to 2.3, pkg/runtime; kubeflow/mpi-operator,
pkg/controller and pkg/apis/kubeflow/validation; volcano-sh/volcano,
pkg/controllers/job/plugins; kubernetes-sigs/jobset and lws, pkg/controllers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.judge import parallel_sizes
from ranktable.cluster.submissions.manifests import (
    PodTemplate,
    chips_in,
    judge_pod,
    judge_resources,
)
from ranktable.cluster.submissions.shell import POD_INDEX, UNKNOWN, plain_number
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
    from collections.abc import Mapping

    from ranktable.cluster.submissions.manifests import Kinds, Manifest, Manifests
    from ranktable.schema.document import Path

_POD: Final = ("template", "spec")
_ONCE: Final = Fact(1, "")
_POD_NAME: Final = re.compile(r"([a-z][a-z0-9-]*?)(?:-[0-9]+){1,2}\.([a-z0-9-]+)")
"""The name of a pod with its index, or with those of its Job and itself."""
_SERVING: Final = ("tensor-parallel-size", "pipeline-parallel-size", "tp", "pp")
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PET: Final = ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")


def _settings(**texts: str | int | None) -> dict[str, Setting]:
    """Return the variables that an operator sets; None leaves one out."""
    return {
        name: Setting(str(text), f"{name}={text} of the operator")
        for name, text in texts.items()
        if text is not None
    }


def _role(
    template: PodTemplate,
    nodes: Fact | None,
    *,
    name: str = "",
    variables: Mapping[str, Setting] = {},
    counted_from: Mapping[str, int] = {},
    chips: Fact | None = None,
) -> Role:
    """Return the role of the pods of a template."""
    count = {each: Setting(POD_INDEX, f"${each}") for each in counted_from}
    own = {**template.env(), **variables}
    found = template.command({**own, **count})
    lists = {n: s for n, s in found.variables.items() if n.endswith("VISIBLE_DEVICES")}
    return Role(
        name=name,
        nodes=nodes,
        chips=chips or template.chips(),
        command=found.command,
        variables=own | lists,
        counted=counted_from,
    )


def _job(job: Manifest, roles: list[Role], **more: Fact | None) -> list[Submission]:
    """Return the submission of a job with some roles."""
    kept = [role for role in roles if role.nodes is None or role.nodes.value]
    if not kept:
        return []
    one = Submission(
        kind=job.text("kind"),
        name=job.name,
        span=job.span("kind"),
        roles=tuple(kept),
        tasks_per_node=_ONCE,
        node="pod",
    )
    return [replace(one, **more)]  # type: ignore[arg-type]


def _total(facts: list[Fact | None]) -> int | None:
    return None if None in facts else sum(fact.value for fact in facts if fact)


def _by_hand(made: Manifests, template: PodTemplate, names: tuple[str, ...]) -> None:
    """Warn about variables that the operator sets too."""
    for name, setting in template.env().items():
        if name in names:
            made.report(
                rules.NO_EFFECT,
                setting.span,
                f"{name} is set here, and by the operator too, whose value comes last",
                hint="delete it",
                severity=Severity.WARNING,
            )


def _chips_differ(made: Manifests, job: Manifest, roles: list[Role], why: str) -> None:
    """Warn about roles with different numbers of chips."""
    named = [(role.name, role.chips) for role in roles if role.chips is not None]
    if len({chips.value for _, chips in named}) > 1:
        listed = " and ".join(f"{name} {chips.value}" for name, chips in named)
        made.report(
            rules.IDLE_CHIPS,
            job.span("spec"),
            f"the chips of the roles differ ({listed}), and {why}",
            hint="give every pod the same number of chips",
        )


# --- PyTorchJob


def read_pytorchjob(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what a PyTorchJob starts."""
    specs = ("spec", "pytorchReplicaSpecs")
    given = job.members(*specs)
    _refuse_pytorchjob(job, made, specs)
    names = [name for name in ("Master", "Worker") if name in given]
    counts = [job.number(*specs, name, "replicas", default=1) for name in names]
    total, elastic = _total(counts), job.get("spec", "elasticPolicy")
    processes = job.get("spec", "nprocPerNode")
    text = str("auto" if processes is None else processes)
    each = plain_number(text)
    variables = _settings(PET_NNODES=total, PET_NPROC_PER_NODE=text)
    if isinstance(elastic, dict):
        workers = job.number(*specs, "Worker", "replicas", default=1)
        least, most = (
            elastic.get(key, workers.value if workers else UNKNOWN)
            for key in ("minReplicas", "maxReplicas")
        )
        variables |= _settings(
            PET_NNODES=f"{least}:{most}",
            PET_NPROC_PER_NODE=elastic.get("nProcPerNode", text),
            PET_RDZV_BACKEND=elastic.get("rdzvBackend", "c10d"),
            PET_RDZV_ENDPOINT=f"{job.name}-worker-0:{elastic.get('rdzvPort', 23456)}",
        )
    if "Master" in given:
        port = _port_of(job, (*specs, "Master", *_POD))
        world = None if total is None else total * (each or 1)
        master = f"{job.name}-master-0"
        variables |= _settings(
            WORLD_SIZE=world,
            MASTER_ADDR=master,
            MASTER_PORT=port,
            PET_MASTER_ADDR=master,
            PET_MASTER_PORT=port,
        )
    roles = []
    for name, count in zip(names, counts, strict=True):
        template = PodTemplate(job, (*specs, name, *_POD), "pytorch")
        first = {"Master": 0, "Worker": 1}[name]
        counting = dict.fromkeys(("RANK", "PET_NODE_RANK"), first)
        counting = counting if "Master" in given else {}
        judge_pod(made, template)
        _by_hand(made, template, ("RANK", "WORLD_SIZE", *(f"PET_{n}" for n in _PET)))
        roles.append(
            _role(
                template, count, name=name, variables=variables, counted_from=counting
            )
        )
    _judge_pytorchjob(job, made, roles, text, total)
    return _job(job, roles)


def _refuse_pytorchjob(job: Manifest, made: Manifests, specs: Path) -> None:
    """Report what the webhook refuses."""

    def refuse(path: Path, message: str, hint: str | None = None) -> None:
        made.report(rules.REFUSED, job.span(*path), message, hint=hint)

    if job.name and UNKNOWN not in job.name and not _LABEL.fullmatch(job.name):
        message = f"{quoted(job.name)} is not a name that begins with a letter"
        refuse(("metadata", "name"), message)
    elastic = job.members("spec", "elasticPolicy")
    each = job.get("spec", "nprocPerNode")
    if isinstance(each, int) and not isinstance(each, bool):
        message = f"nprocPerNode is the number {each}; Kubernetes accepts a text only"
        refuse(("spec", "nprocPerNode"), message, f'write it in quotes: "{each}"')
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
    replicas = job.number(*path, "replicas", default=1)
    if replicas is not None and name == "Master" and replicas.value != 1:
        refuse(("replicas",), f"Master has {replicas.said}; it has to be 1")
    if replicas is not None and name == "Worker" and replicas.value < 1:
        refuse(("replicas",), f"Worker has {replicas.said}; it is at least 1")
    containers = PodTemplate(job, (*path, *_POD)).containers()
    if containers and "pytorch" not in [each.get("name") for each in containers]:
        hint = "call the container that trains pytorch"
        refuse((), f"{name} has no container with the name pytorch", hint)
    for index, container in enumerate(containers):
        if not container.get("image"):
            refuse((*_POD, "containers", index), "the container has no image")


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
            _chips_differ(made, job, roles, why)
        _one_for_all(made, roles, why)
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


def _one_for_all(made: Manifests, roles: list[Role], why: str) -> None:
    """Warn about pods that start one process for several chips."""
    for role in roles:
        if role.command.program == "python" and role.chips and role.chips.value > 1:
            made.report(
                rules.IDLE_CHIPS,
                role.command.span,
                f"every pod of {role.name} starts one process for {role.chips.value} "
                f"chips ({role.chips.said}), and {why}",
                hint="start torchrun in every pod, with a process for each chip",
            )


# --- TrainJob


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
    resources = (*trainer, "resourcesPerNode")
    chips = chips_in(job, resources)
    judge_resources(made, job, resources)
    processes = _trainer_processes(job, made, policy, chips, is_torch=is_torch)
    for at, item in enumerate(job.items(*trainer, "env")):
        name = item.get("name") if isinstance(item, dict) else None
        if name in {f"PET_{each}" for each in _PET} and is_torch:
            message = f"{name} is set by Trainer, which refuses it here"
            made.report(rules.REFUSED, job.span(*trainer, "env", at), message)
    master = f"{job.name}-node-0-0.{job.name}"
    variables = _settings(
        PET_NNODES=None if nodes is None else nodes.value,
        PET_NPROC_PER_NODE=processes,
        PET_MASTER_ADDR=master,
        PET_MASTER_PORT=29500,
    )
    template = _TrainerTemplate(job, ())
    role = _role(
        template,
        nodes,
        variables=variables if is_torch else {},
        counted_from={"PET_NODE_RANK": 0} if is_torch else {},
        chips=chips,
    )
    if is_torch:
        _judge_torch_trainer(made, job, runtime, role, processes)
    if role.command.program == "" and not role.command.is_whole and is_torch:
        role = replace(
            role, command=LaunchCommand(program="torchrun", span=role.command.span)
        )
    return _job(job, [role])


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
        for each in PodTemplate(runtime, (*inner, at, *_POD, *_POD)).containers()  # type: ignore[arg-type]
    ]
    if names and "node" not in names:
        made.report(
            rules.NO_RANK,
            job.span("spec", "runtimeRef"),
            f"Trainer sets PET_* in the container called node, and the runtime has "
            f"{_listed(dict.fromkeys(map(str, names)))}",
            hint="call the container of the runtime node",
            severity=Severity.WARNING,
        )


class _TrainerTemplate(PodTemplate):
    """The part of a TrainJob that stands for its container."""

    @property
    def here(self) -> Path:
        """The path of the trainer."""
        return ("spec", "trainer")

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


# --- MPIJob


def read_mpijob(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what an MPIJob of version v2beta1 starts."""
    specs = ("spec", "mpiReplicaSpecs")
    launchers = job.number(*specs, "Launcher", "replicas", default=1)
    workers = job.number(*specs, "Worker", "replicas", default=1)
    if launchers is not None and launchers.value != 1:
        message = f"Launcher has {launchers.said}; it has to be 1"
        made.report(rules.REFUSED, launchers.span, message)
    if workers is not None and "Worker" in job.members(*specs) and workers.value < 1:
        message = f"Worker has {workers.said}; it is at least 1"
        made.report(rules.REFUSED, workers.span, message)
    slots = job.number("spec", "slotsPerWorker", default=1)
    works = job.get("spec", "runLauncherAsWorker") is True
    launcher = PodTemplate(job, (*specs, "Launcher", *_POD))
    worker = PodTemplate(job, (*specs, "Worker", *_POD))
    for template in (launcher, worker):
        judge_pod(made, template)
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
    total = None
    if slots is not None and workers is not None:
        pods = workers.value + works
        total = Fact(slots.value * pods, f"{slots.said} on {counted(pods, 'pod')}")
    role = Role(
        nodes=workers, chips=chips, command=launcher.command(launcher.env()).command
    )
    return _job(job, [role], slots=total, tasks_per_node=slots)


def _judge_slots(made: Manifests, slots: Fact, chips: Fact) -> None:
    is_more = slots.value > chips.value
    made.report(
        rules.MORE_THAN_CHIPS if is_more else rules.IDLE_CHIPS,
        slots.span,
        f"a worker has {counted(slots.value, 'slot')} ({slots.said}) and "
        f"{counted(chips.value, 'chip')} ({chips.said})",
        hint=f"set slotsPerWorker: {chips.value}",
    )


# --- Volcano


def read_volcano(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what a Job of Volcano starts."""
    tasks = job.items("spec", "tasks")
    counts: dict[str, Fact | None] = {}
    paths: dict[str, Path] = {}
    for at, task in enumerate(tasks):
        name = task.get("name") if isinstance(task, dict) else None
        key = name if isinstance(name, str) else f"task {at}"
        paths[key] = ("spec", "tasks", at)
        counts[key] = job.number(*paths[key], "replicas", default=1)
        judge_pod(made, PodTemplate(job, (*paths[key], *_POD)))
    total, least = _total(list(counts.values())), job.number("spec", "minAvailable")
    if least is not None and total is not None and least.value != total:
        is_more = least.value > total
        effect = "it never starts" if is_more else "it starts before all pods can run"
        made.report(
            rules.GANG,
            least.span,
            f"{least.said}, but the tasks have {counted(total, 'pod')}: {effect}",
            hint=f"set minAvailable: {total}",
            severity=None if is_more else Severity.WARNING,
        )
    flags = _flags(job.get("spec", "plugins", "pytorch"))
    if flags is None:
        counting = {"VC_TASK_INDEX": 0, "VK_TASK_INDEX": 0}
        roles = [
            _role(
                PodTemplate(job, (*paths[name], *_POD)),
                counts[name],
                name=name,
                counted_from=counting,
            )
            for name in paths
        ]
        agents = [r for r in roles if r.command.program == "torchrun"]
        for role in agents if len(agents) > 1 else ():
            if not _is_world(role):
                _same_index(made, role, "task", "use the plugin pytorch, and its RANK")
        return _job(job, roles)
    master, worker = flags.get("master", "master"), flags.get("worker", "worker")
    if master not in counts:
        made.report(
            rules.NO_RANK,
            job.span("spec", "plugins", "pytorch"),
            f"no task is called {quoted(master)}, so the plugin pytorch sets no RANK, "
            "WORLD_SIZE and MASTER_ADDR",
            hint="name the task: pytorch: [--master=NAME, --worker=NAME]",
        )
        return []
    first = counts[master]
    if first is not None and first.value != 1:
        made.report(
            rules.SAME_RANK,
            first.span,
            f"{quoted(master)} has {counted(first.value, 'pod')}, and all of them get "
            "RANK 0",
            hint="set replicas: 1, and add the others to the worker",
        )
    chosen = [name for name in dict.fromkeys((master, worker)) if name in counts]
    _other_tasks(job, made, counts, chosen)
    size = _total([counts[name] for name in chosen])
    variables = _settings(
        WORLD_SIZE=size,
        MASTER_ADDR=f"{job.name}-{master}-0.{job.name}",
        MASTER_PORT=flags.get("port", "23456"),
    )
    roles = [
        _role(
            PodTemplate(job, (*paths[name], *_POD)),
            counts[name],
            name=name,
            variables=variables,
            counted_from={"RANK": int(name != master)},
        )
        for name in chosen
    ]
    _one_for_all(made, roles, f"WORLD_SIZE is the number of pods, {size}")
    return _job(job, roles)


def _flags(given: object) -> dict[str, str] | None:
    """Return the flags of a plugin, None if it is not used."""
    if not isinstance(given, list):
        return None
    pairs = (str(flag).lstrip("-").partition("=") for flag in given)
    return {name: value for name, _, value in pairs}


def _listed(names: Mapping[str, object]) -> str:
    """Return the first names and the number of the others."""
    shown = ", ".join(map(quoted, list(names)[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _other_tasks(
    job: Manifest,
    made: Manifests,
    counts: Mapping[str, Fact | None],
    chosen: list[str],
) -> None:
    others = {name: count for name, count in counts.items() if name not in chosen}
    number = _total(list(others.values()))
    if others and number:
        made.report(
            rules.WRONG_SIZE,
            job.span("spec", "tasks"),
            f"before Volcano 1.12 WORLD_SIZE counts {counted(number, 'pod')} of "
            f"{_listed(others)} too, which do not train",
            hint="upgrade, or put them into another job",
            severity=Severity.WARNING,
        )


# --- JobSet, Job, LeaderWorkerSet


def read_jobset(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what a JobSet starts."""
    count = len(job.items("spec", "replicatedJobs"))
    roles = [_replicated_job(job, made, at, count) for at in range(count)]
    launched = [role for role in roles if role.command.program == "torchrun"]
    domain = job.text("spec", "network", "subdomain") or job.name
    if job.get("spec", "network", "enableDNSHostnames") is False:
        domain = ""
    pods = {f"{job.name}-{each.name}" for each in launched}
    for role in launched if job.name else ():
        _judge_master(made, role, pods, domain)
    worlds = [role for role in launched if _is_world(role)]
    others = [role for role in launched if not _is_world(role)]
    alone = [one for role in worlds for one in _job(job, [role])]
    return alone + (_job(job, others or roles) if others or not worlds else [])


def _replicated_job(job: Manifest, made: Manifests, at: int, count: int) -> Role:
    """Return the pods of one of the Jobs of a JobSet."""
    path: Path = ("spec", "replicatedJobs", at)
    inner = (*path, "template", "spec")
    jobs = job.number(*path, "replicas", default=1)
    pods = job.number(*inner, "parallelism", default=1)
    nodes = None
    if jobs is not None and pods is not None:
        said = f"{jobs.said}, {pods.said}"
        nodes = Fact(jobs.value * pods.value, said, pods.span)
    template = PodTemplate(job, (*inner, *_POD))
    judge_pod(made, template)
    role = _role(
        template,
        nodes,
        name=job.text(*path, "name") or str(at),
        counted_from={"JOB_COMPLETION_INDEX": 0},
    )
    _judge_completions(job, made, role, inner)
    is_repeated = jobs is not None and jobs.value > 1
    if is_repeated or (count > 1 and not _is_world(role)):
        _same_index(made, role)
    if is_repeated and pods is not None and pods.value:
        role = replace(role, per_job=pods.value)
    return role


def _is_world(role: Role) -> bool:
    """Whether the agents of a role are all that they expect."""
    given = role.option("nnodes")
    nodes = role.nodes
    return given is not None and nodes is not None and given.text == str(nodes.value)


def _judge_completions(job: Manifest, made: Manifests, role: Role, path: Path) -> None:
    """Report agents of which only some run at the same time."""
    pods = job.number(*path, "parallelism", default=1)
    ends = job.number(*path, "completions")
    if role.command.program != "torchrun" or pods is None or ends is None:
        return
    if pods.value != ends.value:
        made.report(
            rules.WRONG_AGENTS,
            ends.span,
            f"{ends.said} and {pods.said}: only {pods.value} pods run at the same time",
            hint="set both to the number of nodes",
            severity=Severity.ERROR if pods.value < ends.value else Severity.WARNING,
        )


def _same_index(
    made: Manifests,
    role: Role,
    part: str = "Job",
    hint: str = "use one Job (replicas: 1) with completions and parallelism, or the "
    "label jobset.sigs.k8s.io/job-global-index",
) -> None:
    """Report a node rank that begins at 0 again in every part of a job."""
    rank = role.command.options.get("node-rank")
    if role.command.program != "torchrun" or rank is None:
        return
    if rank.text == POD_INDEX:
        made.report(
            rules.SAME_RANK,
            rank.span,
            f"the index of a pod begins at 0 in every {part}: several pods are node 0",
            hint=hint,
        )


def _judge_master(made: Manifests, role: Role, pods: set[str], domain: str) -> None:
    """Report the address of a pod that this job does not have.

    Args:
        made: Where to report.
        role: The role whose command is judged.
        pods: The names of pods of this job, without their indexes.
        domain: The subdomain of the pods, empty if they have none.
    """
    for name in ("master-addr", "rdzv-endpoint"):
        given = role.command.options.get(name)
        match = None if given is None else _POD_NAME.match(given.text)
        if given is None or match is None or any(UNKNOWN in pod for pod in pods):
            continue
        if match[1] in pods and match[2] == domain:
            continue
        host = given.text.partition(":")[0]
        first = min(pods)
        reason = "" if domain else ", because its pods have no subdomain"
        made.report(
            rules.POD_NAMES,
            given.span,
            f"no pod of this job is called {quoted(host)}{reason}",
            hint=f"the pods are called {first}-INDEX.{domain or 'SUBDOMAIN'}",
        )


def read_job(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what an Indexed Job of Kubernetes starts."""
    template = PodTemplate(job, ("spec", *_POD))
    is_indexed = job.text("spec", "completionMode") == "Indexed"
    counting = {"JOB_COMPLETION_INDEX": 0} if is_indexed else {}
    pods = job.number("spec", "parallelism", default=1)
    role = _role(template, pods, counted_from=counting)
    if role.command.program != "torchrun" and not is_indexed:
        return []  # any program that runs to its end
    judge_pod(made, template)
    if is_indexed:
        _judge_completions(job, made, role, ("spec",))
    domain = job.text("spec", *_POD, "subdomain")
    if pods is not None and pods.value > 1 and role.command.program == "torchrun":
        if not is_indexed:
            made.report(
                rules.NO_RANK,
                job.span("spec"),
                "the Job is not Indexed, so its pods have no JOB_COMPLETION_INDEX",
                hint="add completionMode: Indexed",
            )
        if job.name:
            _judge_master(made, role, {job.name}, domain)
    _judge_service(job, made, domain)
    return _job(job, [role])


def _judge_service(job: Manifest, made: Manifests, domain: str) -> None:
    """Judge the Service of the subdomain, if it is in the file."""
    labels = {
        "job-name": job.name,
        "batch.kubernetes.io/job-name": job.name,
        **job.members("spec", "template", "metadata", "labels"),
    }
    service = made.named.get(("Service", domain))
    if service is None or not domain:
        return
    if service.get("spec", "clusterIP") != "None":
        made.report(
            rules.POD_NAMES,
            service.span("spec"),
            f"the Service {domain} has an address of its own, so pods get no names",
            hint="add clusterIP: None",
        )
    selector = service.members("spec", "selector")
    own = "statefulset.kubernetes.io/pod-name"  # of each pod
    wrong = {k: v for k, v in selector.items() if k != own and labels.get(k) != v}
    if wrong:
        listed = ", ".join(f"{key}: {value}" for key, value in wrong.items())
        made.report(
            rules.POD_NAMES,
            service.span("spec", "selector"),
            f"the Service {domain} selects {listed}, which the pods do not have",
        )


def read_leaderworkerset(job: Manifest, made: Manifests) -> list[Submission]:
    """Return what one group of a LeaderWorkerSet starts; every group is a world."""
    top: Path = ("spec", "leaderWorkerTemplate")
    size = job.number(*top, "size", default=1)
    variables = _settings(
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
        if name == "worker" or leader == "leaderTemplate":
            judge_pod(made, template)
        counting = {"LWS_WORKER_INDEX": first}
        role = _role(
            template, count, name=name, variables=variables, counted_from=counting
        )
        roles.append(role)
    _chips_differ(made, job, roles, "all pods of a group usually do the same")
    _judge_serving(made, job, roles, (*top, leader, "spec"))
    return _job(job, roles)


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


# --- StatefulSet, RayCluster, RayJob


def read_statefulset(job: Manifest, made: Manifests) -> list[Submission]:
    """Return the agents that a StatefulSet starts; most run no job."""
    role = _role(PodTemplate(job, ("spec", *_POD)), job.number(*_REPLICAS, default=1))
    if role.command.program not in ("torchrun", "accelerate"):
        return []
    judge_pod(made, PodTemplate(job, ("spec", *_POD)))
    domain = job.text("spec", "serviceName")
    if job.name and role.command.program == "torchrun":
        _judge_master(made, role, {job.name}, domain)
    _judge_service(job, made, domain)
    return _job(job, [role])


_REPLICAS: Final = ("spec", "replicas")


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
        template = PodTemplate(job, (*path, *_POD))
        template.index = 0  # Ray runs in the first container
        judge_pod(made, template)
        _judge_ray_params(made, job, path, template.chips())
        nodes: Fact | None = _ONCE
        if path in paths:
            count = job.number(*path, "replicas")
            hosts = job.number(*path, "numOfHosts", default=1)
            nodes = count and hosts and count._replace(value=count.value * hosts.value)
        role = Role(
            name=job.text(*path, "groupName") or "head",
            nodes=nodes,
            chips=template.chips(),
            command=LaunchCommand(is_whole=False, span=job.span(*path)),
        )
        roles.append(role)
    return _job(job, roles)


def _judge_ray_params(
    made: Manifests, job: Manifest, path: Path, chips: Fact | None
) -> None:
    """Compare the chips that Ray is told with those of the pod."""
    params = job.members(*path, "rayStartParams")
    for name, value in params.items():
        if not isinstance(value, str):
            made.report(
                rules.REFUSED,
                job.span(*path, "rayStartParams", name),
                f"{name} is {quoted(value)}, and Kubernetes accepts a text only here",
                hint="write it in quotes",
            )
    told = plain_number(str(params.get("num-gpus", "")))
    if not told or chips is None or "gpu" not in chips.said.lower():
        return
    if told != chips.value:
        is_more = told > chips.value
        made.report(
            rules.MORE_THAN_CHIPS if is_more else rules.IDLE_CHIPS,
            job.span(*path, "rayStartParams", "num-gpus"),
            f"Ray counts {told} chips in this pod (num-gpus), which has {chips.value} "
            f"({chips.said})",
            hint="leave num-gpus out: KubeRay takes it from the limits",
        )


KINDS: Final[Kinds] = {
    ("kubeflow.org", "PyTorchJob"): read_pytorchjob,
    ("trainer.kubeflow.org", "TrainJob"): read_trainjob,
    ("kubeflow.org", "MPIJob"): read_mpijob,
    ("batch.volcano.sh", "Job"): read_volcano,
    ("jobset.x-k8s.io", "JobSet"): read_jobset,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): read_leaderworkerset,
    ("batch", "Job"): read_job,
    ("apps", "StatefulSet"): read_statefulset,
    ("ray.io", "RayCluster"): read_ray,
    ("ray.io", "RayJob"): read_ray,
}
"""The reader of each kind, by the group of its version and its name."""
