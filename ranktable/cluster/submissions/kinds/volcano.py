"""What a Job of Volcano starts.

Source: volcano-sh/volcano, pkg/controllers/job/plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.manifests import PodTemplate, judge_pod
from ranktable.cluster.submissions.pod_names import (
    Pods,
    addresses,
    judge_addresses,
    judge_lengths,
)
from ranktable.cluster.submissions.pod_roles import (
    POD,
    is_world,
    judge_gang,
    listed,
    operator_settings,
    pod_job,
    pod_role,
    report_same_index,
    total_of,
    warn_one_for_all,
)
from ranktable.cluster.submissions.shell_marks import UNKNOWN
from ranktable.cluster.submissions.submission import Role
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Fact, Setting, Submission
    from ranktable.schema.document import Path


_INDEXES: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")
_WITH_NAMES: Final = {"svc", "pytorch", "tensorflow", "mpi", "ray"}
"""Plugins by which pods have names: the others add svc."""


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
        least, count = job.number(*paths[key], "minAvailable"), counts[key]
        if least is not None and count is not None and least.value > count.value:
            message = f"{least.said} of task {key} is more than its {count.said}"
            made.report(rules.REFUSED, least.span, message)
    total, least = total_of(list(counts.values())), job.number("spec", "minAvailable")
    judge_gang(made, least, total)
    flags = _flags(job.get("spec", "plugins", "pytorch"))
    if flags is not None:
        return _with_pytorch(job, made, counts, paths, flags)
    plugins = job.members("spec", "plugins")
    indexes = dict.fromkeys(_INDEXES if "env" in plugins else (), 0)
    hosts = _host_variables(job, counts)
    roles = [
        _task(job, made, paths[name], counts[name], name, indexes, hosts)
        for name in paths
    ]
    _judge_names(job, made, counts, paths, roles)
    agents = [r for r in roles if r.command.program == "torchrun"]
    for role in agents if len(agents) > 1 else ():
        if not is_world(role):
            report_same_index(
                made, role, "task", "use the plugin pytorch, and its RANK"
            )
    return pod_job(job, roles)


def _task(
    job: Manifest,
    made: Manifests,
    path: Path,
    count: Fact | None,
    name: str,
    counted_from: Mapping[str, int],
    variables: Mapping[str, Setting] = {},
) -> Role:
    """Return the role of a task, whose template is judged."""
    template = PodTemplate(job, (*path, *POD))
    role = pod_role(
        template, count, name=name, variables=variables, counted_from=counted_from
    )
    judge_pod(made, template, role)
    return role


def _host_variables(
    job: Manifest, counts: Mapping[str, Fact | None]
) -> dict[str, Setting]:
    """Return the variables with the hosts of each task, and their number."""
    plugins = job.members("spec", "plugins")
    if not plugins.keys() & _WITH_NAMES:
        return {}
    found: dict[str, str | int] = {}
    for task, count in counts.items():
        name = f"VC_{task.replace('-', '_').upper()}"
        found[f"{name}_HOSTS"] = UNKNOWN
        found[f"{name}_NUM"] = UNKNOWN if count is None else count.value
    return operator_settings(**found)


def _with_pytorch(
    job: Manifest,
    made: Manifests,
    counts: Mapping[str, Fact | None],
    paths: Mapping[str, Path],
    flags: Mapping[str, str],
) -> list[Submission]:
    """Return what a job with the plugin pytorch starts."""
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
    size = total_of([counts[name] for name in chosen])
    has_index = "env" in job.members("spec", "plugins")
    variables = _host_variables(job, counts) | operator_settings(
        **dict.fromkeys(_INDEXES if has_index else (), UNKNOWN),
        WORLD_SIZE=size,
        MASTER_ADDR=f"{job.name}-{master}-0.{job.name}",
        MASTER_PORT=flags.get("port", "23456"),
    )
    roles = [
        _task(
            job,
            made,
            paths[name],
            counts[name],
            name,
            {"RANK": int(name != master)},
            variables,
        )
        for name in chosen
    ]
    _judge_names(job, made, counts, paths, roles)
    warn_one_for_all(made, roles, f"WORLD_SIZE is the number of pods, {size}")
    return pod_job(job, roles)


def _judge_names(
    job: Manifest,
    made: Manifests,
    counts: Mapping[str, Fact | None],
    paths: Mapping[str, Path],
    roles: list[Role],
) -> None:
    """Judge the names that the plugins svc and pytorch give the pods."""
    made_roles = {role.name: role for role in roles}
    pods = [
        Pods(
            made_roles.get(name, Role(name=name, nodes=count)),
            f"{job.name}-{name}",
            (count and count.value,),
        )
        for name, count in counts.items()
    ]
    is_own = any(
        job.get(*path, *POD, key) is not None
        for path in paths.values()
        for key in ("hostname", "subdomain")
    )
    is_named = job.members("spec", "plugins").keys() & _WITH_NAMES
    if not job.name or is_own or not pods:
        return
    judge_lengths(made, job, pods)
    if is_named:
        judge_addresses(made, pods, job.name)
        return
    for given in (given for role in roles for given in addresses(role)):
        host = given.text.partition(":")[0]
        if any(each.indexes(host.partition(".")[0]) for each in pods):
            made.report(
                rules.POD_NAMES,
                given.span,
                f"{quoted(host)} is no name without the plugin svc, which gives the "
                "pods a Service",
                hint="add svc: [] to the plugins",
            )


def _flags(given: object) -> dict[str, str] | None:
    """Return the flags of a plugin, None if it is not used."""
    if not isinstance(given, list):
        return None
    pairs = (str(flag).lstrip("-").partition("=") for flag in given)
    return {name: value for name, _, value in pairs}


def _other_tasks(
    job: Manifest,
    made: Manifests,
    counts: Mapping[str, Fact | None],
    chosen: list[str],
) -> None:
    others = {name: count for name, count in counts.items() if name not in chosen}
    number = total_of(list(others.values()))
    if others and number:
        made.report(
            rules.WRONG_SIZE,
            job.span("spec", "tasks"),
            f"before Volcano 1.12 WORLD_SIZE counts {counted(number, 'pod')} of "
            f"{listed(others)} too, which do not train",
            hint="upgrade, or put them into another job",
            severity=Severity.WARNING,
        )
