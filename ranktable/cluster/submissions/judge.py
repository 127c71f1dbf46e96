"""Judge submissions: nodes, processes and chips, names and ports, ranks and sizes.

Only what is certain from the file is an error. What depends on the program, on the
cluster or on options of the command line is a warning.

Sources: pytorch/pytorch, torch/distributed/run.py and the elastic rendezvous;
huggingface/accelerate, utils/launch.py; microsoft/DeepSpeed, launcher/runner.py.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions import shell
from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.launch_options import JUDGED
from ranktable.cluster.submissions.submission import Fact, Setting, Unjudged
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.cluster.submissions.submission import Role, Submission
    from ranktable.schema.finding import Finding

_AGENTS: Final = ("torchrun", "accelerate")
_LOOPBACK: Final = re.compile(
    r"(?i)localhost(?:\.localdomain)?|127(?:\.\d{1,3}){3}|\[?::1\]?|0\.0\.0\.0"
)
_PROGRAM: Final = re.compile(r"python[0-9.]*|bash|sh|torchrun|accelerate|deepspeed")
_MAX_PORT: Final = 65535
_WHOLE_NODE: Final = 4
"""A job with so many chips of a node usually has the node for itself."""
_INSTANCE: Final = re.compile(r"\bmig-|\b[0-9]g\.[0-9]+gb|_[0-9]g\.[0-9]+gb")
_MEGATRON: Final = (
    *("tensor-model-parallel-size", "pipeline-model-parallel-size"),
    "context-parallel-size",
)
_ONE_TASK: Final = (
    "start one on each node: #SBATCH --ntasks-per-node=1, or "
    "srun -n $SLURM_NNODES --ntasks-per-node=1"
)
_FIRST_HOST: Final = (
    "compute it in the script: "
    "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
)
_BOTH: Final = "--rdzv_backend c10d --rdzv_endpoint HOST:PORT"


class Range(NamedTuple):
    """How many agents a launcher expects."""

    least: int
    most: int
    said: str


def judge(one: Submission) -> Iterator[Finding]:
    """Yield what is wrong with a submission."""
    for role in one.roles:
        yield from _judge_chips(one, role)
        yield from _judge_visible(one, role)
    role = one.roles[0]
    for group in _groups(one):
        yield from _judge_words(group.role)
        yield from _judge_script_options(group.role)
    yield from _judge_parallel(one, role)
    if role.command.program in _AGENTS:
        for group in _groups(one):
            yield from _judge_agents(one, group)
            yield from _judge_accelerate(group.role)
            yield from _judge_rank(group.role)
        yield from _judge_first_ranks(one)
    elif role.command.program == "mpirun":
        yield from _judge_mpirun(one, role)
    elif role.command.program == "deepspeed":
        yield from _judge_deepspeed(one, role)
    else:
        yield from _judge_program(one, role)


class Group(NamedTuple):
    """Roles that run the same command.

    Attributes:
        role: The first of them.
        starts: How often they start it, None if that is not known.
        is_first: Whether the first node of the job is among them.
        name: Their names for a message, empty if all roles run the same.
    """

    role: Role
    starts: int | None
    is_first: bool
    name: str


def _groups(one: Submission) -> list[Group]:
    """Return the roles of a submission, those with the same command together."""
    if len(one.roles) == 1:
        return [Group(one.roles[0], one.starts(), is_first=True, name="")]
    alike: list[list[Role]] = []
    for role in one.roles:
        same = next((roles for roles in alike if _is_alike(roles[0], role)), None)
        if same is None:
            alike.append([role])
        else:
            same.append(role)
    each = one.tasks_per_node
    found = []
    for roles in alike:
        nodes = [role.nodes.value for role in roles if role.nodes is not None]
        is_known = each is not None and len(nodes) == len(roles)
        starts = sum(nodes) * each.value if each is not None and is_known else None
        name = " and ".join(role.name for role in roles) if len(alike) > 1 else ""
        found.append(Group(roles[0], starts, one.roles[0] in roles, name))
    return found


def _is_alike(one: Role, other: Role) -> bool:
    """Whether two roles run the same command, with the same options of torchrun."""

    def texts(role: Role) -> object:
        given = role.variables.items()
        settings = {name: each.text for name, each in given if name.startswith("PET_")}
        settings |= {name: each.text for name, each in role.command.options.items()}
        return role.command.program, role.command.is_whole, settings

    return texts(one) == texts(other)


def unknown_parts(one: Submission) -> Iterator[Unjudged]:
    """Yield what of the commands of a submission is not known."""
    for role in one.roles:
        command = role.command
        unknown = [
            setting.said
            for name, setting in command.options.items()
            if name in JUDGED and shell.UNKNOWN in setting.text
        ]
        for reason in command.unjudged:
            yield Unjudged(command.span, reason)
        is_lost = not command.is_whole and not command.unjudged and one.is_script
        if unknown or (is_lost and command.program):
            listed = ", ".join(unknown) or "some of its options"
            yield Unjudged(command.span, f"the file does not say the value of {listed}")
        elif is_lost:
            yield Unjudged(command.span, "the program is not in the file")


# --- processes and chips


def processes_per_start(role: Role) -> Fact | None:
    """Return how many processes one start of the command makes, None if not known."""
    command = role.command
    if command.program == "torchrun":
        return _workers_of_agent(role)
    if command.program == "accelerate":
        total, machines = (_fact(role.option(n)) for n in ("num-processes", "nnodes"))
        if total is None or machines is None or machines.value == 0:
            return None
        return Fact(total.value // machines.value, total.said, total.span)
    if command.program == "deepspeed":
        return _fact(role.option("nproc-per-node"))
    is_one = command.program != "mpirun" and command.is_whole
    return Fact(1, "") if is_one else None


def _workers_of_agent(role: Role) -> Fact | None:
    given = role.option("nproc-per-node")
    if given is None:
        return Fact(1, "no --nproc-per-node") if role.command.is_whole else None
    if given.text in ("auto", "gpu") and role.chips is not None:
        seen = role.chips_per_task or role.chips
        return Fact(seen.value, given.said, given.span)
    return _fact(given)


def _fact(setting: Setting | None) -> Fact | None:
    value = None if setting is None else shell.plain_number(setting.text)
    return None if value is None else Fact(value, setting.said, setting.span)  # type: ignore[union-attr]


def _judge_chips(one: Submission, role: Role) -> Iterator[Finding]:
    """Compare the processes of a node with its chips."""
    each, tasks, chips = processes_per_start(role), one.tasks_per_node, role.chips
    if each is None:
        return
    seen = role.chips_per_task
    hint = "ask for the chips of the node: --gpus-per-node"
    if seen is None and (one.is_first_node_only or not one.is_script):
        seen, hint = _listed_chips(role), "let the list show a chip for each"
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
    if tasks is None or chips is None or chips.value == 0:
        return
    number = tasks.value * each.value
    is_launched = role.command.program in (*_AGENTS, "deepspeed")
    where = f"every {one.node}" + (f" of {role.name}" if role.name else "")
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
    elif number < chips.value and one.is_alone and (is_launched or number > 1):
        yield rules.IDLE_CHIPS.finding(
            span,
            f"{message}, and has {chips.value} chips ({chips.said})",
            hint=f"start {chips.value} processes, unless one process uses several "
            "chips",
        )
    elif (
        number < chips.value
        and one.is_step
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


def _judge_instances(role: Role) -> Iterator[Finding]:
    """Warn about several processes on instances of MIG: each process uses the first."""
    each, chips = processes_per_start(role), role.chips_per_task or role.chips
    if each is None or chips is None or not _INSTANCE.search(chips.said):
        return
    if each.value > 1 and chips.value > 1:
        yield rules.CHIPS_VISIBLE.finding(
            each.span or role.command.span,
            f"{each.value} processes ({each.said}) see {chips.value} instances of MIG "
            f"({chips.said}), and CUDA gives each process only the first",
            hint="give each process the UUID of its own in CUDA_VISIBLE_DEVICES",
        )


def _listed_chips(role: Role) -> Fact | None:
    """Return the chips of a list of numbers that a command is given, None if none is.

    Slurm gives the tasks of a step another list.
    """
    for name, setting in role.variables.items():
        numbers = setting.text.split(",")
        if name.endswith("VISIBLE_DEVICES") and all(map(str.isdecimal, numbers)):
            return Fact(len(set(numbers)), setting.said, setting.span)
    return None


def _judge_visible(one: Submission, role: Role) -> Iterator[Finding]:
    """Warn about tasks that see only a chip of their own, and about exported lists."""
    seen, tasks = role.chips_per_task, one.tasks_per_node or one.tasks
    several = tasks is not None and tasks.value > 1
    yield from _judge_instances(role)
    rank = role.variables.get("LOCAL_RANK")
    is_first = rank is not None and rank.text == "0"
    is_plain = role.command.program in ("", "python")
    if seen is not None and several and is_plain and not is_first:
        yield rules.CHIPS_VISIBLE.finding(
            seen.span or role.command.span,
            f"{seen.said} shows every task its own chips, numbered from 0; with local "
            "rank 1 and above a program that takes the chip of its local rank finds "
            "none",
            hint="ask for the chips of the node (--gpus-per-node), or add "
            "--tres-bind=gres/gpu:none",
        )
    for name, setting in role.variables.items() if one.is_script else ():
        text, chips = setting.text, role.chips
        if chips is None or not name.endswith("VISIBLE_DEVICES"):
            continue
        is_same = any(mark in text for mark in shell.IN_BATCH.values())
        is_of_task = one.is_step and setting.span == role.command.span
        if is_of_task and several and seen is None and (is_same or text.isdecimal()):
            yield rules.CHIPS_VISIBLE.finding(
                setting.span,
                f"{setting.said} gives all tasks of a node one chip",
                hint=f"let every task expand it: {name}=$SLURM_LOCALID",
                severity=Severity.ERROR,
            )
        elif not is_of_task and shell.IN_TASK["SLURM_LOCALID"] not in text:
            also = ", and is 0 in all tasks" if is_same else ""
            yield rules.CHIPS_VISIBLE.finding(
                setting.span,
                f"{setting.said} replaces the chips that Slurm gives the job "
                f"({chips.said}){also}",
                hint="delete the line",
                # Commands beside each other on one node may share its chips so.
                severity=None
                if one.is_alone or one.is_step or is_same
                else Severity.NOTE,
            )


# --- agents


def expected_agents(role: Role) -> Range | None:
    """Return how many agents a launcher expects, None if that is not known."""
    given = role.option("nnodes")
    if given is None:
        is_known = role.command.program == "torchrun" and role.command.is_whole
        return Range(1, 1, "no --nnodes") if is_known else None
    least, _, most = given.text.partition(":")
    ends = [shell.plain_number(text) for text in (least, most or least)]
    return None if None in ends else Range(ends[0] or 0, ends[1] or 0, given.said)


def _is_of_one_machine(role: Role) -> bool:
    """Whether accelerate is told of no other machine on its command line."""
    command = role.command
    is_told = {"nnodes", "node-rank", "config-file"} & command.options.keys()
    return command.program == "accelerate" and command.is_whole and not is_told


def _judge_agents(one: Submission, group: Group) -> Iterator[Finding]:
    role = group.role
    if role.command.program not in _AGENTS:
        return
    expected, starts = expected_agents(role), _agents(one)
    span = role.command.span
    if one.is_first_node_only:
        yield from _judge_without_srun(one, role, expected)
        return
    if starts is None or (starts == 1 and not one.is_alone):
        return
    is_alone = starts > 1 and (
        "standalone" in role.command.options
        or (expected is not None and expected.said == "no --nnodes")
    )
    if starts > 1 and _is_of_one_machine(role):
        yield rules.NODES_ALONE.finding(
            span,
            f"{_started(one, starts)}, and each is a job of its own, because no "
            "--num_machines means 1 if no configuration of accelerate says otherwise",
            hint=f"add --num_machines {starts} --machine_rank and --main_process_ip",
            severity=Severity.WARNING,
        )
        return
    if is_alone:
        standalone = role.command.options.get("standalone")
        why = (
            "no --nnodes means 1"
            if standalone is None
            else f"{standalone.said} is given"
        )
        yield rules.NODES_ALONE.finding(
            span,
            f"{_started(one, starts)}, and each is a job of its own, because {why}",
            hint=f"drop --standalone; add --nnodes {starts} {_BOTH}"
            if standalone
            else f"add --nnodes {starts} {_BOTH}",
        )
        return
    if (
        expected is not None
        and not expected.least <= starts <= expected.most
        and one.is_alone
    ):
        # The same script may be submitted for each node.
        is_part = starts == 1 and one.nodes == 1 and (one.job_nodes or 1) == 1
        yield rules.WRONG_AGENTS.finding(
            span,
            f"{_started(one, starts)}, each one agent of {role.command.program}, but "
            f"{expected.said} expects {_amount(expected)}",
            hint=_ONE_TASK if one.is_script and starts > expected.most else None,
            severity=Severity.WARNING if is_part else None,
        )
    if one.is_alone and starts > 1:
        yield from _judge_node_rank(one, group, starts)
    yield from _judge_meeting(one, group, starts)


def _agents(one: Submission) -> int | None:
    """Return how many agents a submission starts, None if that is not known."""
    groups = _groups(one)
    agents = [group for group in groups if group.role.command.program in _AGENTS]
    others = [group for group in groups if group not in agents]
    if not others:
        return one.starts()
    if any(not group.role.command.is_whole for group in others):
        return None
    starts = [group.starts for group in agents]
    return None if None in starts else sum(number or 0 for number in starts)


def _judge_without_srun(
    one: Submission, role: Role, expected: Range | None
) -> Iterator[Finding]:
    """Judge an agent that the batch script starts itself."""
    nodes = one.nodes
    if not one.is_alone or nodes is None or (expected is None and nodes == 1):
        return
    most = 0 if expected is None else expected.least
    message = "the batch script runs on the first node only"
    hint = "put srun before it, with one task on each node"
    if most > 1:
        said = "" if expected is None else expected.said
        yield rules.WRONG_AGENTS.finding(
            role.command.span,
            f"{message}, so one agent starts there, but {said} expects {most}",
            hint=hint,
            severity=None if nodes > 1 else Severity.WARNING,
        )
    elif nodes > 1:
        yield rules.WRONG_AGENTS.finding(
            role.command.span,
            f"{message}; the other {counted(nodes - 1, 'node')} of the job start "
            "nothing",
            hint=hint,
            severity=Severity.WARNING,
        )


def _started(one: Submission, starts: int) -> str:
    """Return what starts the agents, in words."""
    if not one.is_script:
        return f"the job has {counted(starts, one.node)}"
    said = one.tasks.said if one.tasks else ""
    return f"srun starts {counted(starts, 'task')}" + (f" ({said})" if said else "")


def _amount(expected: Range) -> str:
    if expected.least == expected.most:
        return str(expected.least)
    return f"{expected.least} to {expected.most}"


def _judge_node_rank(one: Submission, group: Group, starts: int) -> Iterator[Finding]:
    """Judge --node_rank: with static rendezvous every agent needs its own."""
    role = group.role
    given = role.command.options.get("node-rank")
    backend = role.option("rdzv-backend")
    if not _is_static(role):
        if given is not None and backend and shell.UNKNOWN not in backend.text:
            yield rules.NO_EFFECT.finding(
                given.span,
                f"{given.said} has no effect with {backend.said}: the agents are "
                "numbered as they join",
                hint="drop it, or use --master_addr and --master_port instead of "
                "--rdzv_*",
            )
        return
    number = group.starts if group.name else starts
    why = _same_rank(given, one) if _has_own_rank(one, role) else None
    if why and number is not None and number > 1:
        whose = f" of {group.name}" if group.name else ""
        yield rules.SAME_RANK.finding(
            role.command.span if given is None else given.span,
            f"all {number} agents{whose} have {why}",
            hint=_node_rank_hint(role, given),
        )


def _is_static(role: Role) -> bool:
    """Whether the agents of a role are numbered by --node_rank."""
    backend = role.option("rdzv-backend")
    return backend is None or backend.text == "static"


def _has_own_rank(one: Submission, role: Role) -> bool:
    """Whether the command of a role, or its absence there, decides the node rank."""
    if role.command.options.get("node-rank") is not None:
        return True
    if role.command.program == "accelerate" or one.kind == "PyTorchJob":
        return False  # in a file of settings; said by the reader of the kind
    known = {*role.variables, *role.counted}
    return role.command.is_whole and "PET_NODE_RANK" not in known


def _judge_first_ranks(one: Submission) -> Iterator[Finding]:
    """Report roles of one pod each that have the same node rank."""
    first: dict[str, Group] = {}
    for group in _groups(one):
        role = group.role
        given = role.command.options.get("node-rank")
        text = "0" if given is None else given.text
        is_certain = (
            role.command.program in _AGENTS
            and _is_static(role)
            and _has_own_rank(one, role)
            and text.isdecimal()
            and group.starts == 1
        )
        if not is_certain:
            continue
        other = first.setdefault(text, group)
        if other is not group:
            yield rules.SAME_RANK.finding(
                role.command.span if given is None else given.span,
                f"{group.name} has node rank {text}, as {other.name} has",
                hint=f"give {group.name} another one",
            )


def _judge_rank(role: Role) -> Iterator[Finding]:
    """Report a node rank that no agent can have."""
    given, expected = role.command.options.get("node-rank"), expected_agents(role)
    if given is None or expected is None or not _is_static(role):
        return
    if shell.OWN_HOST in given.text:
        message = f"{given.said} is a name, and a node rank is a number"
    elif (shell.plain_number(given.text) or 0) >= max(expected.most, 1):
        last = max(expected.most, 1) - 1
        message = f"{given.said}: node ranks go from 0 to {last} ({expected.said})"
    else:
        return
    yield rules.SAME_RANK.finding(given.span, message)


def _same_rank(given: Setting | None, one: Submission) -> str | None:
    """Return why all agents have the same node rank, None if they have not."""
    if given is None:
        return (
            "node rank 0, because --node_rank is not given and the rendezvous is static"
        )
    for name, mark in shell.IN_BATCH.items():
        if mark in given.text:
            return f"node rank 0: the batch script expands ${name}, not the task"
    each = one.tasks_per_node
    if (
        shell.IN_TASK["SLURM_LOCALID"] == given.text
        and each is not None
        and each.value == 1
    ):
        return "node rank 0: $SLURM_LOCALID counts the tasks of a node"
    if given.text.isdigit():
        return f"the same node rank ({given.said})"
    return None


def _node_rank_hint(role: Role, given: Setting | None) -> str:
    if given is None:
        return (
            f"add {_BOTH}"
            if "rdzv-endpoint" not in role.command.options
            else "add --rdzv_backend c10d"
        )
    return (
        "let every task expand it, in single quotes: srun bash -c 'torchrun "
        "--node_rank $SLURM_NODEID ...'"
    )


def _judge_meeting(one: Submission, group: Group, starts: int) -> Iterator[Finding]:
    """Judge the address, the port and the id at which the agents meet."""
    role = group.role
    # The first node may call itself by a name that means another one elsewhere.
    is_first_alone = bool(group.name) and group.is_first and group.starts == 1
    if (one.nodes or 1) > 1 and starts > 1:
        yield from _judge_id(role)
        if not is_first_alone:
            yield from _judge_missing_address(role)
    endpoint = role.option("rdzv-endpoint")
    if endpoint is not None:
        host, _, text = endpoint.text.rpartition(":")
        address: Setting | None = endpoint._replace(text=host or endpoint.text)
        port: Setting | None = endpoint._replace(text=text if host else "")
    else:
        address, port = role.option("master-addr"), role.option("master-port")
    if address is not None and not is_first_alone:
        yield from _judge_address(one, address)
    if port is not None:
        yield from _judge_port(one, port)


def _judge_id(role: Role) -> Iterator[Finding]:
    given = role.option("rdzv-id")
    if given is not None and shell.RANDOM in given.text:
        yield rules.NODES_ALONE.finding(
            given.span,
            f"every node draws its own {given.said}, so the agents do not meet",
            hint="use one value: --rdzv_id $SLURM_JOB_ID",
        )


def _judge_missing_address(role: Role) -> Iterator[Finding]:
    """Report agents that connect to themselves, because no address is given."""
    names = ("rdzv-endpoint", "master-addr", "rdzv-conf")
    expected = expected_agents(role)
    if any(role.option(name) for name in names) or not role.command.is_whole:
        return
    if role.command.program != "torchrun" or expected is None or expected.most < 2:
        return
    backend = role.option("rdzv-backend")
    is_static = backend is None or backend.text == "static"
    if (
        is_static
        and role.option("node-rank") is None
        and "PET_NODE_RANK" not in role.counted
    ):
        return  # said already
    if is_static or backend is None or backend.text == "c10d":
        default = "127.0.0.1" if is_static else "localhost"
        option = "--master_addr" if is_static else "--rdzv_endpoint"
        yield rules.NODES_ALONE.finding(
            role.command.span,
            f"{option} is not given, so every agent connects to {default}, itself",
            hint=f"add {option} with the first node; " + _FIRST_HOST,
        )


def _judge_address(one: Submission, given: Setting) -> Iterator[Finding]:
    """Judge the address of the rendezvous of several nodes."""
    if (one.nodes or 1) < 2:
        return
    text = given.text
    if _LOOPBACK.fullmatch(text):
        yield rules.MASTER_ADDRESS.finding(
            given.span,
            f"{given.said} is another machine on each of the {one.nodes} {one.node}s",
            hint=_FIRST_HOST if one.is_script else "name the first pod",
        )
    elif shell.OWN_HOST in text:
        yield rules.NODES_ALONE.finding(
            given.span,
            f"{given.said} is computed by every node, so each one meets itself",
            hint=_FIRST_HOST + ", before srun",
        )
    for mark, why in _DOUBTFUL_ADDRESSES.items():
        if mark in text:
            yield rules.MASTER_ADDRESS.finding(
                given.span,
                f"{given.said}: {why}",
                hint=_FIRST_HOST,
                severity=Severity.WARNING,
            )


_DOUBTFUL_ADDRESSES: Final = {
    shell.LAUNCH_NODE: "this is where srun ran, with salloc often a login node",
    shell.CUT_LIST: "a list such as n[01-02] is cut here, which gives no host",
    shell.OR_LOCALHOST: "without scontrol, as in many images, it is localhost",
}


def _judge_port(one: Submission, given: Setting) -> Iterator[Finding]:
    port = shell.plain_number(given.text)
    hint = "compute it from the job: $((20000 + SLURM_JOB_ID % 10000))"
    if shell.JOB_SUM in given.text:
        yield rules.MASTER_PORT.finding(
            given.span,
            f"{given.said} is above {_MAX_PORT} for large numbers of jobs",
            hint=hint,
            severity=Severity.WARNING,
        )
    elif port is not None and not 1 <= port <= _MAX_PORT:
        yield rules.MASTER_PORT.finding(
            given.span, f"{given.said}: a port is between 1 and {_MAX_PORT}"
        )
    elif port is not None and one.is_script and one.is_shared:
        chips = [role.chips.value for role in one.roles if role.chips is not None]
        if chips and max(chips) >= _WHOLE_NODE and not one.is_array:
            return
        other = "another element of the array" if one.is_array else "another job"
        yield rules.MASTER_PORT.finding(
            given.span,
            f"{given.said} is taken if {other} on the node uses it too; the job does "
            "not ask for whole nodes (--exclusive)",
            hint=hint,
            severity=Severity.WARNING if one.is_array else Severity.NOTE,
        )


# --- other programs


def _judge_words(role: Role) -> Iterator[Finding]:
    """Report a program in the place of the script, and options that are lost."""
    command = role.command
    for stray in command.stray:
        yield rules.stray_option(stray.span, stray.said)
    is_launched = command.program in (*_AGENTS, "deepspeed")
    if not is_launched or not command.is_whole or not command.script:
        return
    word = command.script[0]
    if _PROGRAM.fullmatch(word) and not {"no-python", "module"} & {*command.options}:
        yield rules.NO_SCRIPT.finding(
            command.span,
            f"{command.program} starts python with the file {word} as its script, not "
            f"the program {word}",
            hint=f"leave {word} out, or add "
            + ("--no-python" if command.program == "torchrun" else "--no_python"),
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


def _judge_parallel(one: Submission, role: Role) -> Iterator[Finding]:
    """Compare the sizes of Megatron's groups with the number of processes."""
    each, starts = processes_per_start(role), one.starts()
    sizes = parallel_sizes(role.command.script, _MEGATRON)
    if each is None or starts is None or not sizes or len(one.roles) > 1:
        return
    product, world = prod(sizes.values()), starts * each.value
    if product and world % product:
        listed = " x ".join(f"--{name} {size}" for name, size in sizes.items())
        yield rules.WRONG_SIZE.finding(
            role.command.span,
            f"{listed} needs a multiple of {counted(product, 'process', 'processes')}, "
            f"but {world} are started",
            hint="change the sizes, or the number of nodes",
        )


