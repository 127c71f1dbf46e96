"""Read manifests of Kubernetes with jobs in them; ``kinds`` has one reader a kind.

Expressions of Helm, ``{{ ... }}``, are values that are not known. A document with
``{{ if }}`` or other control lines is not judged.

Source: kubernetes.io, "Manage resources", "DNS for Services and Pods", "Define
dependent environment variables".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.pod_text import (
    MAX_GROWTH,
    judge_texts,
    replaced,
    unset_in,
)
from ranktable.cluster.submissions.shell import Scope, plain_number
from ranktable.cluster.submissions.shell_marks import (
    JOB_INDEX,
    OWN_HOST,
    OWN_NAME,
    POD_INDEX,
    UNKNOWN,
    UNSET,
    shown,
    without_marks,
)
from ranktable.cluster.submissions.submission import (
    Fact,
    LaunchCommand,
    Role,
    Setting,
    Submission,
    Unjudged,
)
from ranktable.cluster.submissions.task_command import TaskCommand, task_command
from ranktable.schema.document import Document, SourceSpan
from ranktable.schema.finding import Finding, Findings, Rule, Severity
from ranktable.schema.json_parser import parse
from ranktable.schema.rules.syntax import NOT_YAML, REFUSED_YAML
from ranktable.schema.text import quoted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.schema.document import Path

_BRACES: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_CONTROL: Final = re.compile(
    r"\{\{-?\s*(?:if|else|range|with|define|block|end|include)\b"
)
BRACED: Final = re.compile(r"\$\{[A-Za-z_]\w*(?:[:=?+-][^{}\n]*)?\}")
"""A text of envsubst and Flux, which YAML does not take in braces and brackets."""
_DIVIDER: Final = re.compile(r"(?m)^---(?=[ \t\r]*$|[ \t]+#)")
_NOT_CHIPS: Final = re.compile(
    r"(?i)rdma|roce|infiniband|\bib\b|hca|sriov|nic|efa|vpc|eni|fuse|kvm|hugepages|smarter"
    r"|mps\.com|tun|ipv4|pod|network|device-plugin"
    # Shares of a chip: HAMi, Volcano, Aliyun, Tencent, Koordinator.
    r"|mem|(?<!neuron)cores?\b|percent|ratio|vcuda|koordinator"
)
_SHARE: Final = re.compile(rf"(?i)[gnt]pu|cuda|neuron|{UNKNOWN}")
_OTHER_CHIPS: Final = re.compile(
    r'"(?:runtimeClassName|resourceClaims|claims)":|"privileged": true'
    r'|"/dev/(?!shm\b)|"NVIDIA_VISIBLE_DEVICES"'
)
_FRACTION: Final = re.compile(r"\d*\.\d*[1-9]\d*|(?!\d*000m)\d+m")
_OF_SEVERAL_CORES: Final = re.compile(r"aws\.amazon\.com/neuron(?:device)?")
"""Each of these chips is several devices to torch; how many depends on the machine."""


class Manifest:
    """One object of a document, with the places of its values."""

    def __init__(self, document: Document, path: Path) -> None:
        """Describe the object at a path."""
        self.document = document
        self.path = path

    def get(self, *path: str | int) -> Any:
        """Return a value, None if there is none."""
        return self.document.get(*self.path, *path)

    def span(self, *path: str | int, of_key: bool = False) -> SourceSpan:
        """Return the place of a value."""
        return self.document.span_of(*self.path, *path, of_key=of_key)

    def number(self, *path: str | int, default: int | None = None) -> Fact | None:
        """Return a number; the default if there is none, None if it is not known."""
        value, name = self.get(*path), str(path[-1])
        if value is None and default is not None:
            return Fact(default, f"no {name}", self.span(*path))
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            return None
        return Fact(value, f"{name}: {value}", self.span(*path))

    def members(self, *path: str | int) -> dict[str, Any]:
        """Return an object, an empty one if there is none."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def items(self, *path: str | int) -> list[Any]:
        """Return a list, an empty one if there is none."""
        value = self.get(*path)
        return value if isinstance(value, list) else []

    def text(self, *path: str | int) -> str:
        """Return a text, an empty one if there is none."""
        value = self.get(*path)
        return value if isinstance(value, str) else ""

    def is_whole(self, *path: str | int) -> bool:
        """Whether an object has no members that stand elsewhere in the file."""
        start, end = self.span(*path).offsets or (0, 0)
        written = self.document.text[start:end]
        return "<<" not in written and self.get(*path) != UNKNOWN

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.text("metadata", "name")


