"""The pods of a job: their roles, and what is the same for jobs of several kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import (
    AGENTS,
    NUMBERED,
    expected_agents,
    is_static,
)
from ranktable.cluster.submissions.shell_marks import POD_INDEX, has_marks
from ranktable.cluster.submissions.submission import Fact, Role, Setting, Submission
from ranktable.cluster.submissions.task_command import SET_BY_SCRIPTS
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, quoted
from ranktable.schema.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ranktable.cluster.submissions.manifests import Manifest, Manifests, PodTemplate
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Finding

_MEETING: Final = ("rdzv-endpoint", "master-addr", "master-port", "rdzv-id")
POD: Final = ("template", "spec")
ONCE: Final = Fact(1, "")
GANG: Final = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")
PET: Final = ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")


def operator_settings(**texts: str | int | None) -> dict[str, Setting]:
    """Return the variables that an operator sets; None leaves one out."""
    return {
        name: Setting(str(text), f"{name}={text} of the operator")
        for name, text in texts.items()
        if text is not None
    }


def pod_role(
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
    is_read = SET_BY_SCRIPTS if found.command.program == "python" else ()
    of_script = {
        name: setting
        for name, setting in found.variables.items()
        if name.endswith("VISIBLE_DEVICES") or name in is_read
    }
    return Role(
        name=name,
        nodes=nodes,
        chips=chips or template.chips(),
        lacks_chips=chips is None and template.lacks_chips(),
        command=found.command,
        variables=own | of_script,
        counted=counted_from,
    )


def pod_job(job: Manifest, roles: list[Role], **more: Fact | None) -> list[Submission]:
    """Return the submission of a job with some roles."""
    kept = [role for role in roles if role.nodes is None or role.nodes.value]
    if not kept:
        return []
    one = Submission(
        kind=job.text("kind"),
        name=job.name,
        span=job.span("kind"),
        roles=tuple(kept),
        tasks_per_node=ONCE,
        node="pod",
    )
    return [replace(one, **more)]  # type: ignore[arg-type]


def total_of(facts: list[Fact | None]) -> int | None:
    """Return the sum of some numbers, None if one is not known."""
    return None if None in facts else sum(fact.value for fact in facts if fact)


def judge_gang(
    made: Manifests, least: Fact | None, total: int | None, accepted: Iterable[int] = ()
) -> None:
    """Report a gang of another number of pods than the job has.

    Args:
        made: Where to report.
        least: How many pods the scheduler waits for.
        total: How many there are.
        accepted: Other numbers that may be meant.
    """
    if least is None or total is None or least.value in (0, total, *accepted):
        return
    is_more = least.value > total
    effect = "it never starts" if is_more else "it starts before all pods can run"
    made.report(
        rules.GANG,
        least.span,
        f"{least.said}, but the job has {counted(total, 'pod')}: {effect}",
        hint=f"set minAvailable: {total}",
        severity=None if is_more else Severity.WARNING,
    )


def warn_set_by_hand(
    made: Manifests, template: PodTemplate, names: tuple[str, ...]
) -> None:
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


def warn_chips_differ(
    made: Manifests, job: Manifest, roles: list[Role], why: str
) -> None:
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


def judge_limits(one: Submission) -> Iterator[Finding]:
    """Warn about pods without chips that run what others run with chips."""
    with_chips = {
        role.command.program: role for role in one.roles if role.chips is not None
    }
    for role in one.roles:
        other, program = with_chips.get(role.command.program), role.command.program
        is_node = program in AGENTS or role.option("nnodes") is not None
        if role.lacks_chips and other is not None and other.chips and is_node:
            yield rules.POD_RESOURCES.finding(
                role.command.span,
                f"the pods of {role.name} start {program} without limits of chips; "
                f"those of {other.name} have {other.chips.said}",
                hint="give both the same limits, if all processes use a chip",
                severity=Severity.WARNING,
            )


def warn_one_for_all(made: Manifests, roles: list[Role], why: str) -> None:
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


def listed(names: Mapping[str, object]) -> str:
    """Return the first names and the number of the others."""
    shown = ", ".join(map(quoted, list(names)[:3]))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def is_world(role: Role) -> bool:
    """Whether the agents of a role are all that they expect."""
    given = role.option("nnodes")
    nodes = role.nodes
    return given is not None and nodes is not None and given.text == str(nodes.value)


def worlds_of(roles: list[Role]) -> list[list[Role]]:
    """Return agents, those together that meet at one address.

    Those without one, or with that of their own host, that are fewer than they expect
    belong to the others.
    """
    found: dict[object, list[Role]] = {}
    for role in roles:
        if role.command.program in NUMBERED:
            alone = role.name if is_world(role) else None
            found.setdefault(_meeting(role) or alone, []).append(role)
    told = [key for key in found if isinstance(key, tuple)]
    if None in found and len(told) == 1:
        lost = found.pop(None)
        found[told[0]] = [role for role in roles if role in found[told[0]] + lost]
    return [roles] if _are_parts(roles, len(found)) else list(found.values())


def _are_parts(roles: list[Role], meetings: int) -> bool:
    """Whether agents that meet apart are numbered as those of one job."""
    ranks = [role.option("node-rank") for role in roles]
    numbers = sorted(each.text for each in ranks if each is not None)
    sizes = {each.text for role in roles if (each := role.option("nnodes"))}
    is_one_each = all(role.nodes and role.nodes.value == 1 for role in roles)
    counted_up = sorted(map(str, range(len(roles))))
    is_job = sizes == {str(len(roles))} and numbers == counted_up
    return meetings > 1 and is_one_each and is_job and all(map(is_static, roles))


def joined(submissions: list[Submission]) -> list[Submission]:
    """Return submissions, those as one that are parts of one job.

    They meet at one address, and each is fewer agents than it expects.
    """
    found: dict[object, Submission] = {}
    for at, one in enumerate(submissions):
        key = _part_of(one) or at
        first = found.get(key)
        roles = tuple(replace(role, name=role.name or one.name) for role in one.roles)
        if first is None:
            found[key] = one
        elif first.name == one.name:
            found[at] = one  # the same job for another cluster
        else:
            before = (replace(r, name=r.name or first.name) for r in first.roles)
            found[key] = replace(first, roles=(*before, *roles))
    return list(found.values())


def _part_of(one: Submission) -> object:
    """Return the job that a submission is a part of, nothing if it is a whole one."""
    role, starts = one.roles[0], one.starts()
    expected = expected_agents(role)
    if role.command.program not in NUMBERED or expected is None or starts is None:
        return None
    meeting = _meeting(role)
    return (one.kind, meeting) if meeting and starts < expected.least else None


def _meeting(role: Role) -> tuple[str, ...]:
    """Return where agents meet, empty if it is not known or differs on each host."""
    given = [role.option(name) for name in _MEETING]
    texts = tuple("" if each is None else each.text for each in given)
    host = "".join(texts[:2])
    is_own = any(map(is_loopback, (host, host.rpartition(":")[0].strip("[]"))))
    is_known = host and not is_own and not any(map(has_marks, texts))
    return texts if is_known else ()


def pods_at_once(job: Manifest, path: Path) -> Fact | None:
    """Return how many pods of a Job run at the same time, None if that is not known.

    Source: Kubernetes, concepts/workloads/controllers/job: not more than are left.
    """
    pods = job.number(*path, "parallelism", default=1)
    ends = job.number(*path, "completions")
    if pods is None or ends is None or ends.value >= pods.value:
        return pods
    return ends._replace(said=f"{ends.said}, {pods.said}")


def judge_completions(job: Manifest, made: Manifests, role: Role, path: Path) -> None:
    """Report agents of which only some run at the same time."""
    pods = job.number(*path, "parallelism", default=1)
    ends = job.number(*path, "completions")
    if role.command.program != "torchrun" or pods is None or ends is None:
        return
    if pods.value != ends.value:
        least = min(pods.value, ends.value)
        made.report(
            rules.WRONG_AGENTS,
            ends.span,
            f"{ends.said} and {pods.said}: only {least} pods run at the same time",
            hint="set both to the number of nodes",
            severity=Severity.ERROR if pods.value < ends.value else Severity.WARNING,
        )


def report_same_index(
    made: Manifests,
    role: Role,
    part: str = "Job",
    hint: str = "use one Job (replicas: 1) with completions and parallelism, or the "
    "label jobset.sigs.k8s.io/job-global-index",
) -> None:
    """Report a node rank that begins at 0 again in every part of a job."""
    rank = role.command.options.get("node-rank")
    if role.command.program in NUMBERED and rank and rank.text == POD_INDEX:
        made.report(
            rules.SAME_RANK,
            rank.span,
            f"the index of a pod begins at 0 in every {part}: several pods are node 0",
            hint=hint,
        )
