"""How many agents a launcher expects, and how many processes one start of it makes.

Sources: pytorch/pytorch, torch/distributed/run.py; huggingface/accelerate,
utils/launch.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ranktable.cluster.submissions import shell
from ranktable.cluster.submissions.submission import (
    Fact,
    Range,
    Role,
    Setting,
    Submission,
)
from ranktable.schema.text import counted

AGENTS: Final = ("torchrun", "accelerate")
SERVERS: Final = ("sglang", "vllm")
NUMBERED: Final = (*AGENTS, *SERVERS)
"""Programs that are started once on every node, with the number of the node."""


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


def groups_of(one: Submission) -> list[Group]:
    """Return the roles of a submission, those with the same command together."""
    if len(one.roles) == 1:
        return [Group(one.roles[0], one.starts(), is_first=True, name="")]
    found_alike: dict[object, list[Role]] = {}
    for role in one.roles:
        found_alike.setdefault(_command_of(role), []).append(role)
    alike = list(found_alike.values())
    each = one.tasks_per_node
    found = []
    for roles in alike:
        nodes = [role.nodes.value for role in roles if role.nodes is not None]
        is_known = each is not None and len(nodes) == len(roles)
        starts = sum(nodes) * each.value if each is not None and is_known else None
        name = " and ".join(role.name for role in roles) if len(alike) > 1 else ""
        found.append(Group(roles[0], starts, one.roles[0] in roles, name))
    return found


def _command_of(role: Role) -> object:
    """Return the command of a role, with its options of torchrun, to compare roles."""
    given = role.variables.items()
    settings = {name: each.text for name, each in given if name.startswith("PET_")}
    settings |= {name: each.text for name, each in role.command.options.items()}
    texts = tuple(sorted(settings.items()))
    return role.command.program, role.command.is_whole, texts


def processes_per_start(one: Submission, role: Role) -> Fact | None:
    """Return how many processes one start of the command makes, None if not known."""
    command = role.command
    if command.program == "torchrun":
        return _workers_of_agent(one, role)
    if command.program == "accelerate":
        if "no-gpu" in command.options:
            return None  # processes on CPUs
        total, machines = (fact_of(role.option(n)) for n in ("num-processes", "nnodes"))
        is_plain = command.is_whole and not {"nnodes", "config-file"} & {
            *command.options
        }
        if machines is None and is_plain and one.nodes == 1:
            machines = Fact(1, "no --num_machines")
        if total is None or machines is None or machines.value == 0:
            return None
        return Fact(total.value // machines.value, total.said, total.span)
    if command.program == "deepspeed":
        return fact_of(role.option("nproc-per-node"))
    is_one = command.program not in ("mpirun", *SERVERS) and command.is_whole
    return Fact(1, "") if is_one else None


def _workers_of_agent(one: Submission, role: Role) -> Fact | None:
    given = role.option("nproc-per-node")
    if given is None:
        return Fact(1, "no --nproc-per-node") if role.command.is_whole else None
    if given.text in ("auto", "gpu") and role.chips is not None:
        seen = role.chips_per_task or role.chips
        shown = listed_chips(one, role)  # torch counts those of the list only
        if shown is None or shown.value >= seen.value:
            return Fact(seen.value, given.said, given.span)
        return Fact(shown.value, f"{given.said}, {shown.said}", given.span)
    return fact_of(given)


def listed_chips(one: Submission, role: Role) -> Fact | None:
    """Return the chips of a list of numbers that a command is given, None if none is.

    Slurm gives the tasks of a step another list; accelerate gives its own one.
    """
    given = role.command.options.get("gpu-ids")
    lists = [] if given is None else [given]
    for name, setting in role.variables.items():
        if not name.endswith("VISIBLE_DEVICES"):
            continue
        if not one.is_step or reaches_task(name, setting, role):
            lists.append(setting)
    for setting in lists:
        numbers = setting.text.split(",")
        if all(map(str.isdecimal, numbers)):
            return Fact(len(set(numbers)), setting.said, setting.span)
    return None


def reaches_task(name: str, setting: Setting, role: Role) -> bool:
    """Whether a list of chips is that of a task, not one that Slurm replaces.

    Slurm 22.05 gave the tasks of a step with chips the lists of CUDA and ROCm again,
    whatever the batch script had exported.
    """
    of_slurm = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    return name not in of_slurm or setting.span == role.command.span


def fact_of(setting: Setting | None) -> Fact | None:
    """Return the number that an option or a variable gives, None if there is none."""
    value = None if setting is None else shell.plain_number(setting.text)
    return None if value is None else Fact(value, setting.said, setting.span)  # type: ignore[union-attr]


def expected_agents(role: Role) -> Range | None:
    """Return how many agents a launcher expects, None if that is not known."""
    given = role.option("nnodes")
    if given is None:
        is_known = role.command.program == "torchrun" and role.command.is_whole
        return Range(1, 1, "no --nnodes") if is_known else None
    least, _, most = given.text.partition(":")
    ends = [shell.plain_number(text) for text in (least, most or least)]
    found = Range(ends[0] or 0, ends[1] or 0, given.said)
    return None if None in ends or found.least > found.most else found


def started(one: Submission, starts: int) -> str:
    """Return what starts the agents, in words."""
    if not one.is_script:
        return f"the job has {counted(starts, one.node)}"
    said = f" ({one.tasks.said})" if one.tasks and one.tasks.said else ""
    return f"{one.starter} starts {counted(starts, 'task')}{said}"


def is_static(role: Role) -> bool:
    """Whether the agents of a role are numbered by --node_rank."""
    backend = role.option("rdzv-backend")
    return backend is None or backend.text == "static"
