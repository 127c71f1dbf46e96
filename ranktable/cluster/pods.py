"""Pods of Kubernetes, as ``kubectl get pods -o json`` prints them.

A pod has its index from its controller and its chips from the device plugin.

Sources: Ascend/mind-cluster, component/ascend-operator/pkg/ranktable and
component/clusterd/pkg/domain/pod; volcano-sh/volcano, plugins hcclrank and env;
kubernetes.io, kubernetes-sigs/jobset and kubernetes-sigs/lws, "Labels and annotations";
kubeflow/training-operator, pkg/apis/kubeflow.org/v1.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.cluster import pod_rules as rules
from ranktable.cluster.chip_words import CHIP_WORDS
from ranktable.schema.declare import SUPER_POD_KEY
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Finding, Findings
from ranktable.schema.json_parser import parse
from ranktable.schema.text import printable
from ranktable.schema.values import plain_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.schema.document import Path

SUPER_DEVICE = "super_device_id"
REAL, PICKED = "huawei.com/AscendReal", "huawei.com/kltDev"
"""What is mounted into a pod, and what the kubelet had chosen."""

_CONFIGURATION = re.compile(r"(?:.*/)?ascend-\w+-configuration")
_REAL_CHIP = re.compile(r"(?:Ascend[0-9A-Za-z]*|npu)-([0-9]{1,6})")
_CHIP = re.compile(
    r"(?!.*(?:mem|core|percent|shared))[^/]+/.*"
    rf"(?:{CHIP_WORDS}|chip)",
    re.IGNORECASE,
)
"""Resources that count chips, and not their memory or cores."""

NUMBER_AT_END = re.compile(r"(.*?)-?([0-9]{1,9})")
_RANDOM_NAMES = {
    ("ReplicaSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
}
"""Owners whose pods have names that end with random characters."""

_ENDED = ("Succeeded", "Failed")
_STARTING = ("ContainerCreating", "PodInitializing")
_COMPLETED = "Completed, exit code 0"
_JOBS = (
    *("ray.io/cluster", "jobset.sigs.k8s.io/jobset-name", "volcano.sh/job-name"),
    *("training.kubeflow.org/job-name", "leaderworkerset.sigs.k8s.io/name"),
    *("batch.kubernetes.io/job-name", "job-name"),
)
"""Labels with the name of the job, the outermost first."""

_COMPLETION = "batch.kubernetes.io/job-completion-index"
_JOBSET = "jobset.sigs.k8s.io/"
_RESTART = _JOBSET + "restart-attempt"
LWS = "leaderworkerset.sigs.k8s.io/"
_KUBEFLOW = "training.kubeflow.org/"
POD_INDEX = "apps.kubernetes.io/pod-index"


class Numbering(NamedTuple):
    """How a controller numbers its pods.

    Attributes:
        marks: Those with numbers, the most significant first. A mark is an annotation
            or a label, ``env:NAME`` a variable of a container, ``name`` the number at
            the end of the name.
        role: Mark with the kind of pod, each of which is numbered from 0.
    """

    marks: tuple[str, ...]
    role: str | None = None


NUMBERINGS = (
    Numbering(("hccl/rankIndex",)),
    Numbering((_JOBSET + "job-global-index", _COMPLETION)),
    Numbering((_JOBSET + "job-index", _COMPLETION), _JOBSET + "replicatedjob-name"),
    Numbering((LWS + "group-index", LWS + "worker-index")),
    Numbering((_KUBEFLOW + "replica-index",), _KUBEFLOW + "replica-type"),
    Numbering(("replica-index",), "replica-type"),
    Numbering(("volcano.sh/task-index",), "volcano.sh/task-spec"),
    Numbering((_COMPLETION,)),
    Numbering((POD_INDEX,)),
    *(
        Numbering((f"env:{name}",))
        for name in ("JOB_COMPLETION_INDEX", "LWS_WORKER_INDEX", "PET_NODE_RANK")
    ),
    Numbering(("env:VC_TASK_INDEX",), "volcano.sh/task-spec"),
    Numbering(("env:VK_TASK_INDEX",), "volcano.sh/task-spec"),
    *(Numbering((f"env:{name}",)) for name in ("NODE_RANK", "RANK")),
    Numbering(("name",), "volcano.sh/task-spec"),
)
"""In the order in which they are tried; the first that all pods of a job have."""


class PodChip(NamedTuple):
    """A chip of a pod, with what its annotation says of it."""

    device_id: int
    address: str | None = None
    super_device_id: str | None = None


@dataclass(frozen=True)
class Pod:
    """One pod.

    Attributes:
        path: Where it is in the list.
        raw: Its plain data.
    """

    path: Path
    raw: Mapping[str, Any]

    def _get(self, *path: str) -> Any:
        value: Any = self.raw
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def text(self, *path: str) -> str:
        """Return a text of the pod, empty if there is none."""
        value = self._get(*path)
        return value if isinstance(value, str) else ""

    def span(self, *path: str) -> SourceSpan:
        """Return the place of a value, or of the name."""
        is_there = bool(path) and self._get(*path) is not None
        path = path if is_there else ("metadata", "name")
        if self._get(*path) is None:
            return SourceSpan(self.path)
        return SourceSpan((*self.path, *path))

    def mark(self, key: str) -> str | None:
        """Return an annotation, a label, a variable, or the number in the name."""
        if key == "name":
            kinds = {
                (str(o.get("kind")), str(o.get("apiVersion"))) for o in self._owners
            }
            found = NUMBER_AT_END.fullmatch(self.name)
            return found[2] if found and not kinds & _RANDOM_NAMES else None
        if key.startswith("env:"):
            return self._variables.get(key.removeprefix("env:"))
        for holder in ("annotations", "labels"):
            value = self._get("metadata", holder, key)
            if value is not None:
                return str(value)
        return None

    @property
    def _owners(self) -> list[Mapping[str, Any]]:
        return objects(self._get("metadata", "ownerReferences"))

    @cached_property
    def _containers(self) -> list[Mapping[str, Any]]:
        return objects(self._get("spec", "containers"))

    @cached_property
    def _variables(self) -> dict[str, str]:
        named = (v for one in self._containers for v in objects(one.get("env")))
        return {str(v.get("name")): str(v["value"]) for v in named if "value" in v}

    @property
    def name(self) -> str:
        """Its name."""
        return self.text("metadata", "name")

    @property
    def uid(self) -> str:
        """Its unique name, which another pod of the same name does not have."""
        return self.text("metadata", "uid")

    @property
    def node(self) -> str:
        """The host on which it runs, empty if there is none yet."""
        return self.text("spec", "nodeName") or self.host_ip

    @property
    def host_ip(self) -> str:
        """Address of its host."""
        return self.text("status", "hostIP") or self._told("host_ip")

    @property
    def pod_ip(self) -> str:
        """Its own address."""
        several = (str(one.get("ip")) for one in objects(self._get("status", "podIPs")))
        return self.text("status", "podIP") or next(several, "")

    @property
    def is_on_host_network(self) -> bool:
        """Whether it has the addresses and the ports of its host."""
        return self._get("spec", "hostNetwork") is True

    @cached_property
    def job(self) -> str:
        """Namespace and name of its job; its own name without number if it has none."""
        owners = [str(one.get("name")) for one in self._owners if one.get("name")]
        found = NUMBER_AT_END.fullmatch(self.name)
        own = found[1] if found else self.name
        names = [*filter(None, map(self.mark, _JOBS)), *owners, own]
        return f"{self.text('metadata', 'namespace') or 'default'}/{names[0]}"

    @cached_property
    def kind(self) -> tuple[str, ...]:
        """Its job and its kind in that job: the pods of a kind have one template."""
        marks = (*(way.role for way in NUMBERINGS), _KUBEFLOW + "job-role")
        roles = (mark and self.mark(mark) for mark in marks)
        is_leader = plain_number(self.mark(LWS + "worker-index")) == 0
        return (self.job, *filter(None, roles), "leader" if is_leader else "")

    @property
    def selector(self) -> str:
        """The option of kubectl that selects the pods of its job."""
        for key in _JOBS:
            if value := self.mark(key):
                return f"-l {key}={value}"
        return "with a label of one job"

    @property
    def end(self) -> str | None:
        """Why it is not part of its job any more, None if it is."""
        phase = self.text("status", "phase")
        if self._get("metadata", "deletionTimestamp") is not None:
            return "is being deleted"
        if phase not in _ENDED:
            return None
        why = ", ".join(filter(None, [self._told_reason, *self._troubles(*_ENDED)]))
        return f"ended ({phase}: {why})" if why else f"ended ({phase})"

    @property
    def disruption(self) -> str | None:
        """Why it is about to be deleted, None if nothing says so."""
        for one in objects(self._get("status", "conditions")):
            if one.get("type") == "DisruptionTarget" and one.get("status") == "True":
                said = filter(None, (one.get("reason"), one.get("message")))
                return printable(": ".join(map(str, said)))
        return None

    @property
    def _told_reason(self) -> str:
        reason = self.text("status", "reason")
        said = self.text("status", "message")
        return printable(f"{reason}: {said}" if reason and said else reason or said)

    @property
    def troubles(self) -> list[str]:
        """Why it, or a container of it, does not run: "container a: OOMKilled"."""
        unscheduled = (
            f"{one.get('reason')}: {one.get('message')}"
            for one in objects(self._get("status", "conditions"))
            if one.get("type") == "PodScheduled" and one.get("status") == "False"
        )
        said = [self._told_reason, *map(printable, unscheduled), *self._troubles()]
        return [one for one in said if one]

    def _troubles(self, *phases: str) -> Iterator[str]:
        """Yield what the states of its containers say."""
        with_chips = {str(one.get("name")) for one in self._containers if chips_in(one)}
        for key in ("initContainerStatuses", "containerStatuses"):
            for one in objects(self._get("status", key)):
                name = str(one.get("name"))
                has_chips = not with_chips or name in with_chips
                why = _trouble(one, is_init=key[0] == "i", has_chips=has_chips)
                if why and not (phases and why == _COMPLETED):
                    yield printable(f"container {name}: {why}")

    @property
    def asked(self) -> Counter[str]:
        """Number of chips that its containers ask for, by resource."""
        asked: Counter[str] = Counter()
        for one in self._containers:
            asked.update(chips_in(one))
        return asked

    @property
    def configuration_key(self) -> str | None:
        """Key of the annotation with its chips and their addresses."""
        keys = self._get("metadata", "annotations")
        keys = keys if isinstance(keys, dict) else {}
        return next((key for key in keys if _CONFIGURATION.fullmatch(key)), None)

    @cached_property
    def configuration(self) -> Mapping[str, Any]:
        """The annotation with its chips and their addresses, empty if it is broken."""
        try:
            found = json.loads(self.mark(self.configuration_key or "") or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _told(self, key: str) -> str:
        value = self.configuration.get(key)
        return value if isinstance(value, str) else ""

    @property
    def super_pod(self) -> str | None:
        """Super pod of its host, None if it has none."""
        return _counted_text(self.configuration.get(SUPER_POD_KEY))

    @cached_property
    def chips(self) -> tuple[PodChip, ...] | None:
        """Its chips by physical id, None if no field names them."""
        found = []
        for device in objects(self.configuration.get("devices")):
            chip = plain_number(device.get("device_id"))
            if chip is None:
                return None
            address = device.get("device_ip")
            super_device = _counted_text(device.get(SUPER_DEVICE))
            shown = None if address is None else str(address)
            found.append(PodChip(chip, shown, super_device))
        ids = self.mounted if not found else None
        found += map(PodChip, ids or ())
        return tuple(sorted(found, key=lambda chip: chip.device_id)) or None

    @property
    def mounted(self) -> list[int] | None:
        """The physical ids of the chips that are mounted into it, as far as known."""
        text = self.mark(REAL) or self.mark("env:ASCEND_VISIBLE_DEVICES") or ""
        words = [word.strip() for word in text.split(",") if word.strip()]
        named = [_REAL_CHIP.fullmatch(word) for word in words]
        numbers = [
            plain_number(m[1] if m else word)
            for m, word in zip(named, words, strict=True)
        ]
        known = [number for number in numbers if number is not None]
        return sorted(known) if words and len(known) == len(words) else None

    @property
    def uses_chips(self) -> bool:
        """Whether it has chips, or asks for some."""
        return bool(self.chips or self.asked or self.configuration_key)

    @property
    def size(self) -> int | None:
        """Number of its chips, None if it is not known."""
        return len(self.chips) if self.chips else sum(self.asked.values()) or None

    def __str__(self) -> str:
        """Return its name for messages."""
        return f"pod {printable(self.name)}"


def chips_in(container: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of chips that a container asks for, by resource."""
    given = container.get("resources")
    given = given if isinstance(given, dict) else {}
    limits = given.get("limits") or given.get("requests")
    return {
        name: count
        for name, number in (limits if isinstance(limits, dict) else {}).items()
        if _CHIP.match(name) and (count := plain_number(number))
    }


