"""Pods of Kubernetes, as ``kubectl get pods -o json`` prints them, and their table.

A pod has its index from its controller and its chips from the device plugin. Ranks
count up over the pods in the order of their indexes, and within a pod over its chips.

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
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.cluster import pod_rules as rules
from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import Host, Hostfile, LauncherFormat
from ranktable.schema.declare import SUPER_POD_KEY
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Finding, Findings, Severity
from ranktable.schema.json_parser import parse
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.super_pods import PODS, pods_joined
from ranktable.schema.text import counted, fold_numbers, printable, quoted
from ranktable.schema.values import is_address, is_device_address, plain_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Path

NAME = "kubernetes-pods"
SUPER_DEVICE = "super_device_id"
REAL, PICKED = "huawei.com/AscendReal", "huawei.com/kltDev"
"""What is mounted into a pod, and what the kubelet had chosen."""

_CONFIGURATION = re.compile(r"(?:.*/)?ascend-\w+-configuration")
_REAL_CHIP = re.compile(r"(?:Ascend[0-9A-Za-z]*|npu)-([0-9]{1,6})")
_ASCEND = re.compile(r"huawei\.com/(?:Ascend|npu)", re.IGNORECASE)
_CHIP = re.compile(
    r"(?!.*(?:mem|core|percent|shared))[^/]+/.*"
    r"(?:ascend|npu|gpu|tpu|gaudi|mlu|dcu|chip|sophon|accelerator|neuron)",
    re.IGNORECASE,
)
"""Resources that count chips, and not their memory or cores."""

_FIRST_ROLES = ("master", "chief", "leader", "launcher", "head", "driver")
_NUMBER_AT_END = re.compile(r"(.*?)-?([0-9]{1,9})")
_NUMBERS = re.compile(r"([0-9]{1,9})")
_ENDED = ("Succeeded", "Failed")
_JOBS = (
    *("jobset.sigs.k8s.io/jobset-name", "volcano.sh/job-name"),
    *("training.kubeflow.org/job-name", "leaderworkerset.sigs.k8s.io/name"),
    *("batch.kubernetes.io/job-name", "job-name"),
)
"""Labels with the name of the job, the outermost first."""

_COMPLETION = "batch.kubernetes.io/job-completion-index"
_JOBSET = "jobset.sigs.k8s.io/"
_RESTART = _JOBSET + "restart-attempt"
_LWS = "leaderworkerset.sigs.k8s.io/"
_KUBEFLOW = "training.kubeflow.org/"
_POD_INDEX = "apps.kubernetes.io/pod-index"


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
    Numbering((_LWS + "group-index", _LWS + "worker-index")),
    Numbering((_KUBEFLOW + "replica-index",), _KUBEFLOW + "replica-type"),
    Numbering(("replica-index",), "replica-type"),
    Numbering(("volcano.sh/task-index",), "volcano.sh/task-spec"),
    Numbering((_COMPLETION,)),
    Numbering((_POD_INDEX,)),
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

_SIZES = (_LWS + "size", "env:LWS_GROUP_SIZE", "env:PET_NNODES")
"""Marks with the number of pods."""


class Chip(NamedTuple):
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
            kinds = {str(owner.get("kind")) for owner in self._owners}
            found = _NUMBER_AT_END.fullmatch(self.name)
            is_random = kinds & {"ReplicaSet", "DaemonSet", "Job"}
            return found[2] if found and not is_random else None
        if key.startswith("env:"):
            return self._variables.get(key.removeprefix("env:"))
        for holder in ("annotations", "labels"):
            value = self._get("metadata", holder, key)
            if value is not None:
                return str(value)
        return None

    @property
    def _owners(self) -> list[Mapping[str, Any]]:
        return _objects(self._get("metadata", "ownerReferences"))

    @cached_property
    def _containers(self) -> list[Mapping[str, Any]]:
        return _objects(self._get("spec", "containers"))

    @cached_property
    def _variables(self) -> dict[str, str]:
        named = (v for one in self._containers for v in _objects(one.get("env")))
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
        return self.text("status", "podIP")

    @property
    def is_on_host_network(self) -> bool:
        """Whether it has the addresses and the ports of its host."""
        return self._get("spec", "hostNetwork") is True

    @property
    def job(self) -> str:
        """Namespace and name of its job; its own name without number if it has none."""
        owners = [str(one.get("name")) for one in self._owners if one.get("name")]
        found = _NUMBER_AT_END.fullmatch(self.name)
        own = found[1] if found else self.name
        names = [*filter(None, map(self.mark, _JOBS)), *owners, own]
        return f"{self.text('metadata', 'namespace') or 'default'}/{names[0]}"

    @property
    def kind(self) -> tuple[str, ...]:
        """Its job and its kind in that job: the pods of a kind have one template."""
        roles = (way.role and self.mark(way.role) for way in NUMBERINGS)
        is_leader = plain_number(self.mark(_LWS + "worker-index")) == 0
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
        return f"ended ({phase})" if phase in _ENDED else None

    @property
    def asked(self) -> Counter[str]:
        """Number of chips that its containers ask for, by resource."""
        asked: Counter[str] = Counter()
        for one in self._containers:
            given = one.get("resources")
            given = given if isinstance(given, dict) else {}
            limits = given.get("limits") or given.get("requests")
            for name, number in (limits if isinstance(limits, dict) else {}).items():
                if _CHIP.match(name) and (count := plain_number(number)):
                    asked[name] += count
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
    def chips(self) -> tuple[Chip, ...] | None:
        """Its chips by physical id, None if no field names them."""
        found = []
        for device in _objects(self.configuration.get("devices")):
            chip = plain_number(device.get("device_id"))
            if chip is None:
                return None
            address = device.get("device_ip")
            super_device = _counted_text(device.get(SUPER_DEVICE))
            shown = None if address is None else str(address)
            found.append(Chip(chip, shown, super_device))
        ids = self.mounted if not found else None
        found += map(Chip, ids or ())
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


def _objects(value: object) -> list[Mapping[str, Any]]:
    listed = value if isinstance(value, list) else []
    return [one for one in listed if isinstance(one, dict)]


def _counted_text(value: object) -> str | None:
    """Return a number as text; a negative one means that there is none."""
    text = str(value) if isinstance(value, (str, int)) else ""
    return text if text and not text.startswith("-") else None


class Place(NamedTuple):
    """The place of a pod in the order of its job."""

    role: tuple[Any, ...]
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        """Return the index for messages."""
        return ".".join(map(str, self.numbers))


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


def judge_pods(pods: PodList, jobs: Iterable[str], found: Findings) -> list[Pod]:
    """Report what is wrong with the pods of some jobs, and return them in order.

    Args:
        pods: All pods of the list.
        jobs: The jobs.
        found: Gets the findings.
    """
    found.add(*_shared_chips(pods.live))
    ordered: list[Pod] = []
    for job in jobs:
        own = pods.jobs[job]
        places = _places(own, found)
        in_order = sorted(own, key=lambda pod: places.get(id(pod), _NO_PLACE))
        found.add(*_twice(in_order, places))
        if len(places) == len(own):
            found.add(*_missing(in_order, places, pods))
        has_chips = any(pod.uses_chips for pod in own)
        for pod in in_order:
            found.add(*(_not_ready(pod) if has_chips else ()), *_differing(pod))
        found.add(*_bad_addresses(in_order), *_together(in_order))
        ordered += in_order
    return ordered


_NO_PLACE = Place((2,), ())


def _numbering(pods: Sequence[Pod]) -> Numbering:
    """Return the first way of numbering that all pods have, else that most have."""

    def number(one: Numbering) -> int:
        return sum(pod.mark(one.marks[0]) is not None for pod in pods)

    return max(NUMBERINGS, key=number)


def _places(pods: Sequence[Pod], found: Findings) -> dict[int, Place]:
    """Return the place of each pod, and report the pods without one."""
    way = _numbering(pods)
    places = {}
    for pod in pods:
        marks = [pod.mark(key) for key in way.marks]
        numbers = [plain_number(mark) for mark in marks]
        role = (pod.mark(way.role) if way.role else None) or ""
        if numbers[0] is not None:
            places[id(pod)] = Place(_role(role), tuple(n or 0 for n in numbers))
        elif len(pods) == 1 and marks[0] is None:
            places[id(pod)] = Place(_role(role), (0,))
        else:
            found.add(_without_index(pod, way.marks[0], marks[0], pods))
    return places


def _role(name: str) -> tuple[Any, ...]:
    """Return the place of a kind of pods: masters come first, as in Volcano."""
    is_first = any(word in name.lower() for word in _FIRST_ROLES)
    words = [int(w) if w.isdecimal() else w for w in _NUMBERS.split(name)]
    return (0 if is_first else 1, *words)


def _without_index(
    pod: Pod, key: str, mark: str | None, pods: Sequence[Pod]
) -> Finding:
    said = "has no index" if mark is None else f"has the index {quoted(mark)}"
    message = f"{pod} {said}, so its ranks are not known"
    hint = f"set its annotation hccl/rankIndex to one of 0 to {len(pods) - 1}"
    if mark is None and any(other.mark(key) for other in pods):
        hint = f"the other pods have it in {key.removeprefix('env:')}"
    return rules.NO_INDEX.finding(
        pod.span("metadata", "annotations", key), message, hint=hint
    )


def _twice(pods: Sequence[Pod], places: Mapping[int, Place]) -> Iterator[Finding]:
    first: dict[Place, Pod] = {}
    for pod in pods:
        place = places.get(id(pod))
        if place is None or (other := first.setdefault(place, pod)) is pod:
            continue
        created = [one.text("metadata", "creationTimestamp") for one in (other, pod)]
        hint = "give every pod its own index in hccl/rankIndex, or delete the older pod"
        if created[0] != created[1]:
            older = other if created[0] < created[1] else pod
            hint += f", {printable(older.name)}"
        yield rules.INDEX_TWICE.finding(
            pod.span(),
            f"{pod} and {other} both have the index {place}",
            hint=hint,
            related=(other.span()._replace(label="first use"),),
        )


def _missing(
    pods: Sequence[Pod], places: Mapping[int, Place], listed: PodList
) -> Iterator[Finding]:
    """Yield a finding for each index below the highest, or the size, without a pod."""
    groups: dict[tuple[Any, ...], dict[int, Pod]] = defaultdict(dict)
    for pod in pods:
        place = places[id(pod)]
        groups[(place.role, *place.numbers[:-1])][place.numbers[-1]] = pod
    way = _numbering(pods)
    for group in groups.values():
        size = next(filter(None, (_size(pod) for pod in group.values())), 0)
        start = min(group) if way.marks[0] == _POD_INDEX else 0
        end = max(max(group) + 1, min(size, len(pods) + size))
        gaps = [index for index in range(start, end) if index not in group]
        peer = next(iter(group.values()))
        yield from _gaps(gaps, peer, way, listed)
    firsts = sorted({place.numbers[0] for place in places.values()})
    if len(way.marks) > 1 and way.role is None:
        for one, other in pairwise(firsts):
            if other - one > 1:
                gap = fold_numbers(range(one + 1, other))
                message = f"no pod has {way.marks[0]} {gap}"
                yield rules.MISSING.finding(pods[0].span(), message)


def _size(pod: Pod) -> int | None:
    sizes = (plain_number(pod.mark(key)) for key in _SIZES)
    return next((size for size in sizes if size), None)


_SHOWN_GAPS = 20


def _gaps(
    gaps: Sequence[int], peer: Pod, way: Numbering, listed: PodList
) -> Iterator[Finding]:
    before = {
        (pod.job, plain_number(pod.mark(way.marks[-1]))): pod for pod in listed.ended
    }
    others = {
        plain_number(pod.mark(way.marks[-1]))
        for pod in listed.live
        if pod.job == peer.job and not pod.uses_chips
    }
    gaps = [index for index in gaps if index not in others]
    for index in gaps[:_SHOWN_GAPS]:
        message = f"no pod of {printable(peer.job)} has the index {index}"
        old = before.get((peer.job, index))
        if old is not None:
            message += f": {old} {old.end or 'is of an earlier attempt'}"
        elif (name := _name_of(peer, index, way)) is not None:
            message += f": {name} is not there"
        yield rules.MISSING.finding(peer.span(), message)
    if len(gaps) > _SHOWN_GAPS:
        rest = fold_numbers(gaps[_SHOWN_GAPS:])
        message = f"no pod of {printable(peer.job)} has the indexes {rest}"
        yield rules.MISSING.finding(peer.span(), message)


def _name_of(peer: Pod, index: int, way: Numbering) -> str | None:
    """Return the name of a pod like another one that ends with its index."""
    found = _NUMBER_AT_END.fullmatch(peer.name)
    own = plain_number(peer.mark(way.marks[-1]))
    if found is None or own is None or int(found[2]) != own:
        return None
    return f"{printable(found[1])}-{index}"


def _not_ready(pod: Pod) -> Iterator[Finding]:
    phase = pod.text("status", "phase")
    asked = sum(pod.asked.values())
    key = pod.configuration_key
    span = pod.span("metadata", "annotations", key or "")
    if phase == "Pending":
        message = f"{pod} is Pending, so it has no chips or no address yet"
        yield rules.NOT_READY.finding(pod.span("status", "phase"), message)
    elif key is not None and not _objects(pod.configuration.get("devices")):
        message = f"{key} of {pod} does not name its devices"
        yield rules.NOT_READY.finding(span, message)
    elif key is not None and pod.chips is None:
        message = f"{key} of {pod} has a device without a number as device_id"
        yield rules.NOT_READY.finding(span, message)
    elif pod.chips is None and (not asked or any(map(_ASCEND.match, pod.asked))):
        wish = f"asks for {counted(asked, 'chip')}" if asked else "is like others"
        message = f"{pod} {wish}, and no annotation names its chips"
        hint = "the device plugin writes it some seconds after the start of the pod"
        yield rules.NOT_READY.finding(pod.span(), message, hint=hint)
    elif pod.chips is not None and asked and len(pod.chips) != asked:
        has = fold_numbers(chip.device_id for chip in pod.chips)
        message = (
            f"{pod} asks for {counted(asked, 'chip')}, and its annotation has "
            f"{len(pod.chips)}: {has}"
        )
        yield rules.NOT_READY.finding(span, message)


def _differing(pod: Pod) -> Iterator[Finding]:
    """Yield what the annotations of a pod say differently of its chips."""
    mounted, chips = pod.mark(REAL), pod.chips
    picked = pod.mark(PICKED)
    if mounted and picked and _names(mounted) != _names(picked):
        message = (
            f"the kubelet chose {quoted(picked)} for {pod}, and {quoted(mounted)} "
            "are mounted; the program sees the second"
        )
        span = pod.span("metadata", "annotations", PICKED)
        yield rules.DIFFERING.finding(span, message, severity=Severity.NOTE)
    ids = pod.mounted
    if mounted and ids is not None and chips is not None:
        named = [chip.device_id for chip in chips]
        if named != ids:
            message = (
                f"{pod} has the chips {fold_numbers(ids)} mounted, and "
                f"{pod.configuration_key} names {fold_numbers(named)}"
            )
            span = pod.span("metadata", "annotations", pod.configuration_key or "")
            yield rules.DIFFERING.finding(span, message)


def _names(text: str) -> set[str]:
    return {word.strip() for word in text.split(",")}


def _shared_chips(pods: Iterable[Pod]) -> Iterator[Finding]:
    first: dict[tuple[str, int], Pod] = {}
    for pod in pods:
        shared: dict[int, list[int]] = defaultdict(list)
        others: dict[int, Pod] = {}
        for chip in pod.chips or ():
            other = first.get((pod.node, chip.device_id))
            if other is not None and pod.node:
                shared[id(other)].append(chip.device_id)
                others[id(other)] = other
            first[pod.node, chip.device_id] = pod
        for key, chips in shared.items():
            which = (
                f"chip {chips[0]}"
                if len(chips) == 1
                else f"chips {fold_numbers(chips)}"
            )
            other = others[key]
            whom = f"{pod} and {other}" if other is not pod else f"{pod}, twice,"
            verb = "both have" if other is not pod else "has"
            yield rules.SHARED_CHIP.finding(
                pod.span(),
                f"{whom} {verb} {which} of {printable(pod.node)}",
                related=(other.span()._replace(label="first use"),),
            )


def _bad_addresses(pods: Sequence[Pod]) -> Iterator[Finding]:
    first: dict[str, tuple[Pod, Chip]] = {}
    for pod in pods:
        span = pod.span("metadata", "annotations", pod.configuration_key or "")
        bad = [c for c in pod.chips or () if not _has_address(c)]
        said = {quoted(chip.address) for chip in bad if chip.address is not None}
        if said:
            ids = fold_numbers(chip.device_id for chip in bad)
            message = f"{pod} has no device_ip for its chips {ids}: {', '.join(said)}"
            hint = f"configure the network cards of {printable(pod.node)} (hccn_tool)"
            is_alone = len(pods) == 1
            severity = Severity.WARNING if is_alone else Severity.ERROR
            yield rules.BAD_ADDRESS.finding(span, message, hint=hint, severity=severity)
        for chip in pod.chips or ():
            if chip.address is None or not _has_address(chip):
                continue
            other, its = first.setdefault(chip.address, (pod, chip))
            if its is not chip:
                yield rules.BAD_ADDRESS.finding(
                    span,
                    f"{chip.address} is the device_ip of chip {chip.device_id} of "
                    f"{pod} and of chip {its.device_id} of {other}",
                    related=(other.span()._replace(label="first use"),),
                )


def _has_address(chip: Chip) -> bool:
    texts = (chip.address or "").split(",")
    return all(map(is_device_address, texts))


def _together(pods: Sequence[Pod]) -> Iterator[Finding]:
    """Yield warnings about pods of different sizes, and about pods of one network."""
    sizes = [sum(pod.asked.values()) or pod.size for pod in pods]
    usual = Counter(filter(None, sizes)).most_common(1)
    for pod, size in zip(pods, sizes, strict=True):
        if size and size != usual[0][0]:
            yield rules.UNEVEN.finding(
                pod.span(),
                f"{pod} has {counted(size, 'chip')}, and most pods have "
                f"{usual[0][0]}; ranks count up over the pods",
            )
            break
    on_node: dict[str, Pod] = {}
    for pod in pods:
        if pod.is_on_host_network and pod.node:
            other = on_node.setdefault(pod.node, pod)
            if other is not pod:
                yield rules.SAME_NETWORK.finding(
                    pod.span("spec", "hostNetwork"),
                    f"{pod} and {other} use the network of {printable(pod.node)}, so "
                    "they have the same address and the same ports",
                )


def table_of(pods: Sequence[Pod]) -> RankTable | None:
    """Return the table of pods in their order, None if a pod does not name its chips.

    The server_id is the address of the host if every pod is alone on its host, else
    the UID of the pod, as ascend-operator writes it.
    """
    if not all(pod.chips for pod in pods):
        return None
    is_alone = len({pod.node for pod in pods}) == len(pods)
    is_super = all(
        pod.super_pod is not None and all(c.super_device_id for c in pod.chips or ())
        for pod in pods
    )
    nodes, rank = [], 0
    for pod in pods:
        devices = []
        for chip in pod.chips or ():
            told = {SUPER_DEVICE: chip.super_device_id} if is_super else {}
            address = chip.address if _has_address(chip) else None
            device = Device(
                rank=rank, device_id=chip.device_id, address=address, extra={**told}
            )
            devices.append(device)
            rank += 1
        host = (pod.host_ip or pod.node) if is_alone else (pod.uid or pod.name)
        more = {} if is_alone else {"host_ip": pod.host_ip}
        more |= {"container_ip": pod.pod_ip}
        known: dict[str, object] = {key: text for key, text in more.items() if text}
        nodes.append(Node(devices=tuple(devices), host=host, extra=known))
    extra: dict[str, object] = {"status": "completed"}
    if is_super:
        joining = {
            node.host or "": pod.super_pod or ""
            for node, pod in zip(nodes, pods, strict=True)
        }
        extra[PODS] = pods_joined([], joining)
    version = "1.2" if is_super else "1.0"
    return RankTable(
        nodes=nodes, version=version, format=f"hccl-{version}", extra=extra
    )


def _read(source: SourceText) -> Hostfile | None:
    """Return the pods of the only job of a list as hosts, with their table."""
    pods = read_pods(source.text, source.found)
    if pods is None:
        return None
    if len(pods.jobs) > 1:
        first = next(iter(pods.jobs.values()))[0]
        names = ", ".join(map(printable, sorted(pods.jobs)))
        source.report(
            rules.SEVERAL_JOBS,
            first.span(),
            f"the list has the pods of {len(pods.jobs)} jobs: {names}",
            hint=f"select one: kubectl get pods {first.selector} -o json",
        )
        return None
    ordered = judge_pods(pods, pods.jobs, source.found)
    if len(ordered) < len(pods.live):
        source.left_out.add("pods without chips")
    addresses = [pod.pod_ip for pod in ordered]
    are_unique = len(set(addresses)) == len(addresses) and all(
        map(is_address, addresses)
    )
    hosts = tuple(
        Host(
            name=pod.pod_ip if are_unique else pod.name,
            slots=pod.size,
            device_ids=tuple(c.device_id for c in pod.chips) if pod.chips else None,
        )
        for pod in ordered
    )
    return Hostfile(hosts=hosts, table=table_of(ordered))


_POD = re.compile(r"""["']kind["']\s*:\s*["']Pod(?:List)?["']""")


def is_pod_list(text: str) -> bool:
    """Whether a text looks like pods that kubectl has printed as JSON."""
    return text.lstrip()[:1] in ("{", "[") and _POD.search(text) is not None


def _refuse_writing(hostfile: Hostfile, options: WriterOptions) -> str:
    raise ArgumentError(f"{NAME} is read only, not written")


KUBERNETES_PODS = LauncherFormat(
    name=NAME,
    title="a list of pods",
    write=_refuse_writing,
    read=_read,
    matches=is_pod_list,
    holds_chips=True,
)
