"""What Kubernetes takes in the fields of a job: a table of paths and kinds of values.

A text in which another tool puts a value later, such as ``${NPROC}`` of envsubst, is
not judged. Kubernetes itself replaces nothing in these fields.

Source: types and webhooks of kubeflow/training-operator release-1.9, kubeflow/
mpi-operator, kubeflow/trainer, volcano-sh/volcano, kubernetes-sigs/jobset,
kubernetes-sigs/lws and ray-project/kuberay; kubernetes.io, "Resource Management for
Pods and Containers", "Object Names and IDs".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.manifests import BRACED, replaced_later
from ranktable.cluster.submissions.shell_marks import UNKNOWN
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.schema.document import Path
    from ranktable.schema.finding import Rule

_PLACEHOLDER: Final = re.compile(
    r"\$(?:\{[^{}\n]*\}|\([^()\n]*\)|[A-Za-z_]\w*)|\[\[[^\n]*?\]\]|<[^<>\n]+>"
    r"|#\{[^{}\n]*\}#?|\b__\w+?__\b|%\w+%|@+\w+@+"
)
"""What other tools replace: envsubst, kustomize, Flux, Tekton, Terraform and so on."""

_SPELLED: Final = re.compile(
    r"0x[0-9a-fA-F_]+|0o?[0-7_]+|[0-9][0-9_]*|(?i:yes|no|on|off)"
)
"""What YAML 1.1 takes for a number or for true and false if it is not quoted."""

_MAX_PORT: Final = 65535
_MAX_LABEL: Final = 63


class FieldType(NamedTuple):
    """A kind of values.

    Attributes:
        form: ``integer``, ``boolean``, ``text``, ``quantity`` or ``items``.
        what: What it has to be, for messages.
        least: Least number, or least number of items.
        most: Largest number.
        pattern: What a text has to match.
        rule: The rule that is broken.
        is_filled: Whether other tools fill in such a field.
    """

    form: str
    what: str
    least: int = 0
    most: int | None = None
    pattern: str = ""
    rule: Rule = rules.REFUSED
    is_filled: bool = True

    def takes(self, value: object) -> bool:
        """Whether a value is of this kind."""
        if self.form == "integer":
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return is_number and self.least <= value <= (self.most or value)  # type: ignore[operator]
        if self.form == "boolean":
            return isinstance(value, bool)
        if self.form == "items":
            return isinstance(value, list) and len(value) >= self.least
        if self.form == "quantity" and isinstance(value, (int, float)):
            value = json.dumps(value)
        pattern = self.pattern or "(?s:.*)"
        return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _integer(least: int = 0, most: int | None = None) -> FieldType:
    what = f"a number of at least {least}"
    if most is not None:
        what = f"{least}" if least == most else f"a number from {least} to {most}"
    return FieldType("integer", what, least, most)


def _one_of(*words: str) -> FieldType:
    listed = f"{', '.join(words[:-1])} or {words[-1]}"
    return FieldType("text", listed, pattern="|".join(words))


_BOOLEAN: Final = FieldType("boolean", "true or false")
_TEXT: Final = FieldType("text", "a text", is_filled=False)
_FILLED: Final = FieldType("text", "a text")
_LIST: Final = FieldType("items", "a list of words", is_filled=False)
_ITEMS: Final = FieldType("items", "a list that is not empty", 1)
"""Each item has a name of its own."""
_LABEL: Final = FieldType(
    "text",
    f"small letters, digits and hyphens, at most {_MAX_LABEL}",
    pattern=rf"(?=.{{1,{_MAX_LABEL}}}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?",
)
_LETTER_FIRST: Final = FieldType(
    "text",
    f"small letters, digits and hyphens, at most {_MAX_LABEL}, a letter first",
    pattern=rf"(?=.{{1,{_MAX_LABEL}}}$)[a-z](?:[-a-z0-9]*[a-z0-9])?",
)
_QUANTITY: Final = FieldType(
    "quantity",
    "a number that is not negative",
    pattern=r"\+?(?:\d+\.?\d*|\.\d+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?",
    rule=rules.POD_RESOURCES,
)

_RESOURCES: Final = {"limits.*": _QUANTITY, "requests.*": _QUANTITY}
_COMMAND: Final = {
    **dict.fromkeys(("command", "args"), _LIST),
    **{f"{key}.*": _TEXT for key in ("command", "args")},
    "env.*.value": _TEXT,
}


def _below(path: str, fields: Mapping[str, FieldType]) -> dict[str, FieldType]:
    return {f"{path}.{name}": kind for name, kind in fields.items()}


_CONTAINER: Final = {
    **_COMMAND,
    **_below("resources", _RESOURCES),
    "ports.*.containerPort": _integer(1, _MAX_PORT),
}
_POD: Final = {
    "containers": _ITEMS,
    **_below("containers.*", _CONTAINER),
    **_below("initContainers.*", _CONTAINER),
    **dict.fromkeys(("hostNetwork", "hostIPC", "hostPID"), _BOOLEAN),
    "restartPolicy": _one_of("Always", "OnFailure", "Never"),
    "dnsPolicy": _one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_JOB: Final = {
    **dict.fromkeys(("parallelism", "completions", "backoffLimit"), _integer()),
    "completionMode": _one_of("Indexed", "NonIndexed"),
    **_below("template.spec", {**_POD, "restartPolicy": _one_of("OnFailure", "Never")}),
}
_GANG: Final = {"runPolicy.schedulingPolicy.minAvailable": _integer()}
_GROUPS: Final = {
    **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), _integer()),
    "numOfHosts": _integer(1),
}
_RAY: Final = {
    **_below("headGroupSpec", {"rayStartParams.*": _TEXT}),
    **_below("headGroupSpec.template.spec", _POD),
    **_below("workerGroupSpecs.*", {**_GROUPS, "rayStartParams.*": _TEXT}),
    **_below("workerGroupSpecs.*.template.spec", _POD),
}
_RUNTIME: Final = {
    "mlPolicy.numNodes": _integer(1),
    **_below("template.spec.replicatedJobs.*.template.spec", _JOB),
}

_FIELDS: Final[Mapping[tuple[str, str], Mapping[str, FieldType]]] = {
    ("kubeflow.org", "PyTorchJob"): {
        **_GANG,
        "nprocPerNode": _FILLED,
        **_below(
            "elasticPolicy",
            {
                **dict.fromkeys(("minReplicas", "maxReplicas"), _integer()),
                "rdzvPort": _integer(1, _MAX_PORT),
                "nProcPerNode": _integer(1),
                "maxRestarts": _integer(),
            },
        ),
        **_below("pytorchReplicaSpecs.*.template.spec", _POD),
        "pytorchReplicaSpecs.Master.replicas": _integer(1, 1),
        "pytorchReplicaSpecs.Worker.replicas": _integer(1),
    },
    ("kubeflow.org", "MPIJob"): {
        **_GANG,
        "slotsPerWorker": _integer(),
        "mpiImplementation": _one_of("OpenMPI", "Intel", "MPICH"),
        "launcherCreationPolicy": _one_of("AtStartup", "WaitForWorkersReady"),
        "runPolicy.cleanPodPolicy": _one_of("None", "Running", "All"),
        "runLauncherAsWorker": _BOOLEAN,
        **_below("mpiReplicaSpecs.*.template.spec", _POD),
        "mpiReplicaSpecs.Launcher.replicas": _integer(1, 1),
        "mpiReplicaSpecs.Worker.replicas": _integer(1),
    },
    ("trainer.kubeflow.org", "TrainJob"): {
        "trainer.numNodes": _integer(1),
        **_below("trainer", _COMMAND),
        **_below("trainer.resourcesPerNode", _RESOURCES),
    },
    ("trainer.kubeflow.org", "TrainingRuntime"): _RUNTIME,
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): _RUNTIME,
    ("batch.volcano.sh", "Job"): {
        **dict.fromkeys(("minAvailable", "maxRetry"), _integer()),
        "tasks": _ITEMS,
        **_below(
            "tasks.*",
            {
                "name": _LABEL,
                **dict.fromkeys(("replicas", "minAvailable"), _integer()),
                **_below("template.spec", _POD),
            },
        ),
        "plugins.*": _LIST,
        "plugins.*.*": _TEXT,
    },
    ("jobset.x-k8s.io", "JobSet"): {
        "network.enableDNSHostnames": _BOOLEAN,
        "failurePolicy.maxRestarts": _integer(),
        "replicatedJobs": _ITEMS,
        "replicatedJobs.*.name": _LABEL,
        "replicatedJobs.*.replicas": _integer(),
        **_below("replicatedJobs.*.template.spec", _JOB),
    },
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): {
        "replicas": _integer(),
        "leaderWorkerTemplate.size": _integer(1),
        **_below("leaderWorkerTemplate.leaderTemplate.spec", _POD),
        **_below("leaderWorkerTemplate.workerTemplate.spec", _POD),
    },
    ("batch", "Job"): _JOB,
    ("apps", "StatefulSet"): {
        "replicas": _integer(),
        **_below("template.spec", _POD),
    },
    ("ray.io", "RayCluster"): _RAY,
    ("ray.io", "RayJob"): _below("rayClusterSpec", _RAY),
}
"""Below ``spec``; a star stands for every member or item."""

_NAMES: Final = {
    ("kubeflow.org", "PyTorchJob"): _LETTER_FIRST,
    ("trainer.kubeflow.org", "TrainJob"): _LETTER_FIRST,
}


def judge_fields(job: Manifest, made: Manifests, kind: tuple[str, str]) -> None:
    """Report values that are refused, and leave those that another tool puts in.

    Args:
        job: The job; a value that is filled in later is replaced by a mark in it.
        made: Where to report.
        kind: The group of its version, and its kind.
    """
    own: dict[tuple[str, ...], FieldType] = {}
    if kind in _FIELDS:
        own = {("metadata", "name"): _NAMES.get(kind, _FILLED)}
    elif job.text("kind") == "ConfigMap":
        own = {("data", "*"): _TEXT}
    below = _FIELDS.get(kind, {})
    fields = {("spec", *path.split(".")): each for path, each in below.items()}
    for pattern, each in (own | fields).items():
        for path in _places(job, pattern):
            _judge_value(job, made, path, each)
    for pattern in fields if made.is_filled else ():
        for path in _places(job, pattern) if pattern[-2] in ("command", "args") else ():
            _fill(job, path, BRACED.sub(UNKNOWN, str(job.get(*path))))


def _fill(job: Manifest, path: Path, text: str) -> None:
    job.get(*path[:-1])[path[-1]] = text


def _places(job: Manifest, pattern: tuple[str, ...], at: Path = ()) -> Iterator[Path]:
    """Yield the paths of the values of a pattern."""
    if not pattern:
        if job.get(*at) is not None:
            yield at
        return
    steps: list[str | int] = [pattern[0]]
    if pattern[0] == "*":
        value = job.get(*at)
        steps = list(value) if isinstance(value, dict) else []
        steps = list(range(len(value))) if isinstance(value, list) else steps
    for step in steps:
        yield from _places(job, pattern[1:], (*at, step))


def _judge_value(job: Manifest, made: Manifests, path: Path, kind: FieldType) -> None:
    value = job.get(*path)
    is_list = kind.form != "items" and isinstance(value, list)  # [[ n ]]
    text = json.dumps(value) if is_list else value
    if isinstance(text, str) and UNKNOWN in text:
        return
    found = _PLACEHOLDER.search(text) if isinstance(text, str) else None
    span = job.span(*path)
    if found and kind.is_filled:
        _fill(job, path, UNKNOWN)
        made.is_filled = made.is_filled or found[0].startswith("${")
        made.unjudged.append(replaced_later(span, found[0]))
        return
    bare = _bare_text(job, path) if isinstance(value, str) else ""
    is_taken = bool(bare) if kind.form in ("integer", "boolean") else not bare
    if is_taken if bare else kind.takes(value):
        if kind is _ITEMS:
            _judge_names(job, made, path)
        return
    shown = quoted(value) if isinstance(value, str) else json.dumps(value)
    shown = f"{bare} without quotes, which is no text" if bare else shown
    name = path[-1] if isinstance(path[-1], str) else f"{path[-2]}[{path[-1]}]"
    made.report(
        kind.rule,
        span,
        f"{name} is {shown}; it has to be {kind.what}",
        hint=_hint(kind, value),
    )


def _judge_names(job: Manifest, made: Manifests, path: Path) -> None:
    """Report items of a list that have the name of an earlier one."""
    seen = set()
    for at in range(len(job.items(*path))):
        name = job.text(*path, at, "name")
        if name and UNKNOWN not in name and name in seen:
            span = job.span(*path, at, "name")
            message = f"{path[-1]} has the name {quoted(name)} twice"
            made.report(rules.REFUSED, span, message, hint="give each a name")
        seen.add(name)


def _bare_text(job: Manifest, path: Path) -> str:
    """Return a text that YAML 1.1 takes for a number, for true or for false."""
    start, end = job.span(*path).offsets or (0, 0)
    text = job.document.text[start:end]
    return text if _SPELLED.fullmatch(text) else ""


def _hint(kind: FieldType, value: object) -> str | None:
    """Return what to write, if that is certain."""
    if kind.form in ("integer", "boolean") and isinstance(value, str):
        bare = int(value) if value.isdecimal() and len(value) < 10 else value
        bare = {"true": True, "false": False}.get(value, bare)
        return f"write it without quotes: {value}" if kind.takes(bare) else None
    if kind.form == "text" and not kind.pattern and not isinstance(value, (dict, list)):
        text = value if isinstance(value, str) else json.dumps(value)
        return f"write it in quotes: {quoted(text)}"
    if kind.form == "items" and not kind.least and isinstance(value, str):
        return "write a list, with an item for every word"
    if kind.pattern and isinstance(value, str):
        same = [w for w in kind.pattern.split("|") if w.lower() == value.lower()]
        return f"write {same[0]}" if same else None
    return None