@dataclass(slots=True, kw_only=True)
class Manifests:
    """What is read of a file with manifests.

    Attributes:
        objects: Its objects, jobs or not.
        named: The same by kind and name.
        submissions: What its jobs start.
        unjudged: What is not judged.
        found: What is wrong with it.
        is_filled: Whether another tool replaces ``${NAME}`` in it.
    """

    objects: list[Manifest] = field(default_factory=list)
    named: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    submissions: list[Submission] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    is_filled: bool = False

    def report(
        self,
        rule: Rule,
        span: SourceSpan | None,
        message: str,
        *,
        hint: str | None = None,
        severity: Severity | None = None,
    ) -> None:
        """Add a finding of a rule."""
        self.found.append(rule.finding(span, message, hint=hint, severity=severity))


class PodTemplate:
    """The template of a pod, and the container that trains.

    Attributes:
        host: The host name of a pod, with a mark for its index; empty if not known.
        is_named_so: Whether that is the name of the pod too.
    """

    def __init__(self, job: Manifest, path: Path, container: str = "") -> None:
        """Describe the template at a path below a job.

        Args:
            job: The job.
            path: The path of the pod's spec.
            container: Name of the container that trains; by default the first one with
                chips, or the first one.
        """
        self.job = job
        self.path = path
        self.host = ""
        self.is_named_so = False
        names = [each.get("name") for each in self.containers()]
        with_chips = [n for n in range(len(names)) if self.chips_of(n) is not None]
        self.index = (with_chips or [0])[0]
        if container in names:
            self.index = names.index(container)

    def has_own_name(self) -> bool:
        """Whether the host name of a pod is the name that its job gives it."""
        names = ("hostname", "hostNetwork", "setHostnameAsFQDN")
        return not any(self.job.get(*self.path, name) for name in names)

    def containers(self) -> list[dict[str, Any]]:
        """Return its containers."""
        found = self.job.items(*self.path, "containers")
        return [each if isinstance(each, dict) else {} for each in found]

    @property
    def here(self) -> Path:
        """The path of the container that trains."""
        return (*self.path, "containers", self.index)

    def chips_of(self, index: int) -> Fact | None:
        """Return the chips in the limits of a container."""
        return chips_in(self.job, (*self.path, "containers", index, "resources"))

    def chips(self) -> Fact | None:
        """Return the chips of the container that trains, None if not known."""
        return self.chips_of(self.index)

    def lacks_chips(self) -> bool:
        """Whether the pod asks for no chips, as far as its spec says.

        A class of the runtime, claims, privileges and devices of the host may give it
        some without limits, and names of other resources shares of them.
        """
        pod = self.job.members(*self.path)
        held = [each.get("resources", {}) for each in self.containers()]
        parts = [
            each.get(key, {}) if isinstance(each, dict) else None
            for each in held
            for key in ("limits", "requests")
        ]
        is_read = all(isinstance(each, dict) for each in parts)
        names = [name for each in parts if isinstance(each, dict) for name in each]
        return (
            bool(held)
            and is_read
            and not any(is_chip(name) or _SHARE.search(name) for name in names)
            and not _OTHER_CHIPS.search(json.dumps(pod, default=str))
        )

    def env(self) -> dict[str, Setting]:
        """Return the variables that the container itself sets."""
        found: dict[str, Setting] = {}
        above: dict[str, str] = {}
        room = [MAX_GROWTH]
        for at, item in enumerate(self.job.items(*self.here, "env")):
            name = item.get("name") if isinstance(item, dict) else None
            if isinstance(name, str):
                span = self.job.span(*self.here, "env", at)
                value = item.get("value")
                is_text = isinstance(value, str)
                text = replaced(value, above, room) if is_text else self._of_pod(item)
                above[name] = text
                found[name] = Setting(text, f"{name}={shown(text)}", span)
        return found

    def _of_pod(self, item: dict[str, Any]) -> str:
        """Return the mark of an index or the name of the pod, if an item is one."""
        text = str(item.get("valueFrom", ""))
        if "job-global-index" in text:
            return JOB_INDEX
        if "'metadata.name'" in text and self.is_named_so:
            return OWN_HOST
        is_index = "job-completion-index" in text or "kubernetes.io/pod-index" in text
        return POD_INDEX if is_index else UNKNOWN

    @property
    def has_other_variables(self) -> bool:
        """Whether the container has variables whose names are not in the file."""
        return bool(self.job.items(*self.here, "envFrom"))

    def command(self, variables: Mapping[str, Setting]) -> TaskCommand:
        """Return what the container runs; Kubernetes replaces $(NAME) in it."""
        here = self.here
        keys = [key for key in ("command", "args") if self.job.get(*here, key)]
        written = [w for key in keys for w in self.job.items(*here, key)]
        if "command" not in keys or not all(isinstance(w, str) for w in written):
            unread = LaunchCommand(is_whole=False, span=self.job.span(*here))
            return TaskCommand(unread, variables)
        texts = {name: each.text for name, each in variables.items()}
        room = [MAX_GROWTH]
        words = [replaced(word, texts, room) for word in written]
        unset = {} if self.has_other_variables else unset_in(written, variables)
        values = dict.fromkeys(unset, UNSET) | texts
        known = {OWN_NAME: self.host} if self.host else {}
        scope = Scope(known=known, is_task=True, values=values, exported=set(texts))
        span = self.job.span(*here, "command")
        return task_command(words, scope, variables, span)


