"""Texts in which Kubernetes replaces ``$(NAME)``, and those that nobody replaces.

Kubernetes replaces a variable in a command, and in ``value`` of a later variable, if
the container has it, and leaves the text as it is otherwise. A shell replaces ``$NAME``
once, in its own words and not in the values of variables.

Source: kubernetes.io, "Define dependent environment variables", "Define a command and
arguments for a container", "Service".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.launch_options import JUDGED, SHELLS, base
from ranktable.cluster.submissions.pod_words import split_wrongly
from ranktable.cluster.submissions.shell_marks import UNKNOWN, UNSET
from ranktable.cluster.submissions.submission import Unjudged
from ranktable.cluster.submissions.task_command import LAUNCHERS, SET_BY_SCRIPTS
from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ranktable.cluster.submissions.manifests import Manifests, PodTemplate
    from ranktable.cluster.submissions.submission import Role
    from ranktable.schema.document import Path

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_LEFT: Final = re.compile(
    r"\$(?:\((?P<pod>[A-Za-z_][\w.-]*)\)|\{(\w+)\}|([A-Za-z_]\w*))"
)
_SET_BY_OTHERS: Final = re.compile(
    r"(?:VC|VK|PET|LWS|TPU|RAY|FQ_RAY|OMPI|I_MPI|HYDRA|K_MPI|MPI|JAX|DMLC|TF|AWS"
    r"|KUBERNETES|JOB|JOBSET)_\w+|\w+_SERVICE_(?:HOST|PORT)\w*|\w+_(?:TCP|UDP)(?:_\w+)?"
)
"""Variables of operators, Services and clouds, which stand in no manifest."""
_ONLY_BY: Final = {
    "JOB_COMPLETION_INDEX": "only Indexed Jobs have it",
    "V[CK]_TASK_INDEX": "only the plugin env of Volcano sets it",
    r"VC_\w+_(?:HOSTS|NUM)": "only the plugin svc of Volcano sets it, for each task",
    "LWS_(?:LEADER_ADDRESS|GROUP_SIZE|WORKER_INDEX)": "only LeaderWorkerSet sets it",
}
"""Variables of operators that no image has."""
_ANY: Final = re.compile(r"\$[{(]?([A-Z]\w*)")
MAX_GROWTH: Final = 1 << 14
"""By how many characters the variables of a container may make its texts longer."""
_NO_SHELL: Final = "no shell reads this command"


def replaced(text: str, values: Mapping[str, str], room: list[int]) -> str:
    """Return a text as Kubernetes makes it; ``$$`` stands for one sign.

    Args:
        text: The text.
        values: The variables.
        room: By how many characters the texts of a container may still grow; a text
            that needs more is not known.
    """
    parts, at = [], 0
    for match in _REFERENCE.finditer(text):
        value = "$" if match[0] == "$$" else values.get(match[1], match[0])
        room[0] -= max(0, len(value) - len(match[0]))
        if room[0] < 0:
            return UNKNOWN
        parts += [text[at : match.start()], value]
        at = match.end()
    return "".join((*parts, text[at:]))


def unset_in(texts: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return variables of operators that texts name, and who would set them.

    Args:
        texts: The words of a command.
        known: The variables that the container has.
    """
    names = {name for text in texts for name in _ANY.findall(text)}
    return {
        name: who
        for name in sorted(names.difference(known))
        for pattern, who in _ONLY_BY.items()
        if re.fullmatch(pattern, name)
    }


def judge_texts(made: Manifests, template: PodTemplate, role: Role) -> None:
    """Report options and variables whose value is the name of a variable."""
    texts = _Texts(made, template, role)
    texts.judge_words()
    texts.judge_unset()
    texts.judge_options()
    texts.judge_variables()
    texts.judge_arguments()


def judge_unread(made: Manifests, template: PodTemplate, role: Role) -> None:
    """Report a launcher among the words of a command that is not read as one."""
    texts = _Texts(made, template, role)
    if LAUNCHERS.search(" ".join(texts.words.values())):
        texts.judge_words()