def _trouble(
    status: Mapping[str, Any], *, is_init: bool, has_chips: bool
) -> str | None:
    """Return why a container does not run, None if it does or has done its work."""
    states = status.get("state"), status.get("lastState")
    state, before = (one if isinstance(one, dict) else {} for one in states)
    waiting, ended = state.get("waiting"), state.get("terminated")
    last = before.get("terminated")
    if isinstance(waiting, dict):
        reason = str(waiting.get("reason") or "waiting")
        if reason in _STARTING:
            return None
        killed = last.get("reason") if isinstance(last, dict) else None
        said = killed if killed and killed != "Error" else waiting.get("message")
        return f"{reason} ({said})" if said else reason
    if isinstance(ended, dict):
        if ended.get("exitCode") == 0:
            return None if is_init or not has_chips else _COMPLETED
        return f"{ended.get('reason') or 'ended'}, exit code {ended.get('exitCode')}"
    return None


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; nothing of a value of another type."""
    listed = value if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, dict)]


def _counted_text(value: object) -> str | None:
    """Return a number as text; a negative one means that there is none."""
    text = str(value) if isinstance(value, (str, int)) else ""
    return text if text and not text.startswith("-") else None


@dataclass(frozen=True, kw_only=True)
class PodList:
    """The pods of a list.

    Attributes:
        live: Those that are part of a job now.
        ended: Those that ended, are being deleted, or belong to an older attempt.
    """

    live: tuple[Pod, ...]
    ended: tuple[Pod, ...] = ()

    @cached_property
    def jobs(self) -> dict[str, list[Pod]]:
        """The live pods of each job; only kinds with chips, if any pod has some."""
        kinds = {pod.kind for pod in self.live if pod.uses_chips}
        jobs = defaultdict(list)
        for pod in self.live:
            if not kinds or pod.kind in kinds:
                jobs[pod.job].append(pod)
        return dict(jobs)


def read_pods(text: str, found: Findings) -> PodList | None:
    """Return the pods of a list, None after reporting that it is not one.

    Args:
        text: A List, a PodList, an array of pods, or one pod, as JSON.
        found: Gets the findings.
    """
    parsed = parse(text, found.limit)
    if isinstance(parsed, Finding):
        found.add(parsed)
        return None
    data, broken = parsed
    found.extend(broken)
    pods = [*_pods_in(data)]
    if not pods:
        message = "there is no pod in the list"
        hint = "write it with: kubectl get pods -l job-name=NAME -o json"
        found.add(rules.NOT_PODS.finding(None, message, hint=hint))
        return None
    attempts: dict[str, int] = {}
    for pod in pods:
        attempt = plain_number(pod.mark(_RESTART)) or 0
        attempts[pod.job] = max(attempt, attempts.get(pod.job, 0))
    ended: list[Pod] = []
    live: list[Pod] = []
    for pod in pods:
        attempt = plain_number(pod.mark(_RESTART)) or 0
        is_live = pod.end is None and attempt == attempts[pod.job]
        (live if is_live else ended).append(pod)
    if not live:
        message = f"all {len(pods)} pods of the list ended"
        found.add(rules.NOT_PODS.finding(pods[0].span(), message))
        return None
    return PodList(live=tuple(live), ended=tuple(ended))


def _pods_in(data: object) -> Iterator[Pod]:
    items: object = data.get("items", [data]) if isinstance(data, dict) else data
    is_list = isinstance(data, dict) and "items" in data
    for at, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and item.get("kind", "Pod") == "Pod":
            if not isinstance(item.get("metadata"), dict):
                continue
            path = ("items", at) if is_list else (at,)
            yield Pod(() if items == [data] else path, item)
