"""The ``#SBATCH`` lines of a script: the job they ask for, and what sbatch refuses.

Source: SchedMD/slurm, src/sbatch/opt.c, doc/man/man1/sbatch.1.
"""

from __future__ import annotations

import re
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.detect import late_directives
from ranktable.cluster.submissions.launch_options import (
    is_slurm_flag,
    near_slurm_option,
    slurm_options,
)
from ranktable.cluster.submissions.shell import plain_number
from ranktable.cluster.submissions.shell_marks import NOT_ASKED, UNKNOWN, shown
from ranktable.cluster.submissions.slurm_job import SlurmJob, chip_count
from ranktable.cluster.submissions.submission import Fact, Script, Setting
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Severity
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_COUNTS: Final = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
NUMBERS: Final = (
    *(*_COUNTS, "gpus", "gpus-per-node", "gpus-per-task", "gres", "ntasks-per-gpu"),
)
"""Options whose values are needed for the sums."""
_HETEROGENEOUS: Final = re.compile(r"(?m)^#SBATCH[ \t]+(?:hetjob|packjob)\b")
_SOCKETS: Final = {"sockets-per-node", "extra-node-info", "B"}
_OPEN_RANGE: Final = re.compile(r"([0-9]+)-(?!\1\Z)[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_NODES: Final = re.compile(r"[0-9km,:-]*[0-9km]")
_PLAIN: Final = re.compile(r"[a-z0-9.,:+-]+")
"""A value that no other program replaces."""
_PLACEHOLDER: Final = re.compile(r"[{}<>@%$]")
"""What a script has that another program completes."""


class BatchJob(NamedTuple):
    """What a job is given; a heterogeneous job has one for each component.

    Attributes:
        job: Its options.
        nodes: Its nodes.
        tasks: Its tasks, as SLURM_NTASKS has them; None if not set.
        chips: The chips of a node.
    """

    job: SlurmJob
    nodes: Fact | None
    tasks: Fact | None
    chips: Fact | None

    def variables(
        self, nodes: Fact | None, tasks: Fact | None, step: Iterable[str] = ()
    ) -> dict[str, str]:
        """Return what Slurm's variables are, as far as it is known.

        Args:
            nodes: The nodes of the job or step.
            tasks: Its tasks.
            step: The options of a step.
        """
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
        known = {
            name: UNKNOWN if fact is None else str(fact.value)
            for name, fact in facts.items()
        }
        asked = {*self.job.options, *step}
        lost = [name for name, option in _WITH_OPTION.items() if option not in asked]
        return known | {name: NOT_ASKED + name for name in lost}


_LINE: Final = re.compile(
    r"(?m)^#(?:(sbatch(?=[ \t]+-)|SBATCH(?![ \t]*(?:het|pack)job\b))[ \t]*([^\s#].*))$"
)
"""A line for sbatch, which refuses words that are not options."""
_MISSED: Final = re.compile(
    r"(?m)^(?:[ \t]+#SBATCH|#(?!SBATCH)S[A-Z]{3,6})[ \t]+--?[a-zA-Z][^\n]*"
)
"""A line that may be meant for sbatch: it is indented, or its word is misspelled."""
_NEAR: Final = 0.8
_ONE_HYPHEN: Final = re.compile(
    r"-(?:(?P<name>nodes|ntasks|ntasks-per-node|cpus-per-task|gres|mem|gpus"
    r"|gpus-per-node|gpus-per-task|time|partition|nodelist)(?:=.*)?"
    r"|(?P<letter>[Nnc])=.*)",
    re.DOTALL,
)
_WITH_OPTION: Final = {
    f"SLURM_{name.upper().replace('-', '_')}": name
    for name in ("gpus", "gpus-per-node", "gpus-per-task", "ntasks-per-node")
}
"""Variables that are set only if an option is given, such as SLURM_GPUS_PER_NODE.

Source: SchedMD/slurm, doc/man/man1/sbatch.1 and srun.1, "OUTPUT ENVIRONMENT VARIABLES".
"""


def read_jobs(text: str, end: int, script: Script) -> list[BatchJob]:
    """Return what the lines above the first command ask for.

    Args:
        text: The script.
        end: Where its first command begins.
        script: Gets what is wrong with the lines.
    """
    jobs = []
    for options in _directives(text, end, script):
        job = SlurmJob(options)
        nodes = _job_nodes(job, script)
        chips = job.chips(job.number("ntasks-per-node"), nodes)
        jobs.append(BatchJob(job, nodes, _job_tasks(job, nodes), chips))
    return jobs


def refuse_form(text: str, script: Script) -> None:
    """Report what sbatch refuses before it reads any option."""
    at = text.find("\r\n")
    if at >= 0:
        message = "the lines end as on DOS (\\r\\n), which sbatch refuses"
        hint = "convert it: sed -i 's/\\r$//' FILE"
        script.report(
            rules.REFUSED, SourceSpan(offsets=(at, at + 1)), message, hint=hint
        )
    if not text.startswith("#!"):
        what = (
            "first line does not begin with #!" if text.strip() else "script is empty"
        )
        message = f"the {what}, so sbatch refuses it"
        hint = "begin it with #!/bin/bash"
        script.report(rules.REFUSED, SourceSpan(offsets=(0, 0)), message, hint=hint)


def _directives(text: str, end: int, script: Script) -> list[dict[str, Setting]]:
    """Return the options above the first command, of each component of the job."""
    options: dict[str, Setting] = {}
    components = [options]
    ends = [match.start() for match in _HETEROGENEOUS.finditer(text)]
    for match in _LINE.finditer(text, 0, end):
        span = SourceSpan(offsets=match.span())
        if match[1] == "sbatch":
            word = match[0].split(maxsplit=1)[0]
            message = f"{word} is a comment for sbatch; only #SBATCH in capitals"
            script.report(rules.NO_EFFECT, span, f"{message} counts")
            continue
        while ends and ends[0] < match.start():
            options = {}
            components.append(options)
            ends.pop(0)
        line = slurm_options(_with_hyphens(_words(match[2]), span, script))
        for name, value in line.options.items():
            options[name] = Setting(value, option_said(name, value), span)
            _refuse_value(name, options[name], script)
            refuse_option(name, options[name], script, "sbatch")
        if line.rest and not _PLACEHOLDER.search(match[2]):
            message = (
                f"sbatch refuses {quoted(line.rest[0])}, which belongs to no option"
            )
            script.report(rules.REFUSED, span, message)
    for match in _MISSED.finditer(text, 0, end):
        word = match[0].split()[0]
        if get_close_matches(word, ["#SBATCH"], 1, _NEAR):
            span = SourceSpan(offsets=match.span())
            message = f"{quoted(match[0].rstrip())} is a comment for sbatch"
            hint = "begin the line with #SBATCH"
            script.report(rules.NO_EFFECT, span, message, hint=hint)
    if late := late_directives(text):
        others = f", here and {len(late) - 1} more" if len(late) > 1 else ""
        message = "sbatch reads no #SBATCH line below the first command"
        hint = "move them above it"
        place = SourceSpan(offsets=late[0].span())
        script.report(rules.NO_EFFECT, place, message + others, hint=hint)
    for each in components:
        _refuse_pairs(each, script)
    return components


def _with_hyphens(words: list[str], span: SourceSpan, script: Script) -> list[str]:
    """Return options as they are meant, and report those that are refused as written.

    Tried with Slurm 22.05: ``-nodes=2`` is ``-n`` with the value ``odes=2``.
    """
    meant: list[str] = []
    for at, word in enumerate(words):
        match = _ONE_HYPHEN.fullmatch(word)
        if match is None or (at and _takes_next(words[at - 1])):
            meant.append(word)
            continue
        name, letter = match["name"], match["letter"]
        written = f"-{name}" if name else f"-{letter}="
        message = f"sbatch refuses {quoted(written)}"
        if name:
            message += ": a name behind one hyphen is read as a letter and its value"
        else:
            message += ": the value of a letter stands behind it without ="
        hint = f"write --{name}=" if name else f"write -{letter}"
        script.report(rules.REFUSED, span, message, hint=hint)
        meant.append(f"-{word}" if name else word.replace("=", "", 1))
    return meant


def _takes_next(word: str) -> bool:
    """Whether the word behind an option is its value."""
    name = word.removeprefix("--")
    is_long = name != word
    is_short = len(word) == 2 and word[0] == "-"
    is_open = "=" not in word and (is_long or is_short)
    return is_open and not is_slurm_flag(word, name)


def refuse_option(name: str, setting: Setting, script: Script, program: str) -> None:
    """Report an option that may be misspelled, and a number that is none.

    Measured with Slurm 22.05, which takes ``2k``, ``2-4`` and ``-2`` for nodes only.
    """
    near = near_slurm_option(name)
    if near is not None:
        message = f"{program} has no option --{name}, and refuses it"
        hint = f"write --{near}, unless a plugin of the site adds it"
        script.report(
            *(rules.REFUSED, setting.span, message),
            hint=hint,
            severity=Severity.WARNING,
        )
    text = setting.text
    ends = [plain_number(end) for end in text.split("-")]
    is_turned = len(ends) > 1 and None not in ends and ends[0] > ends[1]  # type: ignore[operator]
    form = _NODES if name == "nodes" else _NUMBER
    is_wrong = _PLAIN.fullmatch(text) and not form.fullmatch(text)
    if name in _COUNTS and (is_wrong or is_turned):
        message = f"{setting.said} is no number that {program} takes"
        script.report(rules.REFUSED, setting.span, message)


def _refuse_value(name: str, setting: Setting, script: Script) -> None:
    """Report a number that sbatch refuses; measured with Slurm 22.05."""
    if name in _COUNTS and setting.text in ("", "0"):
        message = f"{setting.said}: sbatch needs a number above 0 here"
        script.report(rules.REFUSED, setting.span, message)
    if name in NUMBERS and "$" in setting.text:
        message = f"{setting.said}: sbatch does not replace variables in #SBATCH lines"
        hint = f"write the number, or give it to sbatch: sbatch --{name}=..."
        script.report(rules.REFUSED, setting.span, message, hint=hint)


def _refuse_pairs(options: Mapping[str, Setting], script: Script) -> None:
    """Report options that Slurm refuses beside each other."""
    one = options.get("ntasks-per-gpu")
    for name in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        if one is not None and name in options:
            message = f"{one.said} excludes {options[name].said}"
            script.report(rules.REFUSED, one.span, message, hint="drop one")
    _refuse_sums(options, script)
    chips, list_ = options.get("gpus-per-node"), options.get("gres")
    if chips and list_ and chip_count(list_.text, "gres"):
        # Slurm 22.05 takes both; srun.1 of 26.11 says that they are refused.
        script.report(
            rules.REFUSED,
            chips.span,
            f"{chips.said} and {list_.said} ask for the same; newer versions of "
            "Slurm refuse both together",
            hint="drop one",
            severity=Severity.WARNING,
        )


def _refuse_sums(options: Mapping[str, Setting], script: Script) -> None:
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
        script.report(rules.REFUSED, of_task.span, message, hint=hint)
    for whole, number, part in job.products():
        if whole.value and part.value and number.value * part.value != whole.value:
            message = f"sbatch refuses {whole.said} for {number.said}"
            hint = "leave one of the three out"
            text = f"{message} with {part.said}"
            script.report(rules.REFUSED, whole.span, text, hint=hint)
    total, each = job.number("gpus"), job.number("gpus-per-node")
    if total and each and each.value and total.value % each.value:
        message = f"sbatch refuses {total.said}, which is no multiple of {each.said}"
        script.report(rules.REFUSED, total.span, message, hint="leave one out")
    of_socket = options.get("gpus-per-socket")
    if of_socket is not None and not _SOCKETS & options.keys():
        message = f"{of_socket.said}: sbatch needs --sockets-per-node beside it"
        script.report(rules.REFUSED, of_socket.span, message)


def _job_nodes(job: SlurmJob, script: Script) -> Fact | None:
    """Return the nodes of the job; Slurm gives it none without a task."""
    nodes, tasks = job.nodes(), job.number("ntasks")
    if nodes is None or tasks is None or not 0 < tasks.value < nodes.value:
        return nodes
    script.report(  # measured with Slurm 22.05
        rules.NO_EFFECT,
        nodes.span,
        f"{nodes.said} has no effect: Slurm gives the job as many nodes as it has "
        f"tasks ({tasks.said})",
        hint=f"--ntasks={nodes.value}, or --ntasks-per-node instead of it",
    )
    return Fact(tasks.value, tasks.said, tasks.span)


def _job_tasks(job: SlurmJob, nodes: Fact | None) -> Fact | None:
    """Return the tasks of the job, as SLURM_NTASKS has them; None if not set."""
    if "ntasks" in job:
        return job.number("ntasks")
    of_chip, chips = job.number("ntasks-per-gpu"), job.listed("gpus")
    if of_chip is not None and chips is not None:
        said = f"{of_chip.said}, {chips.said}"
        return Fact(of_chip.value * chips.value, said, of_chip.span)
    each = job.tasks_per_node(nodes)
    if each is None or nodes is None:
        return None
    said = f"{each.said} on {nodes.value} nodes" if nodes.value > 1 else each.said
    return Fact(each.value * nodes.value, said, each.span)


def _words(text: str) -> list[str]:
    """Return the words of a line, without its comment."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def option_said(name: str, value: str) -> str:
    """Return an option of sbatch or srun as a message shows it."""
    sign = "--" if len(name) > 1 else "-"
    return f"{sign}{name}={shown(value)}" if value else f"{sign}{name}"