def parallel_sizes(words: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Return the literal sizes of parallel groups; none if one is not literal."""
    sizes = {}
    for at, word in enumerate(words):
        name, sign, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not word.startswith("-") or name not in names:
            continue
        text = value if sign else next(iter(words[at + 1 : at + 2]), "")
        size = shell.plain_number(text)
        if size is None:
            return {}
        sizes[name] = size
    return sizes


def _judge_accelerate(role: Role) -> Iterator[Finding]:
    total, machines = (_fact(role.option(n)) for n in ("num-processes", "nnodes"))
    if role.command.program != "accelerate" or total is None or machines is None:
        return
    if machines.value and total.value % machines.value:
        each = total.value // machines.value
        yield rules.WRONG_SIZE.finding(
            total.span,
            f"{total.said} on {machines.value} machines: accelerate starts {each} on "
            f"each, {each * machines.value} in all",
            hint="--num_processes is the number of all machines together",
        )


def _judge_mpirun(one: Submission, role: Role) -> Iterator[Finding]:
    count, slots = _fact(role.option("np")), one.slots
    is_told = role.option("hostfile") is not None  # the slots are in that file
    if is_told:
        return
    if count is not None and slots is not None and count.value != slots.value:
        is_more = count.value > slots.value
        if is_more and "oversubscribe" in role.command.options:
            return
        verb = "more" if is_more else "fewer"
        yield rules.WRONG_AGENTS.finding(
            count.span,
            f"mpirun starts {count.value} processes ({count.said}), {verb} than the "
            f"{slots.value} slots of the job ({slots.said})",
            hint=f"write {slots.value}, or leave it out",
            severity=None if is_more and not one.is_script else Severity.WARNING,
        )
    hosts = role.option("host")
    if hosts is not None and one.is_script:
        yield rules.NO_EFFECT.finding(
            hosts.span,
            f"{hosts.said} names hosts by hand; the job may have others",
            hint="leave it out: mpirun takes the nodes of the job",
        )


def _judge_deepspeed(one: Submission, role: Role) -> Iterator[Finding]:
    starts, chosen, chips = one.starts(), role.option("include"), role.chips
    slots = re.findall(r"[:,]([0-9]{1,6})(?=[,@]|$)", chosen.text if chosen else "")
    if chosen and chips and max(map(int, slots), default=0) >= chips.value:
        yield rules.MORE_THAN_CHIPS.finding(
            chosen.span,
            f"{chosen.said} names slot {max(map(int, slots))}, but a node has "
            f"{counted(chips.value, 'chip')} ({chips.said}), numbered from 0",
            hint="the numbers are those of the chips that the job sees",
        )
    if one.is_first_node_only or starts is None or starts < 2:
        return
    if "launcher" not in role.command.options and one.is_script:
        yield rules.WRONG_AGENTS.finding(
            role.command.span,
            f"{_started(one, starts)}, and each is a deepspeed that starts the whole "
            "job "
            "with ssh",
            hint="start deepspeed once, without srun, or use torchrun",
            severity=Severity.WARNING,
        )


def _judge_program(one: Submission, role: Role) -> Iterator[Finding]:
    """Judge a program that takes its rank from variables."""
    starts = one.starts()
    if one.is_first_node_only:
        yield from _judge_without_srun(one, role, None)
        return
    if starts is None:
        return
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK"):
        yield from _judge_expanded(name, one, role, starts)
    yield from _judge_counter(one, role, starts)
    yield from _judge_world_size(one, role, starts)
    for name, judge_setting in (
        ("MASTER_ADDR", _judge_address),
        ("MASTER_PORT", _judge_port),
    ):
        if name in role.variables and starts > 1 and one.is_script:
            yield from judge_setting(one, role.variables[name])


def _judge_expanded(
    name: str, one: Submission, role: Role, starts: int
) -> Iterator[Finding]:
    setting = role.variables.get(name)
    marks = (
        []
        if setting is None
        else [m for m in shell.IN_BATCH.values() if m in setting.text]
    )
    if len(one.roles) > 1:
        starts = role.nodes.value if role.nodes else 1  # others have their own
    number = starts if name != "NODE_RANK" else min(starts, one.nodes or 1)
    is_fixed = setting is not None and setting.text.isdecimal()
    if setting is not None and is_fixed and name != "LOCAL_RANK" and number > 1:
        yield rules.SAME_RANK.finding(
            setting.span,
            f"{setting.said} is the same in all {starts} tasks",
            hint="delete it, or let every task set it: srun bash -c 'export "
            f"{name}=$SLURM_PROCID; ...'",
        )
    if setting is not None and marks and number > 1:
        yield rules.SAME_RANK.finding(
            setting.span,
            f"{setting.said} is expanded by the batch script, so it is 0 in all "
            f"{starts} tasks",
            hint=f"srun bash -c '{shell.shown(setting.said)} python ...', in single "
            "quotes",
        )


def _judge_counter(one: Submission, role: Role, starts: int) -> Iterator[Finding]:
    """Report a rank that is counted by what begins again or stands still."""
    setting, nodes = role.variables.get("RANK"), one.nodes or 1
    if setting is None:
        return
    if setting.text == shell.IN_TASK["SLURM_LOCALID"] and nodes > 1:
        why = f"counts the tasks of each of {nodes} nodes from 0"
    elif setting.text == shell.IN_TASK["SLURM_NODEID"] and starts > nodes:
        why = f"is the same in all tasks of a node, and there are {starts} on {nodes}"
    else:
        return
    yield rules.SAME_RANK.finding(
        setting.span,
        f"{shell.shown(setting.said)} {why}",
        hint="the number of a task in the job is $SLURM_PROCID",
    )


def _judge_world_size(one: Submission, role: Role, starts: int) -> Iterator[Finding]:
    """Compare WORLD_SIZE with the processes that are started."""
    setting = role.variables.get("WORLD_SIZE")
    size = _fact(setting)
    if setting is None or size is None or size.value == starts:
        return
    is_own = one.is_script or setting.span is not None  # not that of an operator
    if role.command.program != "python" or (is_own and len(one.roles) > 1):
        return  # some of the roles may be a world of their own
    each = one.tasks_per_node
    if one.is_script and size.value > starts and (each is None or each.value == 1):
        return  # the program may start the others itself
    yield rules.WRONG_SIZE.finding(
        setting.span or role.command.span,
        f"WORLD_SIZE is {size.value} ({setting.said}), but "
        f"{counted(starts, 'process is', 'processes are')} started",
        hint="export WORLD_SIZE=$SLURM_NTASKS"
        if one.is_script
        else "start torchrun in every pod",
    )
