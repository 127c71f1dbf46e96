"""Judge submissions: nodes, processes and chips, names and ports, ranks and sizes.

Only what is certain from the file is an error. What depends on the program, on the
cluster or on options of the command line is a warning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import shell, shell_marks
from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import (
    AGENTS,
    NUMBERED,
    SERVERS,
    groups_of,
    processes_per_start,
)
from ranktable.cluster.submissions.judge_address import judge_one_meeting
from ranktable.cluster.submissions.judge_agents import (
    agents_of,
    judge_accelerate,
    judge_agents,
    judge_first_ranks,
    judge_rank,
)
from ranktable.cluster.submissions.judge_chips import (
    judge_all_chips,
    judge_chips,
    judge_named_chips,
    judge_visible,
    least_tasks,
)
from ranktable.cluster.submissions.judge_nccl_tests import judge_tests
from ranktable.cluster.submissions.judge_program import (
    judge_arguments,
    judge_deepspeed,
    judge_mpirun,
    judge_parallel,
    judge_program,
)
from ranktable.cluster.submissions.judge_server import judge_servers
from ranktable.cluster.submissions.launch_options import (
    JUDGED,
    OWN_TORCHRUN,
    UNREAD,
)
from ranktable.cluster.submissions.pod_roles import judge_limits
from ranktable.cluster.submissions.submission import Role, Setting, Submission, Unjudged
from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.finding import Finding

_WORD: Final = re.compile(r"[a-z0-9:.-]+")
"""Not one in capitals, which another program may replace."""
_VALUES: Final = {
    "rdzv-backend": (r"c10d|etcd|etcd-v2|static", "c10d, etcd, etcd-v2 and static"),
    "nproc-per-node": (
        r"[0-9]+|auto|[a-z]pu|mlu|musa|sdaa|gcu|maca",  # the others are of plugins
        "a number, auto, cpu, gpu and xpu",
    ),
    "nnodes": (r"[0-9]+(?::[0-9]+)?", "a number and MIN:MAX"),
}
"""Values that are taken, and how a message names them."""
_PROGRAM: Final = re.compile(r"python[0-9.]*|bash|sh|torchrun|accelerate|deepspeed")


def judge(one: Submission) -> Iterator[Finding]:
    """Yield what is wrong with a submission."""
    if one.roles[0].command.only_looks:
        return
    for role in one.roles:
        yield from judge_chips(one, role)
        yield from judge_all_chips(one, role)
        yield from judge_visible(one, role)
        yield from judge_named_chips(one, role)
    role = one.roles[0]
    groups = groups_of(one)
    for group in groups:
        yield from _judge_words(group.role)
        yield from _judge_options(one, group.role)
        yield from _judge_lost(group.role)
        yield from _judge_script_options(group.role)
    yield from judge_parallel(one, role)
    yield from judge_arguments(one, role)
    yield from judge_servers(one)
    yield from judge_limits(one)
    is_server = role.command.program in SERVERS
    if is_server and (one.is_first_node_only or role.option("nnodes") is None):
        return  # one server, perhaps with a cluster of Ray
    if role.command.program in NUMBERED:
        starts = agents_of(one, groups)
        for group in groups:
            yield from judge_agents(one, group, starts)
            yield from judge_accelerate(group.role, starts)
            yield from judge_rank(group.role)
        yield from judge_first_ranks(one)
        yield from judge_one_meeting(one, groups)
    elif role.command.program == "mpirun":
        yield from judge_mpirun(one, role)
    elif role.command.program == "deepspeed":
        yield from judge_deepspeed(one, role)
    else:
        yield from judge_program(one, role)
        yield from judge_tests(one, role, one.tasks_per_node or least_tasks(one))


def unknown_parts(one: Submission) -> Iterator[Unjudged]:
    """Yield what of the commands of a submission is not known."""
    is_agent = one.roles[0].command.program in NUMBERED and one.node_range is None
    if one.is_step and is_agent and one.nodes is None and one.starts() is None:
        yield Unjudged(one.span, "the file does not say the number of nodes")
    for role in one.roles:
        command = role.command
        unknown = [
            setting.said
            for name, setting in command.options.items()
            if name in JUDGED and _is_unknown(name, setting.text)
        ]
        for reason in command.unjudged:
            yield Unjudged(command.span, reason)
        is_said = command.unjudged or UNREAD in command.options
        is_lost = not command.is_whole and not is_said and one.is_script
        if unknown or (is_lost and command.program):
            listed = ", ".join(unknown) or "some of its options"
            yield Unjudged(command.span, f"the file does not say the value of {listed}")
        elif is_lost:
            yield Unjudged(command.span, "the program is not in the file")


def _is_unknown(name: str, text: str) -> bool:
    """Whether the file does not say the value of an option."""
    is_counted = shell_marks.EACH_NODE in text and not name.endswith(
        ("port", "endpoint")
    )
    return shell_marks.UNKNOWN in text or is_counted


_WHY_LOST: Final = {
    shell_marks.NOT_EXPORTED: (
        "is empty in the tasks, because the script does not export it"
    ),
    shell_marks.NOT_PASSED: "is empty in the tasks, because --export does not name it",
    shell_marks.NOT_ASKED: "is empty: Slurm sets it only with --{option}",
}


def _judge_lost(role: Role) -> Iterator[Finding]:
    """Report variables that a task expands and does not have."""
    command = role.command
    given = [*command.options.values(), *role.variables.values()]
    given += [
        Setting(word, shell_marks.shown(word), command.span) for word in command.script
    ]
    told: set[str] = set()
    for mark, why in _WHY_LOST.items():
        for setting in given:
            at = setting.text.find(mark)
            name = "" if at < 0 else re.findall(r"\w+", setting.text[at + 1 :])[0]
            if not name or name in told:
                continue
            told.add(name)
            is_certain = mark == shell_marks.NOT_PASSED
            option = name.removeprefix("SLURM_").lower().replace("_", "-")
            hints = {
                shell_marks.NOT_PASSED: "srun --export=ALL",
                shell_marks.NOT_ASKED: f"add #SBATCH --{option}"
                + ", or use SLURM_GPUS_ON_NODE" * name.startswith("SLURM_GPUS"),
            }
            yield rules.NO_EFFECT.finding(
                setting.span,
                f"${name} ({setting.said}) {why.format(option=option)}",
                hint=hints.get(mark, f"export {name}"),
                severity=Severity.ERROR if is_certain else None,
            )


def _judge_words(role: Role) -> Iterator[Finding]:
    """Report a program in the place of the script, and options that are lost."""
    command = role.command
    for stray in command.stray:
        yield rules.stray_option(stray.span, stray.said)
    script, options = command.script, command.options.keys()
    if command.program == OWN_TORCHRUN:
        yield rules.NO_SCRIPT.finding(
            command.span,
            "python runs a file torchrun of the working folder, not the program",
            hint="leave python out, or write python -m torch.distributed.run",
        )
    is_launched = command.program in (*AGENTS, "deepspeed")
    if not is_launched or not command.is_whole:
        return
    if not script and command.program == "torchrun":
        yield rules.NO_SCRIPT.finding(
            command.span,
            "torchrun is given no script, and refuses to start",
            hint="name the script behind the options",
        )
    word = next(iter(script), "").removeprefix(f"{shell_marks.UNKNOWN}/")
    if _PROGRAM.fullmatch(word) and not {"no-python", "module"} & options:
        yield rules.NO_SCRIPT.finding(
            command.span,
            f"{command.program} starts python with the file {word} as its script, not "
            f"the program {word}",
            hint=f"leave {word} out, or add "
            + ("--no-python" if command.program == "torchrun" else "--no_python"),
        )


def _judge_options(one: Submission, role: Role) -> Iterator[Finding]:
    """Report options and values that torchrun refuses; plugins may add values.

    Source: pytorch/pytorch, torch/distributed/run.py; tried with 2.13.
    """
    command, each = role.command, processes_per_start(one, role)
    if command.program == "torchrun" and each is not None and each.value == 0:
        yield rules.REFUSED.finding(
            each.span,
            f"{each.said}: torchrun needs at least 1 process",
            hint="write the number of chips of a node",
        )
    unread = command.options.get(UNREAD)
    if unread is not None:
        yield rules.REFUSED.finding(
            unread.span,
            f"torchrun has no option {unread.said}, and refuses it",
            severity=Severity.WARNING,
        )
    nodes = role.option("nnodes")
    least, sign, most = nodes.text.partition(":") if nodes else ("", "", "")
    fewest, ends = shell.plain_number(least) or 0, shell.plain_number(most)
    if nodes and sign and ends is not None and fewest > ends:
        yield rules.REFUSED.finding(
            nodes.span or command.span,
            f"{nodes.said}: the most nodes are fewer than the fewest, so "
            f"{command.program} refuses them",
            hint="write the smaller number first",
        )
    is_agent = command.program in AGENTS and "standalone" not in command.options
    for name, (form, takes) in _VALUES.items() if is_agent else ():
        given = role.option(name)
        is_word = given is not None and _WORD.fullmatch(given.text)
        if given is not None and is_word and not re.fullmatch(form, given.text):
            yield rules.REFUSED.finding(
                given.span,
                f"{given.said}: {command.program} takes {takes}, and refuses others "
                "if no plugin adds them",
                severity=Severity.WARNING,
            )


def _judge_script_options(role: Role) -> Iterator[Finding]:
    for behind in role.command.script_options:
        if role.option(behind.text) is None:
            yield rules.NO_EFFECT.finding(
                behind.span,
                f"{behind.said} is behind the script, so torchrun gives it to the "
                "script "
                "and uses its default",
                hint="move it before the script",
                severity=Severity.ERROR,
            )
