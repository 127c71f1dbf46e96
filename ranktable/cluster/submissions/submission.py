"""A submission: how many processes a file starts, where, with which command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.schema.document import SourceSpan
    from ranktable.schema.finding import Finding, Rule


class Fact(NamedTuple):
    """A number of a file.

    Attributes:
        value: The number.
        said: How the file says it, for messages: ``--ntasks=4``.
        span: Where.
    """

    value: int
    said: str
    span: SourceSpan | None = None


class Range(NamedTuple):
    """How many nodes or agents there may be, and how the file says it."""

    least: int
    most: int
    said: str


class Setting(NamedTuple):
    """The text of an option or a variable; marks stand for what is not known.

    Attributes:
        text: Its value.
        said: How the file says it, for messages: ``--node_rank $SLURM_NODEID``.
        span: Where.
    """

    text: str
    said: str
    span: SourceSpan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """The command that every task or pod runs.

    Attributes:
        program: ``torchrun``, ``accelerate``, ``deepspeed``, ``mpirun``, ``python``, or
            empty if it is another one.
        span: Where it is.
        options: Options of the program by torchrun's names, with hyphens.
        script_options: Options of torchrun that stand behind its script.
        script: The script and its arguments.
        is_whole: Whether all of its options are known.
        unjudged: Why parts of it are not judged.
        stray: Options behind it that begin a command of their own.
        given: Variables that its options give the processes of an mpirun.
        only_looks: Whether it is no process of the job, as ``hostname``.
        is_wrapped: Whether a script that may set every variable starts the program.
        passed: Names of variables that an mpirun passes to its processes for certain;
            None if it passes all.
    """

    program: str = ""
    span: SourceSpan | None = None
    options: Mapping[str, Setting] = field(default_factory=dict)
    script_options: tuple[Setting, ...] = ()
    script: tuple[str, ...] = ()
    is_whole: bool = True
    unjudged: tuple[str, ...] = ()
    stray: tuple[Setting, ...] = ()
    given: Mapping[str, Setting] = field(default_factory=dict)
    only_looks: bool = False
    is_wrapped: bool = False
    passed: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Nodes or pods that are alike.

    Attributes:
        name: Its name; empty if there is one role only.
        nodes: Number of nodes or pods.
        chips: Chips of each.
        lacks_chips: Whether a pod certainly asks for none, in no other way either.
        chips_per_task: Chips that one task sees, if it does not see those of its node.
        tasks_per_chip: How many tasks of a node are bound to one same chip.
        near: What shows each task the chips near its processors, if something does.
        command: What is started there.
        variables: What a task or pod finds in its environment.
        counted: Variables that count the nodes of this role, and their first values.
        per_job: After how many nodes they begin again, None if they never do.
    """

    name: str = ""
    nodes: Fact | None = None
    chips: Fact | None = None
    lacks_chips: bool = False
    chips_per_task: Fact | None = None
    tasks_per_chip: int = 1
    near: Setting | None = None
    command: LaunchCommand = field(default_factory=LaunchCommand)
    variables: Mapping[str, Setting] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)
    per_job: int | None = None

    def option(self, name: str) -> Setting | None:
        """Return an option of torchrun: as written, or from its PET_* variable."""
        given = self.command.options.get(name)
        if given is not None or self.command.program != "torchrun":
            return given
        return self.variables.get(f"PET_{name.upper().replace('-', '_')}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job, or one step of a job.

    Attributes:
        kind: ``sbatch``, ``PyTorchJob`` and so on.
        name: Its name, empty if it has none.
        span: The place of what starts it.
        roles: What it consists of.
        tasks_per_node: How often the command of a role is started on a node.
        tasks: How often in all, if that is known.
        slots: Most processes that an mpirun in it starts by itself.
        node: What a node is called: ``node`` or ``pod``.
        is_alone: Whether other commands of the job start processes beside these.
        beside: Number of those that run in the background together, None if alone.
        is_first_node_only: Whether a batch script starts it, on its first node.
        starter: What starts the tasks of a script: ``srun`` or ``mpirun``.
        is_shared: Whether other jobs may use the same nodes.
        is_array: Whether the job is submitted many times.
        host: The hosts that a step names, empty if it names none.
        job_nodes: Number of nodes of the job of a step, None if it is not known.
        tables: Texts of the rank tables of the same file that its pods mount.
        all_chips: Chips of all nodes together, if they are given so.
        node_range: Fewest and most nodes of a step with one task on each.
        is_in_order: Whether the first node of the job has its first tasks.
    """

    kind: str
    name: str = ""
    span: SourceSpan | None = None
    roles: tuple[Role, ...] = ()
    tasks_per_node: Fact | None = None
    tasks: Fact | None = None
    slots: Fact | None = None
    node: str = "node"
    is_alone: bool = True
    beside: int | None = None
    is_first_node_only: bool = False
    starter: str = "srun"
    is_shared: bool = False
    is_array: bool = False
    host: str = ""
    job_nodes: int | None = None
    tables: tuple[str, ...] = ()
    all_chips: Fact | None = None
    node_range: Range | None = None
    is_in_order: bool = False

    @property
    def nodes(self) -> int | None:
        """Number of nodes or pods, None if it is not known."""
        counts = [role.nodes for role in self.roles]
        return sum(c.value for c in counts if c) if all(counts) and counts else None

    def starts(self) -> int | None:
        """Return how often the command is started in all, None if it is not known."""
        if self.tasks is not None:
            return self.tasks.value
        nodes, each = self.nodes, self.tasks_per_node
        return None if nodes is None or each is None else nodes * each.value

    @property
    def is_script(self) -> bool:
        """Whether a batch script starts it, and not an operator."""
        return self.kind == "sbatch"

    @property
    def is_step(self) -> bool:
        """Whether srun starts its tasks."""
        is_srun = self.starter == "srun" and not self.is_first_node_only
        return self.is_script and is_srun

    def by_node(self) -> Iterator[tuple[int, Role, int]]:
        """Yield the index of every node, its role, and its index in the role."""
        index = 0
        for role in self.roles:
            for within in range(role.nodes.value if role.nodes else 0):
                yield index, role, within
                index += 1


class Unjudged(NamedTuple):
    """A line that was not judged, and why."""

    span: SourceSpan | None
    reason: str


@dataclass(slots=True, kw_only=True)
class Script:
    """What is read of a batch script.

    Attributes:
        submissions: What its lines start.
        unjudged: Lines that are not judged.
        found: What is wrong with the script itself.
    """

    submissions: list[Submission] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    _left: set[Unjudged] = field(default_factory=set)

    def leave(self, span: SourceSpan | None, reason: str) -> None:
        """Note that a line is not judged; a loop may say so in every round."""
        one = Unjudged(span, reason)
        if one not in self._left:
            self.unjudged.append(one)
        self._left.add(one)

    def report(
        self, rule: Rule, span: SourceSpan | None, message: str, **options: Any
    ) -> None:
        """Add a finding of a rule; the options are those of ``Rule.finding``."""
        self.found.append(rule.finding(span, message, **options))