def chips_in(job: Manifest, path: Path) -> Fact | None:
    """Return the chips in the limits of a place with resources, None if not known."""
    limits = job.members(*path, "limits")
    total, said = 0, []
    for name, value in limits.items():
        if not is_chip(name):
            continue
        count = plain_number(str(value))
        if count is None or _OF_SEVERAL_CORES.fullmatch(name):
            return None
        total += count
        said.append(f"{name}: {count}")
    return Fact(total, ", ".join(said), job.span(*path, "limits")) if said else None


def is_chip(resource: str) -> bool:
    """Whether a resource is a kind of chip: it has a domain, and is not a network."""
    domain, _, name = resource.partition("/")
    is_native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(name) and not is_native and not _NOT_CHIPS.search(resource)


def judge_resources(made: Manifests, job: Manifest, path: Path) -> None:
    """Report requests of chips that Kubernetes refuses."""
    limits, requests = (job.members(*path, key) for key in ("limits", "requests"))
    is_whole = job.is_whole(*path, "limits")
    for name, value in requests.items():
        if "/" in name and name not in limits and is_whole:
            made.report(
                rules.POD_RESOURCES,
                job.span(*path, "requests", name),
                f"{name} is in requests and not in limits, which Kubernetes refuses",
                hint=f"add it to limits: {name}: {value}",
            )
        elif (
            "/" in name
            and name in limits
            and str(limits[name]) != str(value)
            and UNKNOWN not in f"{limits[name]}{value}"
        ):
            made.report(
                rules.POD_RESOURCES,
                job.span(*path, "requests", name),
                f"requests of {name} are {value}, limits {limits[name]}; Kubernetes "
                "refuses different ones",
                hint="write the same number in both",
            )
    for name, value in limits.items():
        if is_chip(name) and _FRACTION.fullmatch(str(value)):
            made.report(
                rules.POD_RESOURCES,
                job.span(*path, "limits", name),
                f"{name} is {quoted(value)}; chips are counted in whole numbers",
            )


