"""Read a batch script of Slurm: its ``#SBATCH`` lines and the lines that start tasks.

Source: SchedMD/slurm, src/sbatch/opt.c, doc/man/man1/sbatch.1 and srun.1. What srun
inherits from the options of the job was measured with Slurm 22.05.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import dropwhile, groupby
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import AGENTS, fact_of
from ranktable.cluster.submissions.background import Background, with_ends
from ranktable.cluster.submissions.batch_job import (
    NUMBERS,
    option_said,
    read_jobs,
    refuse_form,
    refuse_option,
)
from ranktable.cluster.submissions.detect import (
    HEAD,
    is_of_shell,
)
from ranktable.cluster.submissions.launch_options import (
    HARMLESS,
    SHELLS,
    Line,
    after_shell_options,
    base,
    find_launch,
    is_shell_file,
    slurm_options,
    split_wrappers,
)
from ranktable.cluster.submissions.loops import (
    LoopRounds,
    incremented,
    read_function,
    read_rounds,
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
    text_below,
    without_marks,
)
from ranktable.cluster.submissions.slurm_job import SlurmJob
from ranktable.cluster.submissions.step_size import step_size
from ranktable.cluster.submissions.steps_beside import (
    joined_steps,
    same_ports,
    same_ranks,
)
from ranktable.cluster.submissions.submission import (
    Fact,
    Role,
    Script,
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.cluster.submissions.submission import LaunchCommand

_REMOTE: Final = (
    *("ssh", "pdsh", "clush", "pssh", "dsh", "parallel", "xargs", "ray", "ibrun"),
)
_STARTS: Final = re.compile(rf"{LAUNCHERS.pattern}|\b(?:ssh|bash|sh|python3?)\b")
_MAY_WRAP: Final = ("env", "command", "conda")
"""Harmless programs, unless they start another one."""
_BLANK_END: Final = re.compile(r"\\[ \t]")
_LISTS: Final = "VISIBLE_DEVICES"
_MOST_REPEATED: Final = 20_000
"""Commands of loops and functions that are read, each time that they are run."""
_ASSIGNING: Final = re.compile(
    r"\$\{([A-Za-z_]\w*):?=|\$\(\((?:[^)]*\W)?([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/]?=(?!=))"
)
"""An expansion that assigns."""
_EXPORTS: Final = ("export", "declare", "readonly", "local", "typeset")
_ALL_EXPORTED: Final = re.compile(r"-[b-zA-Z]*a\w*|allexport")
_GIVEN: Final = re.compile(r"\b([A-Za-z_]\w*)=")
"""A variable that a line gives its tasks by an option, or that they set themselves."""
_ACTIVATION: Final = re.compile(
    r"activate\b|bashrc|profile|conda\.sh|/lmod/|modules|env_?setup|setvars"
    r"|shell\.?\w* hook|ssh-agent|pyenv"
)


_SETTERS: Final = ("unset", "read", "mapfile", "readarray", "printf")
_READS_HOSTS: Final = re.compile(
    r"(?:mapfile|readarray)\s+-t\s+([A-Za-z_]\w*)\s*(?:<\s*<\(|<<<\s*\"?\$\()"
    r"\s*scontrol\s+show\s+hostnames?\b[^|)]*\)"
)
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


def read_sbatch(text: str) -> Script:
    """Return what a batch script starts."""
    text = without_marks(text)
    reader = _Reader(text)
    try:
        reader.read()
    except TooDeepError:
        reader.script.leave(
            None, "quotation marks or parentheses are nested too deeply"
        )
    return reader.script


class _Reader:
    """Reads a script from its first line to its last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.script = Script()
        head = HEAD.match(text)
        assert head is not None
        self.body = head.end()
        refuse_form(text, self.script)
        self.components = read_jobs(text, self.body, self.script)
        self.enter(0)
        part = self.part
        self.scope = Scope(known=part.variables(part.nodes, part.tasks))
        given = _exported(part.job.options.get("export"))
        self.scope.give({name: setting.text for name, setting in given.items()})
        self.settings = {n: s for n, s in given.items() if is_read(n)}
        self.has_remote = False
        self.told: set[SourceSpan | None] = set()
        self.perhaps: list[Unjudged] = []
        self.functions: dict[str, Sequence[ShellCommand]] = {}
        self.called: set[str] = set()
        self.files: dict[str, str] = {}
        self.background = Background()
        self.repeated = 0
        self.is_tested = False

    def enter(self, component: int) -> None:
        """Read steps of a component; the batch script has the variables of the first.

        Measured with Slurm 22.05: a step has the options of its component only.
        """
        self.part = self.components[component]

    def read(self) -> None:
        """Read every command below the #SBATCH lines."""
        if not is_of_shell(self.text):
            end = len(self.text.split("\n", 1)[0])
            self.script.leave(
                SourceSpan(offsets=(0, end)), "it is not a script of a shell"
            )
            return
        self.sequence(with_ends(commands(self.text, self.body)))
        for name in [one for one in self.functions if one not in self.called]:
            self.blocks(name, "function")
        self.drop_helpers()
        script = self.script
        is_whole = not (self.has_remote or script.unjudged)
        script.submissions = joined_steps(script.submissions, is_whole=is_whole)
        script.found += same_ranks(script.submissions)
        script.found += same_ports(script.submissions)
        for job, _, _, chips in self.components if script.submissions else ():
            given = job.options.get("gpus-per-socket")
            if given is not None and chips is None:
                reason = f"the chips of a node are those of its sockets ({given.said})"
                self.script.leave(given.span, reason)
        if not self.script.submissions and not self.script.unjudged:
            self.script.unjudged += self.perhaps  # a Python program, as a rule

    def sequence(self, found: Iterable[ShellCommand]) -> None:
        """Read commands, those of a loop or a function together."""
        at = self.body
        for _, group in groupby(found, key=lambda one: one.begin):
            part = list(group)
            rounds = read_rounds(self.text, part, self.scope)
            if rounds is not None and not self.may_repeat(rounds.body, rounds.values):
                rounds = None
            name, body = read_function(self.text, part, at)
            at = part[-1].words[-1].end
            if rounds is not None:
                is_on = self.loop(rounds)
            elif name:
                self.functions[name] = body
                continue
            else:
                is_on = self.each(part)
            if not is_on:
                return

    def may_repeat(
        self, body: Sequence[ShellCommand], times: Sequence[str] = ("",)
    ) -> bool:
        """Whether commands may be read so many times, with what was read before."""
        self.repeated += len(body) * len(times)
        return self.repeated <= _MOST_REPEATED

    def loop(self, loop: LoopRounds) -> bool:
        """Read every round of a loop; return whether the script goes on."""
        for value in loop.values:
            self.scope.values[loop.name] = value
            if not self.each(loop.body):
                return False
        if UNKNOWN in loop.values:
            words = [word for one in loop.body for word in one.words]
            self.forget([name_of(word) for word in words if is_assignment(word)])
        return True

    def each(self, found: Iterable[ShellCommand]) -> bool:
        """Read commands one after the other; return whether the script goes on."""
        script = self.script
        for command in found:
            block = command.block
            if command.before == "||" or (command.before == "&&" and self.is_tested):
                block = block or "if"
            self.is_tested = command.words[0].raw in ("[", "[[", "test")
            made, left = len(script.submissions), len(script.unjudged)
            is_on = self.command(replace(command, block=block))
            head = next((w.raw for w in command.words if not is_assignment(w)), "")
            if head not in self.functions:
                is_unjudged = len(script.unjudged) > left
                numbers = range(made, len(script.submissions))
                self.background.see(command, numbers, is_unjudged=is_unjudged)
            if not is_on:
                return False
        return True

    def call(self, words: Sequence[Word], scope: Scope, command: ShellCommand) -> bool:
        """Read a function that is called; return whether the script goes on."""
        name = words[0].raw
        self.called.add(name)
        body = self.functions.pop(name)  # it does not call itself
        arguments = self.scope.array("@")
        self.scope.set_arguments(
            [text for word in words[1:] for text in scope.fields(word.raw)]
        )
        is_behind, is_nested = command.after == "&", self.background.is_nested
        self.background.is_nested = is_nested or is_behind
        made = len(self.script.submissions)
        is_on = self.each(replace(one, after="&") if is_behind else one for one in body)
        self.background.is_nested = is_nested
        if is_behind and not is_nested:
            self.background.count(range(made, len(self.script.submissions))[:1])
        self.scope.set_arguments(arguments)
        self.functions[name] = body
        return is_on

    def blocks(self, name: str, block: str) -> None:
        """Read a function that may be called several times or never."""
        is_first = name not in self.called
        self.called.add(name)
        body = self.functions.pop(name)
        for one in body if is_first or self.may_repeat(body) else ():
            start, end = one.words[0].start, one.words[-1].end
            self.block(replace(one, block=block), SourceSpan(offsets=(start, end)))
        self.functions[name] = body

    def command(self, command: ShellCommand) -> bool:
        """Read a command; return whether the script goes on."""
        words = list(command.words)
        span = SourceSpan(offsets=(words[0].start, words[-1].end))
        if is_open(self.text, words[-1]):
            line_end = self.text.find("\n", words[0].start)
            place = SourceSpan(offsets=(words[0].start, line_end))
            self.script.leave(
                place, "a quotation mark or bracket in it is never closed"
            )
            return False
        counter = incremented(self.text, command)
        if counter and command.block in ("", "("):
            self.scope.values[counter] = self.scope.sum_of(f"{counter} + 1")
            return True
        if command.block:
            self.forget([counter] if counter else [])
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
        if _BLANK_END.fullmatch(words[-1].raw) and self.goes_on(words[-1].end):
            self.script.report(
                rules.NO_EFFECT,
                SourceSpan(offsets=(words[-1].start, words[-1].end)),
                "a blank behind \\ ends the line, so the next one is a command of its "
                "own",
                hint="delete the blank",
                severity=Severity.ERROR,
            )
        if words[0].raw.startswith("-"):
            place = SourceSpan(offsets=(words[0].start, words[0].end))
            before_it = self.text[: words[0].start].rstrip("\\ \t\r\n")
            is_behind_and = before_it.endswith("&")
            stray = rules.stray_option(
                place, shown(words[0].raw), is_behind_and=is_behind_and
            )
            self.script.found.append(stray)
            return True
        is_on = self.run(words, scope, command, span)
        self.settings = before if words[0].raw != "export" else self.settings
        return is_on

    def goes_on(self, at: int) -> bool:
        """Whether the next line has words that are no option of their own."""
        return re.match(r"[ \t]*\n[ \t]*[^\s#-]", self.text[at : at + 99]) is not None

    def take(self, scope: Scope, word: Word) -> bool:
        """Take an assignment; return whether the word is one."""
        if not scope.assign(word, is_certain=True):
            return False
        name = name_of(word)
        if is_read(name):
            place = SourceSpan(offsets=(word.start, word.end))
            self.settings[name] = Setting(scope.value(name), word.raw, place)
        return True

    def block(self, command: ShellCommand, span: SourceSpan) -> None:
        """Read a command that may run several times or never."""
        for word in command.words:
            if not self.scope.assign(word, is_certain=False):
                continue
            self.settings.pop(name_of(word), None)
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
        if head.raw in self.functions:
            self.blocks(head.raw, command.block)
        if LAUNCHERS.search(text):
            self.script.leave(span, reason)
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
        self.keep_file(words, command)
        if head in _EXPORTS:
            self.export(words[1:])
        elif head in self.functions and self.may_repeat(self.functions[head]):
            return self.call(words, scope, command)
        elif head == "set":
            if "--" in (raw := [word.raw for word in words]):
                rest = words[raw.index("--") + 1 :]
                items = [text for word in rest for text in scope.fields(word.raw)]
                self.scope.set_arguments(items)
            is_all = any(_ALL_EXPORTED.fullmatch(word.raw) for word in words[1:])
            self.scope.exports_all = self.scope.exports_all or is_all
        elif head in ("source", "."):
            self.sourced(words, span)
        elif head == "exit":
            return False
        elif head == "eval":
            texts = [text for word in words for text in scope.fields(word.raw)]
            if LAUNCHERS.search(" ".join(texts)):
                self.script.leave(span, "what eval runs is not judged")
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
        found = (pair for word in words for pair in _ASSIGNING.findall(word.raw))
        self.forget([first or second for first, second in found])
        self.forget(_ITEM.findall(head))
        if head in _SETTERS:
            self.forget([word.raw for word in words[1:]])
            read = _READS_HOSTS.match(self.text, words[0].start)
            if read is not None:
                self.scope.set_hosts(read[1])
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
        self.script.leave(span, f"{shown(words[1].raw)} may set every variable")

    def start(
        self,
        texts: list[str],
        scope: Scope,
        command: ShellCommand,
        span: SourceSpan,
    ) -> None:
        """Read a command that may start processes."""
        texts = self.with_file(texts, command)
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
            self.script.leave(span, f"what {head} starts is not judged")
        elif head[:1] == UNKNOWN:
            self.script.leave(span, "its first word is not in the file")
        elif head not in HARMLESS and head:
            self.on_first_node(texts, scope, command, span)

    def keep_file(self, words: Sequence[Word], command: ShellCommand) -> None:
        """Note which file ``cat`` or ``tee`` writes, with which text of the script."""
        names = [word.raw for sign, word in command.redirects if sign in (">", ">|")]
        names += [word.raw for word in words[1:2] if words[0].raw == "tee"]
        text, is_expanded = text_below(self.text, command)
        for name in (one for raw in names for one in self.scope.fields(raw)):
            self.files.pop(name.removeprefix("./"), None)
            if text and words[0].raw in ("cat", "tee") and UNKNOWN not in name:
                text = self.scope.expand_text(text) if is_expanded else text
                self.files[name.removeprefix("./")] = text

    def with_file(self, texts: list[str], command: ShellCommand) -> list[str]:
        """Return a line in which the text of a script stands for its name."""
        is_srun = base(texts[0]) == "srun" if texts else False
        rest = slurm_options(texts[1:]).rest if is_srun else texts
        at = len(texts) - len(rest)
        shell = next((n for n, t in enumerate(rest, at) if base(t) in SHELLS), None)
        end, has_text = (
            (at, False) if shell is None else after_shell_options(texts, shell)
        )
        if has_text:
            return texts
        if end < len(texts):
            text = self.files.get(texts[end].removeprefix("./"), "")
        else:
            text, is_expanded = text_below(self.text, command)
            text = self.scope.expand_text(text) if is_expanded else text
        if not text or not is_of_shell(text):
            return texts
        before = [*texts[:at], "bash"] if shell is None else texts[: shell + 1]
        return [*before, "-c", text, *texts[end:]]

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
                self.script.report(
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
            self.script.leave(span, f"what {base(texts[0])} -c starts is not judged")
            return
        found = task_command(texts, scope.of_command(), self.variables(scope), span)
        if found.command.only_looks:
            return
        if not found.command.program:
            if not _is_builtin_test(texts):
                first = f"what {shown(base(texts[0]))} starts is not in the file"
                for reason in found.command.unjudged or (first,):
                    self.script.leave(span, reason)
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
            nodes=self.part.nodes,
            chips=self.part.chips,
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
        known = {
            **self.part.variables(None, None),
            **dict.fromkeys(TASK_VARIABLES, UNKNOWN),
        }
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
        for component in self.components_of(step, line.rest, span):
            self.enter(component)
            made.append(
                step_size(self.part, self.script, step, span, is_whole=line.is_whole)
            )
        if made:
            self.step(step, line, scope, made, command)
        self.enter(0)

    def step(
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
        kept = self.kept(step, scope)
        given = {
            name: setting
            for name, setting in _exported(step.options.get("export")).items()
            if not self.scope.is_exported(name)  # which of both counts, is not certain
        }
        self.settings, all_settings = self.passed(kept, step), self.settings
        known = self.part.variables(nodes, tasks)
        if tasks is not None and tasks.value == 1:
            known |= dict.fromkeys(TASK_VARIABLES, "0")
        inner = scope.of_task(known, kept)
        self.forget_given(inner, command)
        inner.give({name: setting.text for name, setting in given.items()})
        variables = self.variables(inner)
        variables |= {n: s for n, s in given.items() if is_read(n)}
        found = task_command(words, inner, variables, span)
        self.settings = all_settings
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
        self.add(roles, per_node, tasks, command, step=step)

    def kept(self, step: SlurmJob, scope: Scope) -> frozenset[str] | None:
        """Return the names that --export lets a step have, None if it lets all."""
        given = step.options.get("export", self.part.job.options.get("export"))
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
                self.script.report(
                    rules.NO_EFFECT,
                    setting.span,
                    f"{setting.said} does not reach the tasks, because of "
                    f"{self.part.job.options['export'].said}",
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
        both = SlurmJob({**self.part.job.options, **(step.options if step else {})})
        asked = (
            step.all_chips() if step and "gpus-per-node" not in self.part.job else None
        )
        self.script.submissions.append(
            Submission(
                kind="sbatch",
                span=SourceSpan(offsets=(words[0].start, words[-1].end)),
                roles=tuple(roles),
                tasks_per_node=per_node,
                tasks=tasks,
                slots=self.part.tasks,
                is_first_node_only=not starter,
                starter=starter,
                is_shared="exclusive" not in self.part.job,
                is_array="array" in self.part.job,
                host=step.text("nodelist") if step else "",
                job_nodes=self.part.nodes and self.part.nodes.value,
                all_chips=asked or both.all_chips(),
                node_range=both.node_range() if starter == "srun" else None,
                is_in_order=both.is_in_order()
                and self.scope.assigned("SLURM_HOSTFILE") is None,
            )
        )

    def drop_helpers(self) -> None:
        """Drop what only prepares the job: a Python line beside lines that start it."""
        has_start = self.has_remote or not all(map(_is_helper, self.script.submissions))
        kept = []
        for number, one in enumerate(self.script.submissions):
            if has_start and _is_helper(one):
                continue
            is_beside = self.has_remote or number in self.background.beside
            first = self.background.first.get(number)
            kept.append(replace(one, is_alone=not is_beside, beside=first))
            if number in self.background.left[:1]:
                self.script.report(
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


def _exported(given: Setting | None) -> dict[str, Setting]:
    """Return the variables to which --export gives a value without a comma."""
    found = {}
    span = given and given.span
    for item in [] if given is None else given.text.split(","):
        name, sign, value = item.partition("=")
        if sign and not name.endswith(_LISTS):
            found[name] = Setting(value, f"--export={shown(item)}", span)
    return found
