"""Read the lines of a batch script that start tasks."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import AGENTS, fact_of
from ranktable.cluster.submissions.batch_job import NUMBERS, option_said, refuse_option
from ranktable.cluster.submissions.launch_options import (
    HARMLESS,
    SHELLS,
    Line,
    base,
    find_launch,
    is_shell_file,
    slurm_options,
)
from ranktable.cluster.submissions.pod_words import split_wrongly
from ranktable.cluster.submissions.script_variables import (
    VISIBLE,
    ScriptVariables,
    exported,
)
from ranktable.cluster.submissions.shell import (
    Scope,
    ShellCommand,
    is_assignment,
    plain_number,
)
from ranktable.cluster.submissions.shell_marks import (
    EMPTY,
    FIRST_HOST,
    IN_BATCH,
    IN_MPI,
    TASK_VARIABLES,
    UNKNOWN,
    has_marks,
    shown,
)
from ranktable.cluster.submissions.slurm_job import SlurmJob
from ranktable.cluster.submissions.step_size import step_size
from ranktable.cluster.submissions.submission import (
    Fact,
    Role,
    Script,
    Setting,
    Submission,
)
from ranktable.cluster.submissions.task_command import (
    LAUNCHERS,
    TaskCommand,
    is_read,
    task_command,
)
from ranktable.schema.document import SourceSpan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.submissions.batch_job import BatchJob
    from ranktable.cluster.submissions.submission import LaunchCommand

_REMOTE: Final = (
    *("ssh", "pdsh", "clush", "pssh", "dsh", "parallel", "xargs", "ray", "ibrun"),
)
_TILES: Final = "ZE_FLAT_DEVICE_HIERARCHY"
"""With FLAT the tiles of a card of Intel are devices of their own."""
_TELLS: Final = re.compile(r"\s*(?:import|from|print|assert)\b")
_STARTS: Final = re.compile(rf"{LAUNCHERS.pattern}|\b(?:ssh|bash|sh|python3?)\b")
_GIVEN: Final = re.compile(r"\b([A-Za-z_]\w*)=")
"""A variable that a line gives its tasks by an option, or that they set themselves."""


class StepReader:
    """Reads the lines of a batch script that start tasks.

    Attributes:
        script: What is read of the script.
        components: The components of the job; the batch script is in the first.
        part: The one that is read.
        variables: The variables of the script.
        has_remote: Whether a line starts processes that are not judged.
        has_unread: Whether a line may start processes that are not in the file.
    """

    def __init__(
        self, script: Script, components: Sequence[BatchJob], variables: ScriptVariables
    ) -> None:
        """Begin in the first component, whose variables the batch script has."""
        self.script, self.variables = script, variables
        self.part, *_ = self.components = components
        self.has_remote = self.has_unread = False
        self._told: set[SourceSpan | None] = set()

    def start(
        self,
        texts: list[str],
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> None:
        """Read a command that may start processes."""
        head = base(texts[0]) if texts else ""
        at = next((n for n, text in enumerate(texts) if base(text) == "srun"), 0)
        is_script = is_shell_file(head)  # srun may be a word for it
        if at and not (is_script or head in _REMOTE or find_launch(texts[:at])[0]):
            head, texts = "srun", texts[at:]  # timeout, nsys and others start it
        self._refuse_empty(texts, scope, span)
        if head == "srun":
            self._srun(texts[1:], scope, command, span)
        elif head == "xargs" and not _STARTS.search(" ".join(texts)):
            pass
        elif head in _REMOTE:
            self.has_remote = True
            self.script.leave(span, f"what {head} starts is not judged")
        elif head[:1] == UNKNOWN:
            self.has_unread = True
            self.script.leave(span, "its first word is not in the file")
        elif head not in HARMLESS and head:
            self._on_first_node(texts, scope, command, span)

    def _refuse_empty(
        self, texts: Sequence[str], scope: Scope, span: SourceSpan
    ) -> None:
        """Report variables of MPI's processes that the batch script expands."""
        text = " ".join(texts)
        found = {
            setting.span: setting.said
            for setting in self.variables.inherited(scope).values()
            if {*setting.text} & {*EMPTY.values()}
        }
        names = [f"${name}" for name, mark in EMPTY.items() if mark in text]
        found |= {span: " and ".join(names)} if names else {}
        for place, said in found.items() if LAUNCHERS.search(text) else ():
            if place not in self._told:
                self.script.report(
                    rules.SAME_RANK,
                    place,
                    f"{said} is expanded by the batch script, where it is empty",
                    hint="let every process expand it, in single quotes: "
                    "mpirun bash -c '...'",
                )
            self._told.add(place)

    def _on_first_node(
        self,
        texts: list[str],
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> None:
        """Read a command that the batch script itself runs, on the first node."""
        shell = texts if base(texts[0]) in SHELLS else ()
        if "-c" in shell and re.search(r"\bsrun\b", " ".join(texts)):
            self.has_remote = True
            self.script.leave(span, f"what {base(texts[0])} -c starts is not judged")
            return
        found = task_command(
            texts,
            scope.of_command(),
            self.variables.inherited(scope),
            span,
        )
        if found.command.only_looks:
            return
        if not found.command.program:
            if not (_is_builtin_test(texts) or _only_tells(texts)):
                self.has_unread = self.has_unread or bool(found.command.unjudged)
                first = f"what {shown(base(texts[0]))} starts is not in the file"
                for reason in found.command.unjudged or (first,):
                    self.script.leave(span, reason)
            return
        variables = found.variables
        if found.command.program == "mpirun":
            inner = self._of_mpirun(found, scope, command, span)
            if found.command.is_whole and inner.command.program in AGENTS:
                self._by_mpirun(found.command, inner, command)
                return
            first = base(next(iter(found.command.script), ""))
            is_python = inner.command.program == "python" and not is_shell_file(first)
            own = inner.variables if is_python else {}
            variables = {
                **{n: s for n, s in variables.items() if n.endswith(VISIBLE)},
                **{n: s for n, s in own.items() if not n.endswith(VISIBLE)},
            }
        role = Role(
            nodes=self.part.nodes,
            chips=self.part.chips,
            command=found.command,
            variables=variables,
        )
        one = Fact(1, "no srun")
        self._add([role], one, one, command, starter="")

    def _of_mpirun(
        self,
        outer: TaskCommand,
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> TaskCommand:
        """Return what an mpirun starts, and what its processes find for certain."""
        known = {
            **self.part.variables(None, None),
            **dict.fromkeys(TASK_VARIABLES, UNKNOWN),
        }
        inner = scope.of_task(known | IN_MPI)
        self._forget_given(inner, command)
        passed = outer.command.passed
        given = {n: s for n, s in outer.command.given.items() if is_read(n)}
        variables = {
            name: setting
            for name, setting in {**outer.variables, **given}.items()
            if passed is None
            or name in passed
            or name.endswith(VISIBLE)  # the processes of the first node have it
        }
        return task_command(outer.command.script, inner, variables, span)

    def _by_mpirun(
        self, outer: LaunchCommand, found: TaskCommand, command: ShellCommand
    ) -> None:
        """Add the agents that an mpirun starts."""
        is_told = "hostfile" in outer.options or "host" in outer.options
        nodes = None if is_told else self.part.nodes
        each, tasks = (fact_of(outer.options.get(n)) for n in ("per-node", "np"))
        if tasks is None and "np" not in outer.options:
            tasks = self.part.tasks
            if each is not None:
                tasks = nodes and each._replace(value=each.value * nodes.value)
        if each and tasks and nodes and tasks.value < each.value * nodes.value:
            nodes = tasks._replace(value=-(-tasks.value // max(each.value, 1)))
        if nodes is not None and nodes.value == 1:
            each = tasks
        role = Role(
            nodes=nodes,
            chips=self.part.chips,
            command=found.command,
            variables=found.variables,
        )
        self._add([role], each, tasks, command, starter="mpirun")

    def _srun(
        self,
        texts: list[str],
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> None:
        """Read a step."""
        line = slurm_options(texts)
        if not line.rest:
            self.script.leave(span, "the program is not in the file")
            return
        said = {
            name: Setting(v, option_said(name, v), span)
            for name, v in line.options.items()
        }
        for name, setting in said.items():
            refuse_option(name, setting, self.script, "srun")
        step = SlurmJob(said)
        if "multi-prog" in step:
            self.script.leave(span, f"{shown(line.rest[0])} says what each task starts")
            return
        unknown = [
            one.said for n, one in said.items() if n in NUMBERS and UNKNOWN in one.text
        ]
        if unknown:
            listed = ", ".join(unknown)
            self.script.leave(span, f"the file does not say the value of {listed}")
        made = []
        for component in self._components_of(step, line.rest, span):
            self.part = self.components[component]
            made.append(
                step_size(self.part, self.script, step, span, is_whole=line.is_whole)
            )
        if made:
            self._step(step, line, scope, made, command)
        self.part = self.components[0]

    def _step(
        self,
        step: SlurmJob,
        line: Line,
        scope: Scope,
        made: Sequence[tuple[Role, Fact | None, Fact | None]],
        command: ShellCommand,
    ) -> None:
        """Read the program of a step whose size is known, of each component."""
        words, first = line.rest, command.words[0]
        span = SourceSpan(offsets=(first.start, command.words[-1].end))
        role, per_node, tasks = made[0]
        nodes = role.nodes
        if len(made) > 1:
            numbers = {each and each.value for _, each, _ in made}
            if len(numbers) > 1 or per_node is None:
                self.script.leave(
                    span, "the components have different numbers of tasks"
                )
                return
            nodes = tasks = None
        kept = self._kept(step, scope)
        given = {
            name: setting
            for name, setting in exported(step.options.get("export")).items()
            if not self.variables.scope.is_exported(
                name
            )  # which of both counts, is not certain
        }
        settings = {
            name: one
            for name, one in self.variables.settings.items()
            if kept is None or name in kept
        }
        known = self.part.variables(nodes, tasks, step.options)
        if tasks is not None and tasks.value == 1:
            known |= dict.fromkeys(TASK_VARIABLES, "0")
        inner = scope.of_task(known, kept)
        self._forget_given(inner, command)
        inner.give({name: setting.text for name, setting in given.items()})
        variables = self.variables.inherited(inner, settings)
        variables |= {n: s for n, s in given.items() if is_read(n)}
        if self._refuse_words(words, span):
            return
        found = task_command(words, inner, variables, span)
        self._tell_lost(kept, step, found)
        if not found.command.program and "ray" in map(base, words):
            self.has_remote = True
            self.script.leave(span, "what ray starts is not judged")
        values = [setting.text for setting in found.variables.values()]
        values += found.command.script
        is_certain = bool({*"".join(values)} & {*IN_BATCH.values()})  # for any program
        unjudged = found.command.unjudged
        if not (found.command.program or line.is_whole):
            unjudged = unjudged or ("the command that srun starts is not in the file",)
        elif not line.is_whole:
            reason = "the file does not say the value of some options of srun"
            self.script.leave(span, reason)
        if not (found.command.program or is_certain) and unjudged:
            for reason in unjudged:
                self.script.leave(span, reason)
            return
        roles = [
            replace(
                one,
                name=f"component {number}" if len(made) > 1 else "",
                command=found.command,
                variables=found.variables,
            )
            for number, (one, _, _) in enumerate(made)
        ]
        self._add(roles, per_node, tasks, command, step=step)

    def _refuse_words(self, words: Sequence[str], span: SourceSpan) -> bool:
        """Report a command for a shell that lacks its quotes, and whether one does."""
        at = next((n for n, word in enumerate(words) if base(word) in SHELLS), None)
        if at is None or any(map(is_shell_file, words[:at])):
            return False
        for _, message, _ in split_wrongly(words[at:]):
            hint = 'write the command in quotes behind -c: bash -c "$COMMAND"'
            self.script.report(rules.WORDS, span, shown(message), hint=hint)
            return True
        return False

    def _kept(self, step: SlurmJob, scope: Scope) -> frozenset[str] | None:
        """Return the names that --export lets a step have, None if it lets all."""
        given = step.options.get("export", self.part.job.options.get("export"))
        names = [] if given is None else re.findall(r"(?:\A|,)(\w+)", given.text)
        variables = ("SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV")
        if given is None or "ALL" in names or any(map(scope.assigned, variables)):
            return None
        return frozenset(names)

    def _tell_lost(
        self, kept: frozenset[str] | None, step: SlurmJob, found: TaskCommand
    ) -> None:
        """Report exported variables that do not reach the tasks of a step.

        A step that says which ones it has may be meant so.
        """
        export = step.options.get("export", self.part.job.options.get("export"))
        is_own = "export" in step
        if kept is None or export is None:
            return
        if is_own and found.command.program != "python":
            return
        listed = "..." if has_marks(export.text) else export.text
        for name, setting in self.variables.settings.items():
            is_lost = name not in kept and self.variables.scope.is_exported(name)
            if is_lost and not (is_own and name in found.variables):
                self.script.report(
                    rules.NO_EFFECT,
                    setting.span,
                    f"{setting.said} does not reach the tasks, because of "
                    f"{export.said}",
                    hint="srun --export=ALL"
                    + (f",{listed}" if is_own and export.text != "NONE" else ""),
                )

    def _forget_given(self, inner: Scope, command: ShellCommand) -> None:
        """Take no variable for lost that the line itself gives to its tasks."""
        words = [word.raw for word in dropwhile(is_assignment, command.words)]
        for name in _GIVEN.findall(" ".join(words)):
            inner.forget(name)

    def _components_of(
        self, step: SlurmJob, words: Sequence[str], span: SourceSpan
    ) -> Sequence[int]:
        """Return the components of the job that a step runs in, none if not known."""
        number = len(self.components)
        given = step.options.get("het-group") or step.options.get("pack-group")
        if number > 1 and given is None:
            self.script.report(
                rules.NO_EFFECT,
                span,
                "this srun starts tasks in the first component only; the job has "
                "several",
                hint="name all of them: srun --het-group=0,1",
            )
        if given is None or number == 1:
            return (0,)
        groups = [plain_number(text) for text in given.text.split(",")]
        chosen = [group for group in groups if group is not None and group < number]
        if ":" in words or len(chosen) < len(groups):
            self.script.leave(span, "the job has several components")
            return ()
        return chosen

    def _add(
        self,
        roles: Sequence[Role],
        per_node: Fact | None,
        tasks: Fact | None,
        command: ShellCommand,
        *,
        starter: str = "srun",
        step: SlurmJob | None = None,
    ) -> None:
        """Add what a line starts; the batch script itself does if it has no starter."""
        words = command.words
        span = SourceSpan(offsets=(words[0].start, words[-1].end))
        is_tiled = self.variables.scope.assigned(_TILES) not in (None, "COMPOSITE")
        if is_tiled:
            self.script.leave(span, f"how many devices a card is with {_TILES}")
            roles = [replace(role, chips=None, chips_per_task=None) for role in roles]
        both = SlurmJob({**self.part.job.options, **(step.options if step else {})})
        asked = (
            step.all_chips() if step and "gpus-per-node" not in self.part.job else None
        )
        self.script.submissions.append(
            Submission(
                kind="sbatch",
                span=span,
                roles=tuple(roles),
                tasks_per_node=per_node,
                tasks=tasks,
                slots=self.part.tasks,
                is_first_node_only=not starter,
                starter=starter,
                is_shared="exclusive" not in self.part.job,
                is_array=not _is_one_by_one(self.part.job.text("array")),
                host=_host_of(step) if step else "",
                job_nodes=self.part.nodes and self.part.nodes.value,
                all_chips=None if is_tiled else asked or both.all_chips(),
                node_range=both.node_range() if starter == "srun" else None,
                is_in_order=both.is_in_order()
                and self.variables.scope.assigned("SLURM_HOSTFILE") is None,
            )
        )


_ONE_ELEMENT: Final = re.compile(r"([0-9]+)(?:-\1(?::[0-9]+)?)?(?:%[0-9]+)?")


def _is_one_by_one(array: str) -> bool:
    """Whether no two elements of an array run at the same time."""
    return not array or array.endswith("%1") or bool(_ONE_ELEMENT.fullmatch(array))


def _host_of(step: SlurmJob) -> str:
    """Return the hosts that a step names, also by their number in the job."""
    number = plain_number(step.text("relative"))
    if number is None or "nodelist" in step:
        return step.text("nodelist")
    return f"host {number}" if number else FIRST_HOST


def _is_builtin_test(texts: Sequence[str]) -> bool:
    return not texts or "=" in texts[0] or texts[0] in ("then", "do")


def _only_tells(texts: Sequence[str]) -> bool:
    """Whether a line of Python only imports and prints: python -c 'import torch'."""
    if not base(texts[0]).startswith("python") or texts[1:2] != ["-c"]:
        return False
    lines = re.split(r"[;\n]", " ".join(texts[2:]))
    return all(not line.strip() or _TELLS.match(line) for line in lines)
