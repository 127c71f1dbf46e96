"""The names by which the pods of a job find each other.

Source: kubernetes.io, "DNS for Services and Pods".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.agents import NUMBERED, is_static
from ranktable.cluster.submissions.shell import plain_number
from ranktable.cluster.submissions.shell_marks import POD_INDEX, UNKNOWN
from ranktable.schema.finding import Severity
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Role, Setting

_POD_NAME: Final = re.compile(r"([a-z][a-z0-9-]*?)(?:-[0-9]+){1,2}\.([a-z0-9-]+)")
"""The name of a pod with its index, or with those of its Job and itself."""
_WITH_PODS: Final = ("Job", "JobSet", "StatefulSet", "LeaderWorkerSet", "PyTorchJob")
_OF_A_SERVICE: Final = re.compile(r"[a-z0-9-]+-(?:master|worker)-[0-9]+(?![a-z0-9-])")
"""The name that the training operator gives a pod and its Service."""


class Pods(NamedTuple):
    """Pods of a role whose names differ by their indexes.

    Attributes:
        role: What they run.
        base: Their name without the indexes.
        counts: How many there are by each index, None if that is not known.
    """

    role: Role
    base: str
    counts: tuple[int | None, ...]

    def indexes(self, label: str) -> tuple[int, ...] | None:
        """Return the indexes in a name, None if no pod here has it."""
        one = r"-(0|[1-9][0-9]{0,8})" * len(self.counts)
        match = re.fullmatch(re.escape(self.base) + one, label)
        found = () if match is None else tuple(map(int, match.groups()))
        pairs = zip(found, self.counts, strict=False)
        is_one = all(count is None or index < count for index, count in pairs)
        return found if found and is_one else None


_MAX_NAME: Final = 63
"""Longest label of DNS, and with it the longest name of a host or a Service."""


def judge_lengths(
    made: Manifests, job: Manifest, pods: list[Pods], ending: str = ""
) -> None:
    """Report names of pods that are too long for a host or a Service.

    Args:
        made: Where to report.
        job: The job.
        pods: Its pods.
        ending: What stands behind the indexes in the names of pods.
    """
    names = [
        "-".join((each.base, *(str((count or 1) - 1) for count in each.counts)))
        for each in pods
    ]
    name = max(names, key=len, default="") + ending
    if UNKNOWN not in name and len(name) > _MAX_NAME:
        more = len(name) - _MAX_NAME
        made.report(
            rules.REFUSED,
            job.span("metadata", "name"),
            f"the name of a pod, {quoted(name)}, has {len(name)} characters; "
            f"{_MAX_NAME} are allowed",
            hint=f"shorten the name of the job by {more}",
        )


def judge_addresses(made: Manifests, pods: list[Pods], domain: str | None) -> None:
    """Report addresses of pods that this job does not have, or that cannot be used.

    Args:
        made: Where to report.
        pods: The pods of the job.
        domain: The subdomain of the pods, empty if they have none; None if each pod has
            a Service of its own.
    """
    if any(UNKNOWN in each.base for each in pods):
        return
    told = {given: each for each in pods for given in addresses(each.role)}
    for given, one in told.items():
        is_plain = one.role.command.program not in NUMBERED
        host = given.text.partition(":")[0]
        label, _, rest = host.partition(".")
        named = ((each, each.indexes(label)) for each in pods)
        found = next(((each, at) for each, at in named if at is not None), None)
        form = _POD_NAME if domain is not None else _OF_A_SERVICE
        is_meant = form.match(host) is not None and _is_of_cluster(rest, domain)
        if found is None and _is_of_another(made, pods, label):
            continue
        is_elsewhere = domain is not None and rest.partition(".")[0] != domain
        if is_meant and (found is None or is_elsewhere):
            first = pods[0].base + "-0" * len(pods[0].counts)
            last = "" if domain is None else f".{domain or 'SUBDOMAIN'}"
            why = ", because its pods have no subdomain" if domain == "" else ""
            made.report(
                rules.POD_NAMES,
                given.span,
                f"no pod of this job is called {quoted(host)}{why}",
                hint=f"the first pod is called {first}{last}",
                # A plain program may meet others than those of its job.
                severity=Severity.WARNING if is_elsewhere and is_plain else None,
            )
        elif found is not None and domain and not rest and _is_alone(made, pods, label):
            made.report(
                rules.POD_NAMES,
                given.span,
                f"{quoted(host)} is a name inside of its pod only",
                hint=f"write {label}.{domain}",
                severity=Severity.WARNING,
            )
        elif found is not None and (node_rank := _node_rank(*found)):
            made.report(
                rules.MASTER_ADDRESS,
                given.span,
                f"{label} has node rank {node_rank}, and the store of a static "
                "rendezvous is on node 0",
                hint="name the pod with node rank 0",
            )


def _is_of_cluster(rest: str, domain: str | None) -> bool:
    """Whether what follows the first part of a name may be of this cluster."""
    labels = rest.split(".")
    if domain is None:
        return len(labels) == 1 or labels[1] == "svc"
    return len(labels) == 1 or labels[0] == domain or labels[2:3] == ["svc"]


def _is_of_another(made: Manifests, pods: list[Pods], label: str) -> bool:
    """Whether another job of the file may have a pod with this name."""
    ends = (match.start() for match in re.finditer("-", label[:_MAX_NAME]))
    return any(
        (kind, label[:end]) in made.named
        and not any(f"{each.base}-".startswith(label[: end + 1]) for each in pods)
        for end in ends
        for kind in _WITH_PODS
    )


def _is_alone(made: Manifests, pods: list[Pods], label: str) -> bool:
    """Whether other pods have no Service with the name of a pod."""
    numbers = [each.role.nodes.value if each.role.nodes else 2 for each in pods]
    return sum(numbers) > 1 and ("Service", label) not in made.named


def addresses(role: Role) -> Iterator[Setting]:
    """Yield the addresses of the master that a role is given in the file."""
    options, backend = role.command.options, role.option("rdzv-backend")
    if role.command.program in NUMBERED:
        names = ["master-addr"]
        if backend is None or backend.text in ("c10d", "static"):
            names.append("rdzv-endpoint")
        yield from (options[name] for name in names if name in options)
    given = role.variables.get("MASTER_ADDR")
    if role.command.program == "python" and given is not None and given.span:
        yield given


def _node_rank(pods: Pods, indexes: tuple[int, ...]) -> int | None:
    """Return the node rank of a pod in a static rendezvous, None if not known."""
    role = pods.role
    if role.command.program not in NUMBERED or not is_static(role):
        return None
    given = role.option("node-rank")
    is_counted = "PET_NODE_RANK" in role.counted
    if given.text == POD_INDEX if given is not None else is_counted:
        first = next(iter(role.counted.values()), 0)
        return first + indexes[-1] if pods.counts[:-1] in ((), (1,)) else None
    is_one = pods.counts in ((1,), (1, 1))
    return plain_number(given.text) if given is not None and is_one else None


def judge_service(job: Manifest, made: Manifests, domain: str) -> None:
    """Judge the Service of the subdomain, if it is in the file."""
    labels = {
        "job-name": job.name,
        "batch.kubernetes.io/job-name": job.name,
        **job.members("spec", "template", "metadata", "labels"),
    }
    service = made.named.get(("Service", domain))
    if service is None or not domain:
        return
    if service.get("spec", "clusterIP") != "None":
        made.report(
            rules.POD_NAMES,
            service.span("spec"),
            f"the Service {domain} has an address of its own, so pods get no names",
            hint="add clusterIP: None",
        )
    selector = service.members("spec", "selector")
    own = "statefulset.kubernetes.io/pod-name"  # of each pod
    wrong = {k: v for k, v in selector.items() if k != own and labels.get(k) != v}
    if wrong:
        listed = ", ".join(f"{key}: {value}" for key, value in wrong.items())
        made.report(
            rules.POD_NAMES,
            service.span("spec", "selector"),
            f"the Service {domain} selects {listed}, which the pods do not have",
        )
