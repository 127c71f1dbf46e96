"""Read a batch script of Slurm: its ``#SBATCH`` lines and the lines that start tasks.

Source: SchedMD/slurm, src/sbatch/opt.c, doc/man/man1/sbatch.1 and srun.1. What srun
inherits from the options of the job was measured with Slurm 22.05.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.background import Background, with_ends
from ranktable.cluster.submissions.batch_job import read_jobs, refuse_form
from ranktable.cluster.submissions.detect import HEAD, is_of_shell
from ranktable.cluster.submissions.job_steps import StepReader
from ranktable.cluster.submissions.launch_options import (
    HARMLESS,
    are_quiet,
    base,
    find_launch,
    split_wrappers,
)
from ranktable.cluster.submissions.loops import (
    LoopRounds,
    incremented,
    read_function,
    read_rounds,
)
from ranktable.cluster.submissions.script_files import ScriptFiles
from ranktable.cluster.submissions.script_variables import (
    ACTIVATION,
    EXPORTS,
    ScriptVariables,
    exported,
)
from ranktable.cluster.submissions.shell import (
    Scope,
    ShellCommand,
    TooDeepError,
    Word,
    commands,
    is_assignment,
    is_open,
    name_of,
)
from ranktable.cluster.submissions.shell_marks import UNKNOWN, shown, without_marks
from ranktable.cluster.submissions.steps_beside import (
    apart,
    joined_steps,
    same_meetings,
    same_ports,
    same_ranks,
)
from ranktable.cluster.submissions.submission import Script, Submission, Unjudged
from ranktable.cluster.submissions.task_command import BLOCKS, LAUNCHERS
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_MAY_WRAP: Final = ("env", "command", "conda")
"""Harmless programs, unless they start another one."""
_BLANK_END: Final = re.compile(r"\\[ \t]")
_WORDS_BELOW: Final = re.compile(r"[ \t]*\n[ \t]*[^\s#-]")
_MOST_REPEATED: Final = 20_000
"""Commands of loops and functions that are read, each time that they are run."""
_ALL_EXPORTED: Final = re.compile(r"-[b-zA-Z]*a\w*|allexport")


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
        components = read_jobs(text, self.body, self.script)
        part = components[0]
        self.variables = ScriptVariables(
            text,
            part.variables(part.nodes, part.tasks),
            exported(part.job.options.get("export")),
        )
        self.scope = self.variables.scope
        self.files = ScriptFiles(text, self.scope)
        self.steps = StepReader(self.script, components, self.variables)
        self.perhaps: list[Unjudged] = []
        self.functions: dict[str, Sequence[ShellCommand]] = {}
        self.called: set[str] = set()
        self.background = Background()
        self.repeated = 0
        self.is_tested = False

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
        is_whole = not (self.steps.has_remote or script.unjudged)
        script.submissions = joined_steps(script.submissions, is_whole=is_whole)
        script.found += same_ranks(script.submissions)
        script.found += same_ports(script.submissions)
        script.found += same_meetings(script.submissions)
        script.found += apart(script.submissions)
        for job, _, _, chips in self.steps.components if script.submissions else ():
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
            self.variables.forget(
                [name_of(word) for word in words if is_assignment(word)]
            )
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
            self.variables.forget([counter] if counter else [])
            self.block(command, span)
            return True
        before = dict(self.variables.settings)
        if base(words[0].raw) == "env" and not all(map(is_assignment, words[1:])):
            words = words[is_assignment(words[1]) :]
            command = replace(command, words=tuple(words))
        count = next((n for n, w in enumerate(words) if not is_assignment(w)), 0)
        if not count and is_assignment(words[0]):
            for word in words:
                self.variables.take(self.scope, word)
            return True
        scope = self.scope.of_command() if count else self.scope
        for word in words[:count]:
            self.variables.take(scope, word)
            scope.exported.add(name_of(word))
        words = words[count:]
        self.refuse_blank_end(words[-1])
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
        if words[0].raw != "export":
            self.variables.settings = before
        return is_on

    def refuse_blank_end(self, last: Word) -> None:
        """Report a line that a blank behind its backslash ends."""
        if _BLANK_END.fullmatch(last.raw) and self.goes_on(last.end):
            self.script.report(
                rules.NO_EFFECT,
                SourceSpan(offsets=(last.start, last.end)),
                "a blank behind \\ ends the line, so the next one is a command of its "
                "own",
                hint="delete the blank",
                severity=Severity.ERROR,
            )

    def goes_on(self, at: int) -> bool:
        """Whether the next line has words that are no option of their own."""
        return _WORDS_BELOW.match(self.text, at) is not None

    def block(self, command: ShellCommand, span: SourceSpan) -> None:
        """Read a command that may run several times or never."""
        for word in command.words:
            if not self.scope.assign(word, is_certain=False):
                continue
            self.variables.settings.pop(name_of(word), None)
        head, *rest = command.words
        if head.raw in EXPORTS:
            self.scope.exported.update(map(name_of, command.words))
        if head.raw in ("for", "select"):
            self.variables.forget([word.raw for word in rest[:1]])
        self.variables.forget_set(command.words)
        text = self.text[slice(*span.offsets or (0, 0))]
        reason = f"it is in {BLOCKS.get(command.block, 'a condition')}"
        if command.words[0].raw in HARMLESS:
            return
        if head.raw in self.functions:
            self.blocks(head.raw, command.block)
        if LAUNCHERS.search(text):
            self.script.leave(span, reason)
            self.steps.has_remote = True
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
        self.variables.forget_set(words)
        self.files.keep(words, command)
        if head in EXPORTS:
            self.variables.export(words[1:])
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
                self.steps.has_remote = True
        elif head not in HARMLESS or (
            head in _MAY_WRAP and LAUNCHERS.search(" ".join(w.raw for w in words))
        ):
            is_step = any(base(word.raw) == "srun" for word in words)
            texts = [
                text
                for word in words
                if not (is_step and _is_quiet(scope.may_be(word.raw)))
                for text in scope.fields(word.raw)
            ]
            texts = self.files.inserted(list(split_wrappers(texts)), command)
            self.steps.start(texts, scope, command, span)
        return True

    def sourced(self, words: Sequence[Word], span: SourceSpan) -> None:
        """Note that another file may set everything."""
        if len(words) < 2 or ACTIVATION.search(words[1].raw):
            return
        self.script.leave(span, f"{shown(words[1].raw)} may set every variable")

    def drop_helpers(self) -> None:
        """Drop what only prepares the job: a Python line beside lines that start it."""
        has_start = self.steps.has_remote or not all(
            map(_is_helper, self.script.submissions)
        )
        kept = []
        for number, one in enumerate(self.script.submissions):
            may_start = self.steps.has_unread and (one.job_nodes or 1) > 1
            if (has_start or may_start) and _is_helper(one):
                continue
            is_beside = self.steps.has_remote or number in self.background.beside
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


def _is_quiet(values: Sequence[str]) -> bool:
    """Whether a word of a step is options that change nothing, whatever its value."""
    return bool(values) and all(map(are_quiet, values))


def _is_helper(one: Submission) -> bool:
    """Whether a line need not be the job: a program that the batch script runs."""
    return one.is_first_node_only and one.roles[0].command.program == "python"
