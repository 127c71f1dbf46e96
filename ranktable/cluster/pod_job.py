"""The pods of a job in the order of their indexes: what is wrong, and their table.

Ranks count up over the pods, and within a pod over its chips by their physical ids.

Source: Ascend/mind-cluster, component/ascend-operator/pkg/ranktable.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ranktable.cluster import pod_rules as rules
from ranktable.cluster.hostfiles.hostfile import Host, Hostfile, LauncherFormat
from ranktable.cluster.pods import (
    LWS,
    NUMBER_AT_END,
    NUMBERINGS,
    PICKED,
    POD_INDEX,
    REAL,
    SUPER_DEVICE,
    objects,
    read_pods,
)
from ranktable.schema.finding import Finding, Findings, Severity
from ranktable.schema.model import Device, Node, RankTable
from ranktable.schema.text import counted, fold_numbers, printable, quoted
from ranktable.schema.values import is_address, is_device_address, plain_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.cluster.pods import Numbering, Pod, PodChip, PodList
    from ranktable.cluster.source_text import SourceText

NAME = "kubernetes-pods"
_ASCEND = re.compile(r"huawei\.com/(?:Ascend|npu)", re.IGNORECASE)
_FIRST_ROLES = ("master", "chief", "leader", "launcher", "head", "driver")
_LAUNCHER = "launcher"
_NUMBERS = re.compile(r"([0-9]{1,9})")
_WAITING = {
    "Pending": "it has no chips or no address yet",
    "Unknown": "its node does not answer",
}


_HELP_OF_STATES = (
    ("CrashLoopBackOff", "look at the last output: `kubectl logs -c NAME --previous`"),
    (
        "ImagePull|InvalidImage",
        "correct the name of its image, or its imagePullSecrets",
    ),
    ("CreateContainer", "correct what its containers are made of"),
)
"""What to do about a pod that does not run however long one waits."""


class Place(NamedTuple):
    """The place of a pod in the order of its job."""

    role: tuple[Any, ...]
    numbers: tuple[int, ...]

    @property
    def group(self) -> tuple[Any, ...]:
        """What it has in common with the pods that are numbered with it."""
        return (self.role, self.numbers[:-1])

    def __str__(self) -> str:
        """Return the index for messages."""
        return ".".join(map(str, self.numbers))


RAY = "ray.io/cluster"


def judge_pods(
    pods: PodList, jobs: Iterable[str], found: Findings, *, has_table: bool = True
) -> list[Pod]:
    """Report what is wrong with the pods of some jobs, and return them in order.

    Args:
        pods: All pods of the list.
        jobs: The jobs.
        found: Gets the findings.
        has_table: Whether a table has their order; Ray numbers its workers itself.
    """
    found.add(*_shared_chips(pods.live))
    ordered: list[Pod] = []
    for job in jobs:
        own = pods.jobs[job]
        places = _places(own, found, has_table=has_table)
        in_order = sorted(own, key=lambda pod: places.get(id(pod), _NO_PLACE))
        found.add(*_twice(in_order, places))
        if len(places) == len(own):
            found.add(*_missing(in_order, places, pods))
        has_chips = any(pod.uses_chips for pod in own)
        # Of pods that ask for chips by their spec, one that does not has none, such as
        # the head of a RayCluster.
        asking = {pod.kind for pod in own if pod.asked}
        for pod in in_order:
            if has_chips:
                found.add(*_not_ready(pod, wants_chips=pod.kind not in asking))
            found.add(*_differing(pod))
        found.add(*_bad_addresses(in_order), *_together(in_order))
        ordered += in_order
    return ordered


_NO_PLACE = Place((2,), ())


def _numbering(pods: Sequence[Pod]) -> Numbering:
    """Return the first way of numbering that all pods have, else that most have."""

    def number(one: Numbering) -> int:
        return sum(pod.mark(one.marks[0]) is not None for pod in pods)

    return max(NUMBERINGS, key=number)


def _places(
    pods: Sequence[Pod], found: Findings, *, has_table: bool
) -> dict[int, Place]:
    """Return the place of each pod, and report the pods without one."""
    way = _numbering(pods)
    places = {}
    for pod in pods:
        mark = pod.mark(way.marks[0])
        place = _place(pod, way)
        if place is None and len(pods) == 1 and mark is None:
            place = Place(_role(way.role and pod.mark(way.role)), (0,))
        if place is not None:
            places[id(pod)] = place
        elif has_table or pod.mark(RAY) is None:
            key = next((key for key in way.marks if _is_no_index(pod.mark(key))), None)
            key = key or way.marks[0]
            found.add(_without_index(pod, key, pod.mark(key), pods))
    return places


def _place(pod: Pod, way: Numbering) -> Place | None:
    """Return the place that the marks of a pod give it, None if they give none."""
    numbers = [plain_number(pod.mark(key)) for key in way.marks]
    if numbers[0] is None or any(n is not None and n < 0 for n in numbers):
        return None
    role = _role(way.role and pod.mark(way.role))
    return Place(role, tuple(n or 0 for n in numbers))


def _is_no_index(mark: str | None) -> bool:
    number = plain_number(mark)
    return mark is not None and (number is None or number < 0)


def _role(name: str | None) -> tuple[Any, ...]:
    """Return the place of a kind of pods: masters come first, as in Volcano."""
    name = name or ""
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
        hint = "give every pod an index of its own in the annotation hccl/rankIndex"
        if pod.kind == other.kind and created[0] != created[1]:
            older = other if created[0] < created[1] else pod
            hint = f"wait until {older} is gone, or delete it; the other one is newer"
        yield rules.INDEX_TWICE.finding(
            pod.span(),
            f"{pod} and {other} both have the index {place}",
            hint=hint,
            related=(other.span()._replace(label="first use"),),
        )


_SHOWN_GAPS = 20


def _missing(
    pods: Sequence[Pod], places: Mapping[int, Place], listed: PodList
) -> Iterator[Finding]:
    """Yield a finding for each index without a pod that runs.

    It is below another index or the size of the job, or an ended pod has it.
    """
    way = _numbering(pods)
    kinds = {pod.kind for pod in pods}
    gone = {
        _place(pod, way): pod
        for pod in listed.ended
        if pod.kind in kinds
        or (pod.job == pods[0].job and pod.text("status", "phase") == "Failed")
    }
    others = {_place(pod, way) for pod in listed.live if pod.job == pods[0].job}
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place in sorted({*places.values(), *filter(None, gone)}):
        groups[place.group].append(place.numbers[-1])
    live = {*places.values(), *filter(None, others)}
    num_places = sum(map(len, groups.values()))
    for group, indexes in groups.items():
        role, outer = group
        peers = [pod for pod in pods if places[id(pod)].group == group] or list(pods)
        size = _size(peers[0], LWS + "size") or _size(peers[0], "env:LWS_GROUP_SIZE")
        if size is None and group == list(groups)[-1]:
            nodes = _size(peers[0], "env:PET_NNODES")
            if nodes and way.role and role[0] == 0:  # a job has one master
                yield from _others_missing(peers[0], nodes - num_places)
                nodes = None
            size = nodes and nodes - num_places + len(indexes)
        start = min(indexes) if way.marks[0] == POD_INDEX else 0
        if _LAUNCHER in next(iter(groups))[0] and role[0] == 1 and indexes[0] == 1:
            start = 1  # the launcher of an MPIJob that works is 0, worker-0 is 1
        gaps = (
            place
            for index in range(start, max(indexes[-1] + 1, size or 0))
            if (place := Place(role, (*outer, index))) not in live
        )
        yield from _gaps(gaps, peers, places, gone)
    firsts = sorted({group[1][0] for group in groups if group[1]})
    if way.role is None:
        for one, other in pairwise(firsts):
            if other - one > 1:
                gap = fold_numbers(range(one + 1, min(other, one + 1 + _SHOWN_GAPS)))
                message = f"no pod has {way.marks[0]} {gap}"
                yield rules.MISSING.finding(pods[0].span(), message)


def _others_missing(pod: Pod, number: int) -> Iterator[Finding]:
    if number > 0:
        message = f"{counted(number, 'more pod')} of {printable(pod.job)} are missing"
        yield rules.MISSING.finding(pod.span(), f"{message}: PET_NNODES counts them")


def _gaps(
    gaps: Iterator[Place],
    peers: Sequence[Pod],
    places: Mapping[int, Place],
    gone: Mapping[Place | None, Pod],
) -> Iterator[Finding]:
    peer = peers[0]
    for place in islice(gaps, _SHOWN_GAPS):
        message = f"no pod of {printable(peer.job)} has the index {place}"
        old = gone.get(place)
        if old is not None:
            message += f": {old} {old.end or 'is of an earlier attempt'}"
        elif (name := _name_of(place, peers, places)) is not None:
            message += f": {printable(name)} is not there"
        yield rules.MISSING.finding(peer.span(), message)
    if next(gaps, None) is not None:
        message = f"no pod of {printable(peer.job)} has some higher indexes either"
        yield rules.MISSING.finding(peer.span(), message)


def _size(pod: Pod, key: str) -> int | None:
    return plain_number(pod.mark(key))


def _name_of(
    place: Place, peers: Sequence[Pod], places: Mapping[int, Place]
) -> str | None:
    """Return the name of the pod with a place, if the names of others tell it."""
    if (name := peers[0].mark(LWS + "name")) and len(place.numbers) == 2:
        group, worker = place.numbers
        return f"{name}-{group}" + (f"-{worker}" if worker else "")
    found = NUMBER_AT_END.fullmatch(peers[0].name)
    stem = found[1] if found else ""
    names = {f"{stem}-{places[id(pod)].numbers[-1]}" for pod in peers}
    return f"{stem}-{place.numbers[-1]}" if names == {p.name for p in peers} else None


def _not_ready(pod: Pod, *, wants_chips: bool) -> Iterator[Finding]:
    """Yield why a pod or its chips are not ready.

    Args:
        pod: The pod.
        wants_chips: Whether it should have chips even if it does not ask for any.
    """
    phase = pod.text("status", "phase")
    asked = sum(pod.asked.values())
    key = pod.configuration_key
    span = pod.span("metadata", "annotations", key or "")
    if phase in _WAITING:
        why = "; ".join(pod.troubles) or _WAITING[phase]
        message = f"{pod} is {phase}: {why}"
        found = (hint for words, hint in _HELP_OF_STATES if re.search(words, why))
        hint = next(found, "wait until it runs")
        hint += "; `kubectl describe pod` shows what it waits for"
        yield rules.NOT_READY.finding(pod.span("status", "phase"), message, hint=hint)
    elif key is not None and not objects(pod.configuration.get("devices")):
        message = f"{key} of {pod} does not name its devices"
        yield rules.NOT_READY.finding(span, message)
    elif key is not None and pod.chips is None:
        message = f"{key} of {pod} has a device without a number as device_id"
        yield rules.NOT_READY.finding(span, message)
    elif pod.chips is None and (
        any(map(_ASCEND.match, pod.asked)) if asked else wants_chips
    ):
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
    first: dict[str, tuple[Pod, PodChip]] = {}
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


def _has_address(chip: PodChip) -> bool:
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
        own = pod.super_pod if is_super else None
        nodes.append(
            Node(devices=tuple(devices), host=host, super_pod=own, extra=known)
        )
    extra: dict[str, object] = {"status": "completed"}
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


KUBERNETES_PODS = LauncherFormat(
    name=NAME,
    title="a list of pods",
    write=None,
    read=_read,
    matches=is_pod_list,
    holds_chips=True,
)