class _Texts:
    """The words and variables of a container."""

    def __init__(self, made: Manifests, template: PodTemplate, role: Role) -> None:
        self.made, self.template, self.role = made, template, role
        self.words: dict[Path, str] = {
            (*template.here, key, at): str(word)
            for key in ("command", "args")
            for at, word in enumerate(template.job.items(*template.here, key))
        }
        self.own = template.env()
        names = [base(word) for word in self.words.values()]
        self.has_shell = any(name in SHELLS for name in names)
        self.script = next((n for n in names[:1] if n.endswith((".sh", ".bash"))), "")
        self.told: set[str] = set()
        known = {*self.own, *role.variables, *role.counted}
        is_open = template.has_other_variables
        self.unset = {} if is_open else unset_in(self.words.values(), known)

    def left_in(self, text: str, written: str = "") -> re.Match[str] | None:
        """Return what nobody replaces in a text, None if all of it may be replaced.

        Args:
            text: The text.
            written: How it is written, with ``$$`` where a text is meant to stay.
        """
        for match in _LEFT.finditer(text):
            name = match["pod"]
            if f"${match[0]}" in written:
                continue
            if name is None or not (
                self.template.has_other_variables
                or (_SET_BY_OTHERS.fullmatch(name) and name not in self.unset)
                or name in self.role.counted
                or (name in self.role.variables and name not in self.own)
            ):
                return match
        return None

    def judge_words(self) -> None:
        """Judge where the words of the command begin and end."""
        paths = list(self.words)
        if not paths or "args" in paths[0]:
            return  # they follow the command of the image
        for at, message, hint in split_wrongly(list(self.words.values())):
            span = self.template.job.span(*paths[at])
            self.made.report(rules.WORDS, span, message, hint=hint)

    def judge_unset(self) -> None:
        """Report options that are empty, because nobody sets a variable in this job."""
        for name, setting in self.role.command.options.items():
            if name not in JUDGED or UNSET not in setting.text:
                continue
            said = setting.said.partition("=")[0].partition(" ")[0]
            near = [n for n in self.role.variables if n.startswith("VC_")]
            hint = "; ".join(f"{name}: {who}" for name, who in self.unset.items())
            if near:
                hint += f"; this job has {', '.join(near[:4])}"
            self.made.report(
                rules.NO_RANK,
                setting.span,
                f"{said} has no value, because nobody sets "
                f"{' and '.join(self.unset)} in this job",
                hint=hint,
            )

    def judge_options(self) -> None:
        """Judge the options of the launcher."""
        for setting in self.role.command.options.values():
            match = self.left_in(setting.text)
            if match is None:
                continue
            word = next((at for at, w in self.words.items() if match[0] in w), None)
            span = self.template.job.span(*word) if word else setting.span
            source = next((n for n, s in self.own.items() if match[0] in s.text), "")
            name = match["pod"] or match[2] or match[3]
            self.told.add(match[0])
            if self.script:
                reason = f"{self.script} gets the text {match[0]}"
                self.made.unjudged.append(Unjudged(span, reason))
                continue
            if word is None and source:
                span = self.own[source].span
                message = f"nobody replaces {match[0]} in the value of {source}"
                hint = f"set {name} above it, and write $({name})"
            elif match["pod"]:
                message = f"the container has no variable {name}, so {match[0]} stays"
                hint = self.unset.get(name, f"set {name} in its env")
            else:
                why = "it is quoted" if self.has_shell else _NO_SHELL
                message = f"nobody replaces {match[0]} here: {why}"
                hint = f"write $({name}), or start it with sh -c"
            self.made.report(
                rules.NO_EFFECT, span, message, hint=hint, severity=Severity.ERROR
            )

    def judge_variables(self) -> None:
        """Judge the variables that the container sets."""
        program = self.role.command.program
        items = self.template.job.items(*self.template.here, "env")
        texts = [each for each in items if isinstance(each, dict)]
        written = {str(each.get("name")): str(each.get("value")) for each in texts}
        for name, setting in self.own.items():
            match = self.left_in(setting.text, written.get(name, ""))
            is_read = not (self.has_shell or self.script) and (
                (program == "python" and name in SET_BY_SCRIPTS)
                or (program == "torchrun" and name.startswith("PET_"))
            )
            if match is None or not (is_read or match["pod"]) or match[0] in self.told:
                continue
            other = match["pod"] or match[2] or match[3]
            self.made.report(
                rules.NO_EFFECT,
                setting.span,
                f"nobody replaces {match[0]} in the value of {name}"
                + (f": {other} is not set above it" if match["pod"] else ""),
                hint=f"set {other} above it, and write $({other})",
                severity=Severity.ERROR if is_read else Severity.WARNING,
            )

    def judge_arguments(self) -> None:
        """Judge the words that no shell reads, without the options of a launcher."""
        if self.has_shell or self.script:
            return
        known = {*self.own, *self.role.variables, *self.role.counted, *SET_BY_SCRIPTS}
        for path, word in self.words.items():
            match = self.left_in(word, word)
            if match is None or match[0] in self.told:
                continue
            name = match["pod"] or match[2] or match[3]
            if match["pod"] in self.own or (not match["pod"] and name not in known):
                continue
            why = f"the container has no variable {name}" if match["pod"] else _NO_SHELL
            self.made.report(
                rules.NO_EFFECT,
                self.template.job.span(*path),
                f"the program gets the text {match[0]}: {why}",
                hint=f"set {name} in its env" if match["pod"] else f"write $({name})",
            )
