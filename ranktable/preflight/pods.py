"""RT761 to RT766: the rows of a table against the pods that run now.

A row of the table is one server or node. It belongs to the pod that its server_id names
(by UID, address or name), or to a pod of the host that it names.

Source: Ascend/mind-cluster, component/ascend-operator/pkg/ranktable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ranktable.cluster.pod_job import NAME, RAY, judge_pods
from ranktable.cluster.pod_rules import (
    BAD_ADDRESS,
    DIFFERING,
    INDEX_TWICE,
    MISSING,
    NO_INDEX,
    NOT_PODS,
    NOT_READY,
    SEVERAL_JOBS,
    SHARED_CHIP,
    UNEVEN,
)
from ranktable.cluster.pod_rules import RULES as OF_PODS
from ranktable.cluster.pods import read_pods
from ranktable.cluster.source_text import parse_source
from ranktable.preflight.here import Checked, Looked
from ranktable.schema.finding import Finding, RankTableError, Rule, Severity
from ranktable.schema.text import counted, fold_numbers, printable, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.cluster.pods import Pod, PodList
    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.finding import Diagnostic, Findings
    from ranktable.schema.model import Node, RankTable
    from ranktable.schema.report import Report


STALE = Rule(
    code="RT761",
    name="row-without-pod",
    summary="a row names a host or pod on which the job does not run",
    fix="Write the table again: `ranktable convert pods.json --from kubernetes-pods`.",
)
NOT_IN_TABLE = Rule(
    code="RT762",
    name="pod-without-row",
    summary="a pod of the job has no row in the table",
    fix="Write the table again from the pods, or delete the pod.",
)
OTHER_CHIPS = Rule(
    code="RT763",
    name="pod-has-other-chips",
    summary="a pod has other chips than its row in the table",
    fix="Write the table again from the pods.",
)
OTHER_ADDRESS = Rule(
    code="RT764",
    name="pod-has-other-address",
    summary="a pod or one of its chips has another address than its row",
    fix="Write the table again from the pods.",
)
OTHER_ORDER = Rule(
    code="RT765",
    name="pods-in-other-order",
    summary="the table has the pods in another order than their indexes",
    fix="Write the table again from the pods, in the order of their indexes.",
)
NOT_RUNNING = Rule(
    code="RT766",
    name="container-not-running",
    summary="a pod is Running, and a container of it is not",
    fix="Look at its last output: `kubectl logs --previous`, `kubectl describe pod`.",
)
_OF_TABLE = (STALE, NOT_IN_TABLE, OTHER_CHIPS, OTHER_ADDRESS, OTHER_ORDER)
RULES = (*_OF_TABLE, NOT_RUNNING)
ALL = (*OF_PODS, *RULES)
_OF_CHIPS = (SHARED_CHIP, BAD_ADDRESS, DIFFERING, OTHER_ADDRESS)
"""Rules that need to know which chips a pod has."""
_OF_INDEXES = (NO_INDEX, INDEX_TWICE, MISSING)
_OF_SIZES = (NOT_READY, UNEVEN, OTHER_CHIPS)
"""Rules that need to know how many chips a pod has."""

MAX_SIZE_BYTES = 1 << 28
"""The pods of a job of ten thousand are 100 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One node of a table.

    Attributes:
        node: The node.
        pod: The pod that it names, None if it names none that runs.
    """

    node: Node
    pod: Pod | None = None

    @property
    def ranks(self) -> str:
        """Its ranks, for messages."""
        ranks = fold_numbers(device.rank for device in self.node.devices)
        return f"{'rank' if len(self.node.devices) == 1 else 'ranks'} {ranks}"

    @property
    def host(self) -> str:
        """Its server_id or host, empty if it has none."""
        return self.node.host or ""

    def told(self, key: str) -> str:
        """Return a text of its node, empty if there is none."""
        value = self.node.extra.get(key)
        return value if isinstance(value, str) else ""

    @property
    def chips(self) -> set[int]:
        """Its chips."""
        return {device.device_id for device in self.node.devices}


_SHOWN = 20
"""Most findings of a rule that are shown."""


def check_pods(report: Report | None, data: bytes | str, *, file: str) -> Checked:
    """Return what is wrong with the pods that run now, and how a table differs.

    Args:
        report: The report of a sound table, None without one.
        data: What ``kubectl get pods -o json`` prints.
        file: Name of that file.

    Raises:
        RankTableError: The list cannot be read, so nothing was compared.
    """
    table = None if report is None else report.sound_table()
    pods: PodList | None = None

    def read(source: SourceText) -> bool:
        nonlocal pods
        pods = read_pods(source.text, source.found)
        if pods is not None and not any(
            one.text("status", "phase") for one in pods.live
        ):
            message = "no pod of the list has a status, so none is known to run"
            source.found.add(NOT_PODS.finding(pods.live[0].span(), message))
            pods = None
        if pods is not None and table is not None:
            _compare(table, pods, source.found)
        elif pods is not None:
            judge_pods(pods, pods.jobs, source.found, has_table=False)
            for one in pods.live:
                source.found.add(*_states(one))
        return True

    found = parse_source(
        data, read, file=file, name=NAME, limit=_SHOWN, max_size_bytes=MAX_SIZE_BYTES
    )[0]
    if pods is None and NOT_PODS.code not in found.totals:
        raise RankTableError(found.diagnostics)
    named = pods is not None and any(one.chips for one in pods.live)
    others = [rule for rule in ALL if rule.code not in found.totals]
    sized = pods is not None and any(one.size for one in pods.live)
    unseen = (*(() if named else _OF_CHIPS), *(() if sized else _OF_SIZES))
    whys = dict.fromkeys(unseen, "the pods do not name their chips")
    subject = f"{file}, without a table"
    if report is None or table is None:
        whys |= dict.fromkeys(_OF_TABLE, "no table is given")
        if pods and any(one.mark(RAY) is not None for one in pods.live):
            whys |= dict.fromkeys(_OF_INDEXES, "Ray numbers its workers itself")
    else:
        subject = f"{file}, {report.file} ({table.digest()[:8]})"
    if not pods:
        whys = dict.fromkeys(others, "no pod is known to run")
    return Checked(
        subject=subject,
        diagnostics=tuple(_with_totals(found)),
        agrees=tuple(Looked(r.code, r.name) for r in others if r not in whys),
        not_checked=tuple(Looked(r.code, r.name, whys[r]) for r in others if r in whys),
    )


def _with_totals(found: Report) -> Iterator[Diagnostic]:
    """Yield the findings with advice; the last of a rule says how many more."""
    fixes = {rule.code: rule.fix for rule in ALL}
    shown = Counter(each.code for each in found.diagnostics)
    for each in found.diagnostics:
        shown[each.code] -= 1
        more = found.totals[each.code] - _SHOWN
        is_last = shown[each.code] == 0 and more > 0
        message = each.message + (f"; and {more} more like this" if is_last else "")
        yield each._replace(message=message, hint=each.hint or fixes.get(each.code))


def _compare(table: RankTable, pods: PodList, found: Findings) -> None:
    rows = [
        Row(node=node)
        for node in sorted(table.nodes, key=lambda n: min(d.rank for d in n.devices))
    ]
    able = [one for own in pods.jobs.values() for one in own]
    rows = _matched(rows, able)
    jobs = {row.pod.job: None for row in rows if row.pod is not None} or pods.jobs
    if len(pods.jobs) > 1 and all(row.pod is None for row in rows):
        message = f"no pod of the {len(jobs)} jobs in the list is in the table"
        found.add(SEVERAL_JOBS.finding(able[0].span(), message))
        return
    if twins := _twins(rows, jobs, pods):
        message = f"pods of {' and '.join(twins)} are on the hosts of the table"
        hint = "Select the pods of one namespace: kubectl get pods -n NAMESPACE."
        found.add(SEVERAL_JOBS.finding(able[0].span(), message, hint=hint))
        return
    ordered = judge_pods(pods, jobs, found)
    if not any(table.hosts):  # then only the order tells which row a pod has
        pairs = zip_longest(rows, ordered[: len(rows)])
        rows = [Row(node=row.node, pod=one) for row, one in pairs]
    ended = [one for one in pods.ended if one.job in jobs]
    found.add(*_unmatched(rows, ordered, ended))
    for row in rows:
        if row.pod is not None:
            found.add(*_of_row(row, row.pod))
    found.add(*_order(rows, ordered))


def _names(one: Pod) -> set[str]:
    """Return what a table may call a pod."""
    own = {one.uid, one.name, one.text("spec", "hostname")}
    return own | (set() if one.is_on_host_network else {one.pod_ip})


def _matched(rows: Sequence[Row], pods: Sequence[Pod]) -> list[Row]:
    """Return the rows with their pods; a pod has one row at most."""
    by_name: dict[str, list[Pod]] = defaultdict(list)
    by_host: dict[str, list[Pod]] = defaultdict(list)
    for one in pods:
        for name in filter(None, _names(one)):
            by_name[name].append(one)
        for name in filter(None, {one.host_ip, one.node, one.text("spec", "nodeName")}):
            by_host[name].append(one)
    used: set[int] = set()
    matched = []
    for row in rows:
        names = [row.host, row.host.partition(".")[0], row.told("pod_name")]
        found = [one for name in names for one in by_name.get(name, ())]
        found = found or by_host.get(row.host) or by_host.get(names[1], [])
        free = [one for one in found if id(one) not in used]
        best = max(free, key=lambda one: _likeness(row, one), default=None)
        if best is not None:
            used.add(id(best))
        matched.append(Row(node=row.node, pod=best))
    return matched


def _twins(rows: Sequence[Row], jobs: Iterable[str], pods: PodList) -> list[str]:
    """Return jobs of one name in several namespaces that fit a table equally well."""
    own = next(iter(jobs))
    name = own.partition("/")[2]
    alike = [job for job in pods.jobs if job.partition("/")[2] == name]
    bare = [Row(node=row.node) for row in rows]

    def fit(job: str) -> list[tuple[bool, int] | None]:
        matched = _matched(bare, pods.jobs[job])
        return [None if row.pod is None else _likeness(row, row.pod) for row in matched]

    wanted = fit(own) if len(alike) > 1 else []
    fitting = [job for job in alike if any(wanted) and fit(job) == wanted]
    return [printable(job) for job in fitting] if len(fitting) > 1 else []


def _likeness(row: Row, one: Pod) -> tuple[bool, int]:
    chips = {chip.device_id for chip in one.chips or ()}
    return one.pod_ip in (row.told("container_ip"), row.host), len(chips & row.chips)


def _unmatched(
    rows: Sequence[Row], pods: Sequence[Pod], ended: Sequence[Pod]
) -> Iterator[Finding]:
    """Yield the rows without a pod, with the pods that have none, by their order."""
    used = {id(row.pod) for row in rows}
    left = {at: one for at, one in enumerate(pods) if id(one) not in used}
    has_addresses = any(row.pod and row.host == row.pod.pod_ip for row in rows)
    is_paired = len(left) == sum(row.pod is None for row in rows)
    before = {
        name: one for one in ended for name in {*_names(one), one.host_ip, one.node}
    }
    for row in rows:
        if row.pod is not None:
            continue
        where = quoted(row.host) if row.host else "a node without host"
        now = left.pop(min(left)) if is_paired else None
        old = before.get(row.host) if row.host else None
        if now is not None:
            message = (
                f"the table has {row.ranks} on {where}, and {now} runs on {_where(now)}"
            )
            if has_addresses and now.pod_ip:
                message += f" with the address {printable(now.pod_ip)}"
            yield STALE.finding(now.span("spec", "nodeName"), message)
        else:
            message = (
                f"no pod that runs has {row.ranks}, which the table has on {where}"
            )
            if old is not None:
                message += f"; {old} {old.end or 'is of an earlier attempt'}"
            span = None if old is None else old.span()
            yield STALE.finding(span, message)
    for one in left.values():
        message = f"{one} on {_where(one)} is not in the table"
        yield NOT_IN_TABLE.finding(one.span(), message)


def _where(one: Pod) -> str:
    """Return the host of a pod for messages."""
    names = list(dict.fromkeys(filter(None, (one.host_ip, one.node))))
    shown = " (".join(map(printable, names)) + ")" * (len(names) - 1)
    return shown or "no host yet"


def _of_row(row: Row, one: Pod) -> Iterator[Finding]:
    """Yield what differs between a row and its pod."""
    span = one.span("metadata", "annotations", one.configuration_key or "")
    chips = {chip.device_id: chip for chip in one.chips or ()}
    if chips and chips.keys() != row.chips:
        message = (
            f"{one} has the chips {fold_numbers(sorted(chips))}, and the table has "
            f"{fold_numbers(sorted(row.chips))} for its {row.ranks}"
        )
        yield OTHER_CHIPS.finding(span, message)
    elif not chips and one.size not in (None, len(row.chips)):
        message = (
            f"{one} has {counted(one.size or 0, 'chip')}, and the table has "
            f"{len(row.chips)} for its {row.ranks}"
        )
        yield OTHER_CHIPS.finding(span, message)
    others = [
        (device, chips[device.device_id].address)
        for device in row.node.devices
        if device.address
        and device.device_id in chips
        and chips[device.device_id].address not in (None, device.address)
    ]
    if others:
        device, address = others[0]
        more = f", and {len(others) - 1} more" if len(others) > 1 else ""
        message = (
            f"the device_ip of chip {device.device_id} of {one} is "
            f"{printable(address or '')}, and the table has {device.address} for "
            f"rank {device.rank}{more}"
        )
        yield OTHER_ADDRESS.finding(span, message)
    yield from _states(one)
    told = row.told("container_ip")
    if told and one.pod_ip and told != one.pod_ip:
        message = f"the address of {one} is {one.pod_ip}, and the table has {told}"
        span = one.span("status", "podIP")
        yield OTHER_ADDRESS.finding(span, message, severity=Severity.WARNING)
    told = row.told("host_ip")
    if told and one.host_ip and told != one.host_ip:
        message = f"{one} runs on {_where(one)}, and the table has {told}"
        yield STALE.finding(one.span("status", "hostIP"), message)


def _states(one: Pod) -> Iterator[Finding]:
    """Yield why a pod does not run, or will soon not."""
    if one.text("status", "phase") == "Running" and one.troubles:
        troubles = "; ".join(one.troubles)
        message = f"{one} is Running, but not all its containers: {troubles}"
        yield NOT_RUNNING.finding(one.span("status", "containerStatuses"), message)
    if not one.text("status", "phase"):
        message = f"{one} has no status, so it is not known to run"
        yield NOT_RUNNING.finding(one.span(), message, severity=Severity.WARNING)
    if one.disruption is not None:
        message = f"{one} is about to be deleted ({one.disruption})"
        span = one.span("status", "conditions")
        yield NOT_RUNNING.finding(span, message, severity=Severity.WARNING)


def _order(rows: Sequence[Row], pods: Sequence[Pod]) -> Iterator[Finding]:
    """Yield the pods whose rows are not where their indexes want them."""
    place = {id(one): at for at, one in enumerate(pods)}
    own = [(row, place[id(row.pod)]) for row in rows if id(row.pod) in place]
    wanted = sorted(at for _, at in own)
    for (row, at), other in zip(own, wanted, strict=True):
        if at != other:
            yield OTHER_ORDER.finding(
                row.pod.span() if row.pod else None,
                f"the table gives {row.ranks} to {row.pod}, and by its index "
                f"{pods[other]} should have them",
            )