def judge_pod(made: Manifests, template: PodTemplate, role: Role | None = None) -> None:
    """Report what is wrong with a template, whatever the kind of its job.

    Args:
        made: Where to report.
        template: The template.
        role: What its pods run, if they run a command of the job.
    """
    for index in range(len(template.containers())):
        path = (*template.path, "containers", index, "resources")
        judge_resources(made, template.job, path)
    if role is not None:
        judge_texts(made, template, role)
    pod = template.job.members(*template.path)
    policy = pod.get("dnsPolicy")
    if pod.get("hostNetwork") is True and policy in (None, "ClusterFirst"):
        made.report(
            rules.POD_NAMES,
            template.job.span(*template.path, "hostNetwork"),
            "with hostNetwork the names of Services and pods are not known",
            hint="add dnsPolicy: ClusterFirstWithHostNet",
            severity=Severity.WARNING,
        )


def read_objects(text: str) -> Manifests:
    """Return the objects of a file; what they start is not read yet."""
    made = Manifests()
    made.objects = list(_objects(without_marks(text), made))
    made.named = {(each.text("kind"), each.name): each for each in made.objects}
    return made


def replaced_later(span: SourceSpan | None, text: str) -> Unjudged:
    """Return what is said of a text that another tool replaces."""
    return Unjudged(span, f"another tool puts a value in the place of {text}")


def _objects(text: str, made: Manifests) -> Iterator[Manifest]:
    """Yield the objects of a file; a List stands for its items."""
    for document in _documents(text, made):
        items = document.get("items")
        paths: list[Path] = [()]
        if isinstance(items, list):
            paths = [("items", index) for index in range(len(items))]
        for path in paths:
            if isinstance(document.get(*path), dict):
                yield Manifest(document, path)


def _documents(text: str, made: Manifests) -> list[Document]:
    start = text.lstrip()[:2]
    if start[:1] == "{" and start != "{{":  # a template of Helm begins so
        parsed = parse(text)
        if isinstance(parsed, Finding):
            made.found.append(parsed)
            return []
        made.found += parsed[1]
        return [Document(text=text, data=parsed[0])]
    text = _without_braces(text, made)
    documents, found = parse_yaml(text)
    if any(finding.rule is NOT_YAML for finding in found):
        documents, found = _parse_filled(text, made) or (documents, found)
    for document in documents:
        _mark_aliases(document)
    for finding in found:
        if finding.rule is REFUSED_YAML:
            made.unjudged.append(Unjudged(finding.span, finding.message))
        else:
            made.found.append(finding)
    return documents


def _mark_aliases(document: Document) -> None:
    """Put a mark in the places of aliases, whose values are not read."""
    for path, (start, _) in (document.values or {}).items():
        if path and document.text[start : start + 1] == "*":
            holder: Any = document.get(*path[:-1])
            holder[path[-1]] = UNKNOWN


def _parse_filled(text: str, made: Manifests) -> tuple[list[Document], Findings] | None:
    """Return the documents of a text that is YAML once ``${NAME}`` is replaced."""
    places = list(BRACED.finditer(text))
    documents, found = parse_yaml(BRACED.sub(lambda m: UNKNOWN * len(m[0]), text))
    if not places or any(finding.rule is NOT_YAML for finding in found):
        return None
    for place in places:
        span = SourceSpan(offsets=place.span())
        made.unjudged.append(replaced_later(span, place[0]))
    made.is_filled = True
    return documents, found


def _without_braces(text: str, made: Manifests) -> str:
    """Return a text whose expressions are marks, and whose templates are blank.

    Offsets stay the same.
    """
    if "{{" not in text:
        return text
    parts, at = [], 0
    for match in (*_DIVIDER.finditer(text), None):
        end = len(text) if match is None else match.end()
        part = text[at:end]
        is_control = _CONTROL.search(part) is not None
        for braces in _BRACES.finditer(part):
            span = SourceSpan(offsets=(at + braces.start(), at + braces.end()))
            made.unjudged.append(Unjudged(span, "it is a template"))
        if is_control:
            kept = len(part) - len(part.rstrip("-")) if match is not None else 0
            blank = re.sub(r"[^\n]", " ", part[: len(part) - kept])
            part = blank + part[len(part) - kept :]
        else:
            part = _BRACES.sub(lambda m: UNKNOWN * len(m[0]), part)
        parts.append(part)
        at = end
    return "".join(parts)
