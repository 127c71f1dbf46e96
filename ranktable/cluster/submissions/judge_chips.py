"""Judge the processes of a node against its chips, and the chips that each sees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import shell_marks
from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import (
    AGENTS,
    listed_chips,
    processes_per_start,
    reaches_task,
)
from ranktable.cluster.submissions.judge_nccl_tests import chips_of_test
from ranktable.cluster.submissions.submission import Fact, Role, Setting, Submission
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.document import SourceSpan
    from ranktable.schema.finding import Finding

_SLOT: Final = re.compile(r"[:,]([0-9]{1,6})(?=[,@]|$)")
_INSTANCE: Final = re.compile(r"\bmig-|\b[0-9]g\.[0-9]+gb|_[0-9]g\.[0-9]+gb")


def judge_chips(one: Submission, role: Role) -> Iterator[Finding]:
    """Compare the processes of a node with its chips."""
    each, tasks, chips = processes_per_start(one, role), one.tasks_per_node, role.chips
    if each is None or each.value == 0:
        return
    seen = role.chips_per_task
    hint = "ask for the chips of the node: --gpus-per-node"
    if seen is None:
        seen, hint = listed_chips(one, role), "let the list show a chip for each"
    if seen is not None and each.value > seen.value:
        what = "task" if one.is_step else one.node
        yield rules.MORE_THAN_CHIPS.finding(
            each.span or role.command.span,
            f"every {what} starts {each.value} processes ({each.said}), but sees "
            f"{counted(seen.value, 'chip')} ({seen.said})",
            hint=hint,
        )
        return
    if role.command.program == "deepspeed":  # it starts those of the whole job
        tasks = Fact(1, "")
    is_least = tasks is None  # the nodes may have different numbers of tasks
    tasks = tasks or least_tasks(one)
    if tasks is None or chips is None or chips.value == 0:
        return
    number = tasks.value * each.value
    is_launched = role.command.program in (*AGENTS, "deepspeed")
    which = "some" if is_least else "every"
    where = f"{which} {one.node}" + (f" of {role.name}" if role.name else "")
    said = ", ".join(dict.fromkeys(t for t in (tasks.said, each.said) if t))
    message = f"{where} starts {counted(number, 'process', 'processes')} ({said})"
    span = each.span or tasks.span or role.command.span
    if number > chips.value:
        certain = is_launched or not one.is_script
        yield rules.MORE_THAN_CHIPS.finding(
            span,
            f"{message}, but has {counted(chips.value, 'chip')} ({chips.said})",
            hint=f"start {chips.value}, or ask for {number} chips",
            severity=None if certain else Severity.WARNING,
        )
    elif number * chips_of_test(role) >= chips.value or is_least:
        return
    elif one.is_alone and (is_launched or number > 1):
        yield rules.IDLE_CHIPS.finding(
            span,
            f"{message}, and has {chips.value} chips ({chips.said})",
            hint=f"start {chips.value} processes, unless one process uses several "
            "chips",
        )
    elif (
        one.is_step
        and role.command.program == "python"
        and span != role.command.span  # a step with a number of its own means it
    ):
        yield rules.IDLE_CHIPS.finding(
            span,
            f"{message}, and has {chips.value} chips ({chips.said})",
            hint=f"start {chips.value} tasks a node, unless the program uses several "
            "chips, or starts the others itself",
            severity=Severity.NOTE,
        )


def judge_all_chips(one: Submission, role: Role) -> Iterator[Finding]:
    """Compare all processes with the chips of all nodes together."""
    each, starts, chips = processes_per_start(one, role), one.starts(), one.all_chips
    if each is None or starts is None or chips is None or role.chips == chips:
        return
    if starts * each.value <= chips.value or not chips.value:
        return
    is_launched = role.command.program in (*AGENTS, "deepspeed")
    yield rules.MORE_THAN_CHIPS.finding(
        each.span or role.command.span,
        f"{counted(starts * each.value, 'process', 'processes')} start in all, but all "
        f"nodes together have {counted(chips.value, 'chip')} ({chips.said})",
        hint="--gpus-per-node gives the chips of each node",
        severity=None if is_launched else Severity.WARNING,
    )


def least_tasks(one: Submission) -> Fact | None:
    """Return how many tasks the fullest node of a submission has at least."""
    if one.tasks is None or not one.nodes:
        return None
    return one.tasks._replace(value=-(-one.tasks.value // one.nodes))


def _judge_instances(one: Submission, role: Role) -> Iterator[Finding]:
    """Warn about several processes on instances of MIG: each process uses the first."""
    each, chips = processes_per_start(one, role), role.chips_per_task or role.chips
    if each is None or chips is None or not _INSTANCE.search(chips.said):
        return
    if each.value > 1 and chips.value > 1:
        yield rules.CHIPS_VISIBLE.finding(
            each.span or role.command.span,
            f"{each.value} processes ({each.said}) see {chips.value} instances of MIG "
            f"({chips.said}), and CUDA gives each process only the first",
            hint="give each process the UUID of its own in CUDA_VISIBLE_DEVICES",
        )


def judge_named_chips(one: Submission, role: Role) -> Iterator[Finding]:
    """Report chips that accelerate or deepspeed is told to use and a node lacks."""
    given, chips = role.option("include"), role.chips_per_task or role.chips
    text = "" if given is None else given.text
    if given is None and (given := role.command.options.get("gpu-ids")) is not None:
        text = f":{given.text}"
    slots = [int(number) for number in _SLOT.findall(text)]
    has = "a task sees" if role.chips_per_task else f"a {one.node} has"
    if given is not None and chips and max(slots, default=0) >= chips.value:
        yield rules.MORE_THAN_CHIPS.finding(
            given.span,
            f"{given.said} names chip {max(slots)}, but {has} "
            f"{counted(chips.value, 'chip')} ({chips.said}), numbered from 0",
            hint="the numbers are those of the chips that the job sees",
        )


def judge_visible(one: Submission, role: Role) -> Iterator[Finding]:
    """Warn about tasks that see only a chip of their own, and about exported lists."""
    yield from _judge_instances(one, role)
    yield from _judge_binding(one, role)
    tasks = one.tasks_per_node or one.tasks
    several = tasks is not None and tasks.value > 1
    for name, setting in role.variables.items() if one.is_script else ():
        text, chips = setting.text, role.chips
        if chips is None or not name.endswith("VISIBLE_DEVICES"):
            continue
        is_same = any(mark in text for mark in shell_marks.IN_BATCH.values())
        if one.is_step and not reaches_task(name, setting, role):
            if text != ",".join(map(str, range(chips.value))):
                yield rules.NO_EFFECT.finding(
                    setting.span,
                    f"{setting.said} does not reach the tasks: Slurm gives them the "
                    f"list of the chips of their step ({chips.said})",
                    hint="delete it, or set it in the task: srun bash -c '...'",
                )
        elif one.is_step:
            is_one = several and role.chips_per_task is None
            if is_one and (is_same or text.isdecimal()):
                yield rules.CHIPS_VISIBLE.finding(
                    setting.span,
                    f"{setting.said} gives all tasks of a node one chip",
                    hint=f"let every task expand it: {name}=$SLURM_LOCALID",
                    severity=Severity.ERROR,
                )
        elif shell_marks.IN_TASK["SLURM_LOCALID"] not in text:
            is_prefix = _is_within(setting.span, role.command.span)
            if is_prefix and not (one.is_alone or is_same):
                continue  # commands beside each other may share the chips of a node so
            also = ", and is 0 in all tasks" if is_same else ""
            yield rules.CHIPS_VISIBLE.finding(
                setting.span,
                f"{setting.said} replaces the chips that Slurm gives the job "
                f"({chips.said}){also}",
                hint=f"drop {name} from it" if is_prefix else "delete the line",
                severity=None if one.is_alone or is_same else Severity.NOTE,
            )


def _is_within(inner: SourceSpan | None, outer: SourceSpan | None) -> bool:
    """Whether a place is in another one."""
    if inner is None or outer is None or not (inner.offsets and outer.offsets):
        return False
    return outer.offsets[0] <= inner.offsets[0] < outer.offsets[1]


def _judge_binding(one: Submission, role: Role) -> Iterator[Finding]:
    """Judge which of the chips of its node a task sees."""
    seen, chips = role.chips_per_task, role.chips
    tasks = one.tasks_per_node or one.tasks
    if tasks is None or tasks.value < 2 or role.command.program not in ("", "python"):
        return
    number, rank = role.tasks_per_chip, role.variables.get("LOCAL_RANK")
    is_torch = role.command.program and not role.command.is_wrapped  # perhaps
    severity = None if is_torch else Severity.NOTE
    hint = (
        "ask for the chips of the node (--gpus-per-node), or add "
        "--tres-bind=gres/gpu:none"
    )
    if seen is not None and number > 1 and chips and tasks.value <= chips.value:
        yield rules.CHIPS_VISIBLE.finding(
            seen.span or role.command.span,
            f"{seen.said} puts {number} tasks of a node on one chip, and the node has "
            f"{chips.value} for {tasks.value} tasks ({chips.said})",
            hint="--gpu-bind=single:1 gives each task a chip of its own",
            severity=Severity.ERROR,
        )
    elif rank is not None and rank.text == "0":
        lists = [name for name in role.variables if name.endswith("VISIBLE_DEVICES")]
        is_same = one.is_step and seen is None and role.near is None and not lists
        if is_same and chips and chips.value > 1:
            yield rules.CHIPS_VISIBLE.finding(
                rank.span,
                f"{rank.said} is the same in all {tasks.value} tasks of a node, so a "
                "program that takes the chip of its local rank takes the first",
                hint="srun bash -c 'LOCAL_RANK=$SLURM_LOCALID python ...'",
                severity=severity,
            )
    elif seen is not None and not (chips and seen.value >= chips.value):
        yield rules.CHIPS_VISIBLE.finding(
            seen.span or role.command.span,
            f"{seen.said} shows every task its own chips, numbered from 0; with local "
            "rank 1 and above a program that takes the chip of its local rank finds "
            "none",
            hint=hint,
            severity=severity,
        )
    elif role.near is not None:
        yield rules.CHIPS_VISIBLE.finding(
            role.near.span or role.command.span,
            f"{role.near.said} shows every task the chips near its processors only, "
            "numbered from 0; a program that takes the chip of its local rank may find "
            "none",
            hint=hint,
            severity=severity,
        )
    elif rank is not None and rank.text == shell_marks.IN_TASK["SLURM_LOCALID"]:
        yield from _judge_own_list(role, rank)


def _judge_own_list(role: Role, rank: Setting) -> Iterator[Finding]:
    """Warn about a list of one chip beside a local rank above 0."""
    for name, setting in role.variables.items():
        if name.endswith("VISIBLE_DEVICES") and setting.text == rank.text:
            yield rules.CHIPS_VISIBLE.finding(
                setting.span,
                f"{setting.said} shows every task one chip, beside {rank.said}: a "
                "program that takes the chip of its local rank finds none from 1 on",
                hint="set LOCAL_RANK=0, or leave the list to Slurm",
            )
