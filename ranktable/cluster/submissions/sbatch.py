"""Read a batch script of Slurm: its ``#SBATCH`` lines and the lines that start tasks.

Source: SchedMD/slurm, src/sbatch/opt.c, doc/man/man1/sbatch.1 and srun.1. What srun
inherits from the options of the job was measured with Slurm 22.05.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import AGENTS, fact_of
from ranktable.cluster.submissions.background import Background, with_ends
from ranktable.cluster.submissions.detect import (
    DIRECTIVE,
    HEAD,
    is_of_shell,
    late_directives,
)
from ranktable.cluster.submissions.launch_options import (
    HARMLESS,
    SHELLS,
    Line,
    base,
    find_launch,
    is_shell_file,
    slurm_options,
    split_wrappers,
)
from ranktable.cluster.submissions.shell import (
    EMPTY,
    IN_BATCH,
    IN_MPI,
    TASK_VARIABLES,
    UNKNOWN,
    Scope,
    ShellCommand,
    TooDeepError,
    Word,
    commands,
    is_assignment,
    is_open,
    name_of,
    plain_number,
    shown,
    without_marks,
)
from ranktable.cluster.submissions.slurm_job import Binding, SlurmJob, chip_count
from ranktable.cluster.submissions.submission import (
    Fact,
    Role,
    Setting,
    Submission,
    Unjudged,
)
from ranktable.cluster.submissions.task_command import (
    BLOCKS,
    LAUNCHERS,
    TaskCommand,
    is_read,
    task_command,
)
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Severity
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.cluster.submissions.submission import LaunchCommand
    from ranktable.schema.finding import Finding

_REMOTE: Final = (
    *("ssh", "pdsh", "clush", "pssh", "dsh", "parallel", "xargs", "ray", "ibrun"),
)
_STARTS: Final = re.compile(rf"{LAUNCHERS.pattern}|\b(?:ssh|bash|sh|python3?)\b")
_MAY_WRAP: Final = ("env", "command", "conda")
"""Harmless programs, unless they start another one."""
_NUMBERS: Final = (
    *("nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task"),
    *("cpus-per-task", "gres", "ntasks-per-gpu"),
)
_COUNTS: Final = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
_LISTS: Final = "VISIBLE_DEVICES"
_DEFAULT: Final = re.compile(r"\$\{([A-Za-z_]\w*):?=")
"""An expansion that assigns."""
_HETEROGENEOUS: Final = re.compile(r"(?m)^#SBATCH[ \t]+(?:hetjob|packjob)\b")
_SOCKETS: Final = {"sockets-per-node", "extra-node-info", "B"}
_OPEN_RANGE: Final = re.compile(r"([0-9]+)-(?!\1\Z)[0-9]+")
_EXPORTS: Final = ("export", "declare", "readonly", "local", "typeset")
_ALL_EXPORTED: Final = re.compile(r"-[b-zA-Z]*a\w*|allexport")
_GIVEN: Final = re.compile(r"\b([A-Za-z_]\w*)=")
"""A variable that a line gives its tasks by an option, or that they set themselves."""
_PLACEHOLDER: Final = re.compile(r"[{}<>@%$]")
"""What a script has that another program completes."""
_ACTIVATION: Final = re.compile(
    r"activate\b|bashrc|profile|conda\.sh|/lmod/|modules|env_?setup|setvars"
    r"|shell\.?\w* hook|ssh-agent|pyenv"
)


_SETTERS: Final = ("unset", "read", "mapfile", "readarray", "printf")
_ITEM: Final = re.compile(r"([A-Za-z_]\w*)\[[^]]*\]\+?=")
"""An assignment to an item of an array."""


def may_set_all(words: Sequence[Word]) -> bool:
    """Whether a command sets variables whose names are not in the file."""
    head, *rest = (word.raw for word in words)
    if head in ("source", ".", "eval"):
        return not any(map(_ACTIVATION.search, rest[:1]))
    return head in _EXPORTS and any(
        not is_assignment(word) and ("$" in word.raw or "`" in word.raw)
        for word in words[1:]
    )


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


def read_sbatch(text: str) -> Script:
    """Return what a batch script starts."""
    text = without_marks(text)
    reader = _Reader(text)
    try:
        reader.read()
    except TooDeepError:
        reader.leave(None, "quotation marks or parentheses are nested too deeply")
    return reader.script


class _Reader:
    """Reads a script from its first line to its last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.script = Script()
        head = HEAD.match(text)
        assert head is not None
        self.body = head.end()
        self.refuse_form()
        self.components = []
        for options in self.directives():
            self.job = SlurmJob(options)
            self.nodes = self.job_nodes()
            self.tasks = self.job_tasks()
            self.chips = self.job.chips(self.job.number("ntasks-per-node"), self.nodes)
            self.components.append((self.job, self.nodes, self.tasks, self.chips))
        self.enter(0)
        self.scope = Scope(known=self.known(self.nodes, self.tasks))
        self.settings = _exported(self.job.options.get("export"))
        self.scope.values.update((n, s.text) for n, s in self.settings.items())
        self.scope.exported.update(self.settings)
        self.in_functions: set[str] = set()
        self.has_remote = False
        self.told: set[SourceSpan | None] = set()
        self.perhaps: list[Unjudged] = []

    def enter(self, component: int) -> None:
        """Read steps of a component; the batch script has the variables of the first.

        Measured with Slurm 22.05: a step has the options of its component only.
        """
        self.job, self.nodes, self.tasks, self.chips = self.components[component]

    def leave(self, span: SourceSpan | None, reason: str) -> None:
        """Note that a line is not judged."""
        self.script.unjudged.append(Unjudged(span, reason))

    def report(self, *args: object, **options: object) -> None:
        """Add a finding of a rule: its rule, place and message."""
        rule, *rest = args
        self.script.found.append(rule.finding(*rest, **options))  # type: ignore[attr-defined]

    def refuse_form(self) -> None:
        """Report what sbatch refuses before it reads any option."""
        at = self.text.find("\r\n")
        if at >= 0:
            message = "the lines end as on DOS (\\r\\n), which sbatch refuses"
            hint = "convert it: sed -i 's/\\r$//' FILE"
            self.report(
                rules.REFUSED, SourceSpan(offsets=(at, at + 1)), message, hint=hint
            )
        if not self.text.startswith("#!"):
            message = (
                "the first line does not begin with #!, so sbatch refuses the script"
            )
            hint = "begin it with #!/bin/bash"
            self.report(rules.REFUSED, SourceSpan(offsets=(0, 0)), message, hint=hint)

    # --- the lines that begin with #SBATCH

    def directives(self) -> list[dict[str, Setting]]:
        """Return the options above the first command, of each component of the job."""
        options: dict[str, Setting] = {}
        components = [options]
        ends = [match.start() for match in _HETEROGENEOUS.finditer(self.text)]
        for match in DIRECTIVE.finditer(self.text, 0, self.body):
            span = SourceSpan(offsets=match.span())
            if match[1] == "sbatch":
                word = match[0].split(maxsplit=1)[0]
                message = f"{word} is a comment for sbatch; only #SBATCH in capitals"
                self.report(rules.NO_EFFECT, span, f"{message} counts")
                continue
            while ends and ends[0] < match.start():
                options = {}
                components.append(options)
                ends.pop(0)
            line = _directive(match[2])
            for name, value in line.options.items():
                options[name] = Setting(value, _said(name, value), span)
                self.refuse_value(name, options[name])
            if line.rest and not _PLACEHOLDER.search(match[2]):
                message = (
                    f"sbatch refuses {quoted(line.rest[0])}, which belongs to no option"
                )
                self.report(rules.REFUSED, span, message)
        if late := late_directives(self.text):
            others = f", here and {len(late) - 1} more" if len(late) > 1 else ""
            message = "sbatch reads no #SBATCH line below the first command"
            hint = "move them above it"
            place = SourceSpan(offsets=late[0].span())
            self.report(rules.NO_EFFECT, place, message + others, hint=hint)
        for each in components:
            self.refuse_pairs(each)
        return components

    def refuse_value(self, name: str, setting: Setting) -> None:
        """Report a number that sbatch refuses; measured with Slurm 22.05."""
        if name in _COUNTS and setting.text in ("", "0"):
            message = f"{setting.said}: sbatch needs a number above 0 here"
            self.report(rules.REFUSED, setting.span, message)
        if name in _NUMBERS and "$" in setting.text:
            message = (
                f"{setting.said}: sbatch does not replace variables in #SBATCH lines"
            )
            hint = f"write the number, or give it to sbatch: sbatch --{name}=..."
            self.report(rules.REFUSED, setting.span, message, hint=hint)

    def refuse_pairs(self, options: Mapping[str, Setting]) -> None:
        """Report options that Slurm refuses beside each other."""
        one = options.get("ntasks-per-gpu")
        for name in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
            if one is not None and name in options:
                message = f"{one.said} excludes {options[name].said}"
                self.report(rules.REFUSED, one.span, message, hint="drop one")
        self.refuse_sums(options)
        chips, list_ = options.get("gpus-per-node"), options.get("gres")
        if chips and list_ and chip_count(list_.text, "gres"):
            # Slurm 22.05 takes both; srun.1 of 26.11 says that they are refused.
            self.report(
                rules.REFUSED,
                chips.span,
                f"{chips.said} and {list_.said} ask for the same; newer versions of "
                "Slurm refuse both together",
                hint="drop one",
                severity=Severity.WARNING,
            )

    def refuse_sums(self, options: Mapping[str, Setting]) -> None:
        """Report chips of tasks or sockets whose number is not given, or another one.

        Measured with Slurm 22.05, which takes the number of nodes for that of tasks.

        Source: SchedMD/slurm, src/interfaces/gres.c.
        """
        job = SlurmJob(options)
        nodes, of_task = options.get("nodes"), job.options.get("gpus-per-task")
        is_open = nodes is None or _OPEN_RANGE.fullmatch(nodes.text)
        counts = {"gpus", "ntasks", "ntasks-per-node"} & options.keys()
        if of_task is not None and is_open and not counts:
            message = f"{of_task.said}: sbatch needs a number of tasks beside it"
            hint = "add --ntasks or --ntasks-per-node"
            self.report(rules.REFUSED, of_task.span, message, hint=hint)
        for whole, number, part in job.products():
            if whole.value and part.value and number.value * part.value != whole.value:
                message = f"sbatch refuses {whole.said} for {number.said}"
                hint = "leave one of the three out"
                text = f"{message} with {part.said}"
                self.report(rules.REFUSED, whole.span, text, hint=hint)
        of_socket = options.get("gpus-per-socket")
        if of_socket is not None and not _SOCKETS & options.keys():
            message = f"{of_socket.said}: sbatch needs --sockets-per-node beside it"
            self.report(rules.REFUSED, of_socket.span, message)

    def job_nodes(self) -> Fact | None:
        """Return the nodes of the job; Slurm gives it none without a task."""
        nodes, tasks = self.job.nodes(), self.job.number("ntasks")
        if nodes is None or tasks is None or not 0 < tasks.value < nodes.value:
            return nodes
        self.report(  # measured with Slurm 22.05
            rules.NO_EFFECT,
            nodes.span,
            f"{nodes.said} has no effect: Slurm gives the job as many nodes as it has "
            f"tasks ({tasks.said})",
            hint=f"--ntasks={nodes.value}, or --ntasks-per-node instead of it",
        )
        return Fact(tasks.value, tasks.said, tasks.span)

    def job_tasks(self) -> Fact | None:
        """Return the tasks of the job, as SLURM_NTASKS has them; None if not set."""
        if "ntasks" in self.job:
            return self.job.number("ntasks")
        each = self.job.tasks_per_node(self.nodes)
        if each is None or self.nodes is None:
            return None
        said = (
            f"{each.said} on {self.nodes.value} nodes"
            if self.nodes.value > 1
            else each.said
        )
        return Fact(each.value * self.nodes.value, said, each.span)

    def known(self, nodes: Fact | None, tasks: Fact | None) -> dict[str, str]:
        """Return what Slurm's variables are, as far as it is known."""
        per_node = self.job.number("ntasks-per-node")
        chips = self.chips
        facts = {
            **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes),
            **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), tasks),
            "SLURM_NTASKS_PER_NODE": per_node,
            "SLURM_GPUS_ON_NODE": chips,
            "SLURM_GPUS_PER_NODE": self.job.number("gpus-per-node"),
            "SLURM_CPUS_PER_TASK": self.job.number("cpus-per-task"),
        }
        return {
            name: UNKNOWN if fact is None else str(fact.value)
            for name, fact in facts.items()
        }

    # --- the commands

    def read(self) -> None:
        """Read every command below the #SBATCH lines."""
        if not is_of_shell(self.text):
            end = len(self.text.split("\n", 1)[0])
            self.leave(SourceSpan(offsets=(0, end)), "it is not a script of a shell")
            return
        is_tested = False
        background, script = Background(), self.script
        for command in with_ends(commands(self.text, self.body)):
            block = command.block
            if command.before == "||" or (command.before == "&&" and is_tested):
                block = block or "if"
            is_tested = command.words[0].raw in ("[", "[[", "test")
            made, left = len(script.submissions), len(script.unjudged)
            is_on = self.command(replace(command, block=block))
            is_unjudged = len(script.unjudged) > left
            numbers = range(made, len(script.submissions))
            background.see(command, numbers, is_unjudged=is_unjudged)
            if not is_on:
                break
        self.drop_helpers(background)
        self.refuse_same_ranks()
        for job, _, _, chips in self.components if script.submissions else ():
            given = job.options.get("gpus-per-socket")
            if given is not None and chips is None:
                reason = f"the chips of a node are those of its sockets ({given.said})"
                self.leave(given.span, reason)
        if not self.script.submissions and not self.script.unjudged:
            self.script.unjudged += self.perhaps  # a Python program, as a rule

    def command(self, command: ShellCommand) -> bool:
        """Read a command; return whether the script goes on."""
        words = list(command.words)
        span = SourceSpan(offsets=(words[0].start, words[-1].end))
        if is_open(self.text, words[-1]):
            line_end = self.text.find("\n", words[0].start)
            place = SourceSpan(offsets=(words[0].start, line_end))
            self.leave(place, "a quotation mark or bracket in it is never closed")
            return False
        if command.block:
            self.block(command, span)
            return True
        before = dict(self.settings)
        if base(words[0].raw) == "env" and not all(map(is_assignment, words[1:])):
            words = words[is_assignment(words[1]) :]
            command = replace(command, words=tuple(words))
        count = next((n for n, w in enumerate(words) if not is_assignment(w)), 0)
        if not count and is_assignment(words[0]):
            for word in words:
                self.take(self.scope, word)
            return True
        scope = self.scope.of_command() if count else self.scope
        for word in words[:count]:
            self.take(scope, word)
            scope.exported.add(name_of(word))
        words = words[count:]
        if words[0].raw.startswith("-"):
            place = SourceSpan(offsets=(words[0].start, words[0].end))
            stray = rules.stray_option(place, shown(words[0].raw))
            self.script.found.append(stray)
            return True
        is_on = self.run(words, scope, command, span)
        self.settings = before if words[0].raw != "export" else self.settings
        return is_on

    def take(self, scope: Scope, word: Word) -> bool:
        """Take an assignment; return whether the word is one."""
        if not scope.assign(word, is_certain=True):
            return False
        name = name_of(word)
        if name in self.in_functions:  # called somewhere
            scope.forget(name)
            self.settings.pop(name, None)
        elif is_read(name):
            place = SourceSpan(offsets=(word.start, word.end))
            self.settings[name] = Setting(scope.value(name), word.raw, place)
        return True

    def block(self, command: ShellCommand, span: SourceSpan) -> None:
        """Read a command that may run several times or never."""
        for word in command.words:
            if not self.scope.assign(word, is_certain=False):
                continue
            self.settings.pop(name_of(word), None)
            if command.block == "function" and is_read(name_of(word)):
                self.in_functions.add(name_of(word))
        head, *rest = command.words
        if head.raw in _EXPORTS:
            self.scope.exported.update(map(name_of, command.words))
        if head.raw in ("for", "select"):
            self.forget([word.raw for word in rest[:1]])
        self.forget_set(command.words)
        text = self.text[slice(*span.offsets or (0, 0))]
        reason = f"it is in {BLOCKS.get(command.block, 'a condition')}"
        if command.words[0].raw in HARMLESS:
            return
        if LAUNCHERS.search(text):
            self.leave(span, reason)
            self.has_remote = True
        elif find_launch([word.raw for word in command.words])[0]:
            self.perhaps.append(Unjudged(span, reason))

    def run(
        self,
        words: Sequence[Word],
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> bool:
        """Read a command that is run; return whether the script goes on."""
        head = words[0].raw
        self.forget_set(words)
        if head in _EXPORTS:
            self.export(words[1:])
        elif head == "set":
            is_all = any(_ALL_EXPORTED.fullmatch(word.raw) for word in words[1:])
            self.scope.exports_all = self.scope.exports_all or is_all
        elif head in ("source", "."):
            self.sourced(words, span)
        elif head == "exit":
            return False
        elif head == "eval":
            texts = [text for word in words for text in scope.fields(word.raw)]
            if LAUNCHERS.search(" ".join(texts)):
                self.leave(span, "what eval runs is not judged")
                self.has_remote = True
        elif head not in HARMLESS or (
            head in _MAY_WRAP and LAUNCHERS.search(" ".join(w.raw for w in words))
        ):
            texts = [text for word in words for text in scope.fields(word.raw)]
            self.start(list(split_wrappers(texts)), scope, command, span)
        return True

    def forget(self, names: Sequence[str]) -> None:
        """Note that the values of some variables are not known from here on."""
        for name in names:
            self.scope.forget(name)
            self.settings.pop(name, None)

    def forget_set(self, words: Sequence[Word]) -> None:
        """Forget what a command sets, but by assignments that are words of it."""
        head = words[0].raw
        self.forget([name for word in words for name in _DEFAULT.findall(word.raw)])
        self.forget(_ITEM.findall(head))
        if head in _SETTERS:
            self.forget([word.raw for word in words[1:]])
        if may_set_all(words):
            self.forget([*self.scope.values, *self.scope.arrays])
            self.settings.clear()

    def export(self, words: Sequence[Word]) -> None:
        for word in words:
            self.take(self.scope, word)
            self.scope.exported.add(name_of(word))

    def sourced(self, words: Sequence[Word], span: SourceSpan) -> None:
        """Note that another file may set everything."""
        if len(words) < 2 or _ACTIVATION.search(words[1].raw):
            return
        self.leave(span, f"{shown(words[1].raw)} may set every variable")

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
        self.refuse_empty(texts, scope, span)
        if head == "srun":
            self.srun(texts[1:], scope, command, span)
        elif head == "xargs" and not _STARTS.search(" ".join(texts)):
            pass
        elif head in _REMOTE:
            self.has_remote = True
            self.leave(span, f"what {head} starts is not judged")
        elif head[:1] == UNKNOWN:
            self.leave(span, "its first word is not in the file")
        elif head not in HARMLESS and head:
            self.on_first_node(texts, scope, command, span)

    def refuse_empty(
        self, texts: Sequence[str], scope: Scope, span: SourceSpan
    ) -> None:
        """Report variables of MPI's processes that the batch script expands."""
        text = " ".join(texts)
        found = {
            setting.span: setting.said
            for setting in self.variables(scope).values()
            if {*setting.text} & {*EMPTY.values()}
        }
        names = [f"${name}" for name, mark in EMPTY.items() if mark in text]
        found |= {span: " and ".join(names)} if names else {}
        for place, said in found.items() if LAUNCHERS.search(text) else ():
            if place not in self.told:
                self.report(
                    rules.SAME_RANK,
                    place,
                    f"{said} is expanded by the batch script, where it is empty",
                    hint="let every process expand it, in single quotes: "
                    "mpirun bash -c '...'",
                )
            self.told.add(place)

    def on_first_node(
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
            self.leave(span, f"what {base(texts[0])} -c starts is not judged")
            return
        found = task_command(texts, scope.of_command(), self.variables(scope), span)
        if not found.command.program:
            if not _is_builtin_test(texts):
                first = f"what {shown(base(texts[0]))} starts is not in the file"
                for reason in found.command.unjudged or (first,):
                    self.leave(span, reason)
            return
        variables = found.variables
        if found.command.program == "mpirun":
            inner = self.of_mpirun(found, scope, command, span)
            if found.command.is_whole and inner.command.program in AGENTS:
                self.by_mpirun(found.command, inner, command)
                return
            first = base(next(iter(found.command.script), ""))
            is_python = inner.command.program == "python" and not is_shell_file(first)
            own = inner.variables if is_python else {}
            variables = {
                **{n: s for n, s in variables.items() if n.endswith(_LISTS)},
                **{n: s for n, s in own.items() if not n.endswith(_LISTS)},
            }
        role = Role(
            nodes=self.nodes,
            chips=self.chips,
            command=found.command,
            variables=variables,
        )
        one = Fact(1, "no srun")
        self.add([role], one, one, command, starter="")

    def of_mpirun(
        self,
        outer: TaskCommand,
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> TaskCommand:
        """Return what an mpirun starts, and what its processes find for certain."""
        known = {**self.known(None, None), **dict.fromkeys(TASK_VARIABLES, UNKNOWN)}
        inner = scope.of_task(known | IN_MPI)
        self.forget_given(inner, command)
        passed = outer.command.passed
        given = {n: s for n, s in outer.command.given.items() if is_read(n)}
        variables = {
            name: setting
            for name, setting in {**outer.variables, **given}.items()
            if passed is None
            or name in passed
            or name.endswith(_LISTS)  # the processes of the first node have it
        }
        return task_command(outer.command.script, inner, variables, span)

    def by_mpirun(
        self, outer: LaunchCommand, found: TaskCommand, command: ShellCommand
    ) -> None:
        """Add the agents that an mpirun starts."""
        is_told = "hostfile" in outer.options or "host" in outer.options
        nodes = None if is_told else self.nodes
        each, tasks = (fact_of(outer.options.get(n)) for n in ("per-node", "np"))
        if tasks is None and "np" not in outer.options:
            tasks = self.tasks
            if each is not None:
                tasks = nodes and each._replace(value=each.value * nodes.value)
        if each and tasks and nodes and tasks.value < each.value * nodes.value:
            nodes = tasks._replace(value=-(-tasks.value // max(each.value, 1)))
        if nodes is not None and nodes.value == 1:
            each = tasks
        role = Role(
            nodes=nodes,
            chips=self.chips,
            command=found.command,
            variables=found.variables,
        )
        self.add([role], each, tasks, command, starter="mpirun")

    def srun(
        self,
        texts: list[str],
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> None:
        """Read a step."""
        line = slurm_options(texts)
        if not line.rest:
            self.leave(span, "the program is not in the file")
            return
        said = {
            name: Setting(v, _said(name, v), span) for name, v in line.options.items()
        }
        step = SlurmJob(said)
        if "multi-prog" in step:
            self.leave(span, f"{shown(line.rest[0])} says what each task starts")
            return
        unknown = [
            one.said for n, one in said.items() if n in _NUMBERS and UNKNOWN in one.text
        ]
        if unknown or not line.is_whole:
            listed = ", ".join(unknown) or "some options of srun"
            self.leave(span, f"the file does not say the value of {listed}")
        made = []
        for component in self.components_of(step, line.rest, span):
            self.enter(component)
            made.append(self.step_size(step, span, is_whole=line.is_whole))
        if made:
            self.step(step, line.rest, scope, made, command)
        self.enter(0)

    def step_size(
        self, step: SlurmJob, span: SourceSpan, *, is_whole: bool
    ) -> tuple[Role, Fact | None, Fact | None]:
        """Return the nodes and chips of a step, its tasks on each node, and all."""
        nodes = step.nodes() if "nodes" in step else self.nodes
        tasks, per_node = self.step_tasks(step, nodes, span)
        if not is_whole:
            tasks = per_node = None
        if nodes is not None and tasks is not None and 0 < tasks.value < nodes.value:
            nodes, per_node = tasks, Fact(1, tasks.said, tasks.span)  # fewer nodes do
        self.refuse_nodes(nodes, span)
        chips, binding = self.step_chips(step, per_node, nodes, span)
        role = Role(
            nodes=nodes,
            chips=chips,
            chips_per_task=binding.seen,
            tasks_per_chip=binding.shared,
            near=binding.near,
        )
        return role, per_node, tasks

    def step(
        self,
        step: SlurmJob,
        words: Sequence[str],
        scope: Scope,
        made: Sequence[tuple[Role, Fact | None, Fact | None]],
        command: ShellCommand,
    ) -> None:
        """Read the program of a step whose size is known, of each component."""
        first = command.words[0]
        span = SourceSpan(offsets=(first.start, command.words[-1].end))
        role, per_node, tasks = made[0]
        nodes = role.nodes
        if len(made) > 1:
            numbers = {each and each.value for _, each, _ in made}
            if len(numbers) > 1 or per_node is None:
                self.leave(span, "the components have different numbers of tasks")
                return
            nodes = tasks = None
        kept = self.kept(step, scope)
        given = {
            name: setting
            for name, setting in _exported(step.options.get("export")).items()
            if not self.scope.is_exported(name)  # which of both counts, is not certain
        }
        self.settings, all_settings = self.passed(kept, step), self.settings
        inner = scope.of_task(self.known(nodes, tasks), kept)
        self.forget_given(inner, command)
        found = task_command(words, inner, {**self.variables(inner), **given}, span)
        self.settings = all_settings
        values = [setting.text for setting in found.variables.values()]
        values += found.command.script
        is_certain = bool({*"".join(values)} & {*IN_BATCH.values()})  # for any program
        if not (found.command.program or is_certain) and found.command.unjudged:
            for reason in found.command.unjudged:
                self.leave(span, reason)
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
        self.add(roles, per_node, tasks, command, step=step)

    def kept(self, step: SlurmJob, scope: Scope) -> frozenset[str] | None:
        """Return the names that --export lets a step have, None if it lets all."""
        given = step.options.get("export", self.job.options.get("export"))
        names = [] if given is None else re.findall(r"(?:\A|,)(\w+)", given.text)
        variables = ("SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV")
        if given is None or "ALL" in names or any(map(scope.assigned, variables)):
            return None
        return frozenset(names)

    def passed(self, kept: frozenset[str] | None, step: SlurmJob) -> dict[str, Setting]:
        """Return what of the exported variables reaches the tasks of a step."""
        if kept is None:
            return self.settings
        for name, setting in self.settings.items():
            is_lost = name not in kept and self.scope.is_exported(name)
            if is_lost and "export" not in step:
                self.report(
                    rules.NO_EFFECT,
                    setting.span,
                    f"{setting.said} does not reach the tasks, because of "
                    f"{self.job.options['export'].said}",
                    hint="srun --export=ALL",
                )
        return {name: one for name, one in self.settings.items() if name in kept}

    def forget_given(self, inner: Scope, command: ShellCommand) -> None:
        """Take no variable for lost that the line itself gives to its tasks."""
        words = [word.raw for word in dropwhile(is_assignment, command.words)]
        for name in _GIVEN.findall(" ".join(words)):
            inner.forget(name)

    def components_of(
        self, step: SlurmJob, words: Sequence[str], span: SourceSpan
    ) -> Sequence[int]:
        """Return the components of the job that a step runs in, none if not known."""
        number = len(self.components)
        given = step.options.get("het-group") or step.options.get("pack-group")
        if number > 1 and given is None:
            self.report(
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
            self.leave(span, "the job has several components")
            return ()
        return chosen

    def step_tasks(
        self, step: SlurmJob, nodes: Fact | None, span: SourceSpan
    ) -> tuple[Fact | None, Fact | None]:
        """Return the tasks of a step, and those of each of its nodes."""
        each = step.number("ntasks-per-node")
        both = {*self.job.options, *step.options}
        if "ntasks" in step:
            tasks = step.number("ntasks")
        elif "ntasks-per-node" in step:
            tasks = self.step_of(each, nodes, span)
        elif "ntasks-per-gpu" in step or {"gpus", "gpus-per-task"} <= both:
            tasks = self.tasks if "ntasks" in self.job else None
        elif {"ntasks", "ntasks-per-node", "ntasks-per-gpu"} & both:
            tasks = self.tasks
            if "nodes" in step and tasks is not None:  # SLURM_NTASKS is an option too
                tasks = tasks._replace(said=f"SLURM_NTASKS of {tasks.said}")
        elif "gpus-per-socket" in both:
            tasks = None  # Slurm 22.05 gave the job a task for each socket
        else:
            tasks = nodes and Fact(nodes.value, nodes.said, nodes.span)
        each = each or self.job.tasks_per_node(self.nodes)
        if tasks is None or nodes is None:
            return tasks, None
        if nodes.value in (1, tasks.value):
            value = tasks.value // nodes.value
        elif each is not None and each.value * nodes.value == tasks.value:
            value = each.value
        else:
            return tasks, None  # the nodes may have different numbers of tasks
        return tasks, Fact(value, tasks.said, tasks.span)

    def step_of(
        self, each: Fact | None, nodes: Fact | None, span: SourceSpan
    ) -> Fact | None:
        """Return the tasks of a step that gives only those of a node."""
        if each is None or nodes is None:
            return None
        product = each.value * nodes.value
        if self.tasks is not None and self.tasks.value != product:
            # SLURM_NTASKS is an option of srun too.
            self.leave(
                span,
                f"Slurm may ignore {each.said}, because SLURM_NTASKS is "
                f"{self.tasks.value} ({self.tasks.said}); -n {product} beside it "
                "decides",
            )
            return None
        return Fact(product, each.said, each.span)

    def refuse_nodes(self, nodes: Fact | None, span: SourceSpan) -> None:
        """Report a step on more nodes than the job has; measured with Slurm 22.05."""
        if nodes is None or self.nodes is None or nodes.value <= self.nodes.value:
            return
        self.report(
            rules.REFUSED,
            nodes.span or span,
            f"{nodes.said} asks for more nodes than the job has ({self.nodes.said}), "
            "which srun refuses",
            hint="leave it out: a step has the nodes of its job",
        )

    def step_chips(
        self,
        step: SlurmJob,
        per_node: Fact | None,
        nodes: Fact | None,
        span: SourceSpan,
    ) -> tuple[Fact | None, Binding]:
        """Return the chips of a step on a node, and which of them a task sees."""
        both = SlurmJob({**self.job.options, **step.options})
        chips, binding = both.chips(per_node, nodes), both.binding(per_node)
        asked, has = step.chips(per_node, nodes), self.chips
        of_job = self.job.listed("gpus-per-node")
        if asked is None or has is None:
            return chips, binding
        if asked.value > has.value:
            self.report(
                rules.REFUSED,
                asked.span or span,
                f"{asked.said} asks for {asked.value} chips of a node, and the job has "
                f"{has.value} ({has.said}), so srun refuses it",
                hint="ask for the chips in an #SBATCH line",
            )
            return None, binding
        if of_job and "gpus-per-node" not in step and "gpus-per-task" not in step:
            if asked.value != of_job.value:
                self.leave(
                    span,
                    f"Slurm 22.05 takes {asked.said} for {of_job.said} of the job, and "
                    "newer versions may refuse both together",
                )
            return (chips if asked.value == of_job.value else None), binding
        return chips, binding

    def variables(self, scope: Scope) -> dict[str, Setting]:
        """Return what a command inherits of the variables that scripts set."""
        return {
            name: setting._replace(text=scope.assigned(name) or setting.text)
            for name, setting in self.settings.items()
            if scope.is_exported(name)
        }

    def add(
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
        both = SlurmJob({**self.job.options, **(step.options if step else {})})
        asked = step.all_chips() if step and "gpus-per-node" not in self.job else None
        self.script.submissions.append(
            Submission(
                kind="sbatch",
                span=SourceSpan(offsets=(words[0].start, words[-1].end)),
                roles=tuple(roles),
                tasks_per_node=per_node,
                tasks=tasks,
                slots=self.tasks,
                is_first_node_only=not starter,
                starter=starter,
                is_shared="exclusive" not in self.job,
                is_array="array" in self.job,
                job_nodes=self.nodes and self.nodes.value,
                all_chips=asked or both.all_chips(),
                node_range=both.node_range() if starter == "srun" else None,
                is_in_order=both.is_in_order()
                and self.scope.assigned("SLURM_HOSTFILE") is None,
            )
        )

    def refuse_same_ranks(self) -> None:
        """Report agents of steps beside each other that have the same node rank."""
        first: dict[tuple[str, ...], Submission] = {}
        for one in self.script.submissions:
            options = one.roles[0].command.options
            rank = options.get("node-rank")
            key = tuple(
                options[name].text if name in options else ""
                for name in ("node-rank", "nnodes", "master-addr", "master-port")
            )
            is_one = one.starts() == 1 and not one.is_first_node_only
            is_plain = key[0].isdecimal() and not options.keys() & {"rdzv-backend"}
            if one.is_alone or rank is None or not (is_one and is_plain):
                continue
            if key[1] not in ("", "1") and first.setdefault(key, one) is not one:
                self.report(
                    rules.SAME_RANK,
                    one.span,
                    f"{rank.said} is that of another step beside this one too",
                    hint="give every step its own node rank, from 0",
                )

    def drop_helpers(self, background: Background) -> None:
        """Drop what only prepares the job: a Python line beside lines that start it."""
        has_start = self.has_remote or not all(map(_is_helper, self.script.submissions))
        kept = []
        for number, one in enumerate(self.script.submissions):
            if has_start and _is_helper(one):
                continue
            is_beside = self.has_remote or number in background.beside
            kept.append(replace(one, is_alone=not is_beside))
            if number in background.left[:1]:
                self.report(
                    rules.NO_EFFECT,
                    one.span,
                    "the script ends while this runs in the background, and the job "
                    "ends with the script",
                    hint="add wait at the end of the script",
                    severity=Severity.ERROR,
                )
        self.script.submissions = kept


def _is_helper(one: Submission) -> bool:
    """Whether a line need not be the job: a program that the batch script runs."""
    return one.is_first_node_only and one.roles[0].command.program == "python"


def _is_builtin_test(texts: Sequence[str]) -> bool:
    return not texts or "=" in texts[0] or texts[0] in ("then", "do")


def _directive(text: str) -> Line:
    """Return the options of a line by their long names."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    return slurm_options(words)


def _exported(given: Setting | None) -> dict[str, Setting]:
    """Return the variables to which --export gives a value without a comma."""
    found = {}
    span = given and given.span
    for item in [] if given is None else given.text.split(","):
        name, sign, value = item.partition("=")
        if sign and is_read(name) and not name.endswith(_LISTS):
            found[name] = Setting(value, f"--export={shown(item)}", span)
    return found


def _said(name: str, value: str) -> str:
    sign = "--" if len(name) > 1 else "-"
    return f"{sign}{name}={shown(value)}" if value else f"{sign}{name}"
