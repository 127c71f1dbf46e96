"""The names by which the pods of a job find each other.

Source: kubernetes.io, "DNS for Services and Pods".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.shell import UNKNOWN
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Role

_POD_NAME: Final = re.compile(r"([a-z][a-z0-9-]*?)(?:-[0-9]+){1,2}\.([a-z0-9-]+)")
"""The name of a pod with its index, or with those of its Job and itself."""


def judge_master(made: Manifests, role: Role, pods: set[str], domain: str) -> None:
    """Report the address of a pod that this job does not have.

    Args:
        made: Where to report.
        role: The role whose command is judged.
        pods: The names of pods of this job, without their indexes.
        domain: The subdomain of the pods, empty if they have none.
    """
    for name in ("master-addr", "rdzv-endpoint"):
        given = role.command.options.get(name)
        match = None if given is None else _POD_NAME.match(given.text)
        if given is None or match is None or any(UNKNOWN in pod for pod in pods):
            continue
        if match[1] in pods and match[2] == domain:
            continue
        host = given.text.partition(":")[0]
        first = min(pods)
        reason = "" if domain else ", because its pods have no subdomain"
        made.report(
            rules.POD_NAMES,
            given.span,
            f"no pod of this job is called {quoted(host)}{reason}",
            hint=f"the pods are called {first}-INDEX.{domain or 'SUBDOMAIN'}",
        )


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
