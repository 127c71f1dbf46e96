"""Indexed Jobs of Kubernetes with their Service, and JobSets of several Jobs.

Sources: kubernetes.io, "Job with Pod-to-Pod Communication"; kubernetes-sigs/jobset,
site/static/examples/simple/jobset-with-network.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import DEFAULT_PORT, Hostfile
from ranktable.cluster.hostfiles.kubernetes_manifests import (
    manifest,
    manifest_format,
    pod_size,
    pods,
)
from ranktable.cluster.hostfiles.torchrun import agent_arguments
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.cluster.hostfiles.kubernetes_manifests import Fields, NewJob

POD = ("spec", "template", "spec")
_LABELS = ("job-name", "batch.kubernetes.io/job-name")


def read_job(job: Fields, name: str, documents: list[Fields]) -> Hostfile | None:
    """Return the pods of an Indexed Job, with the names that its Service gives them."""
    count = pod_count(job, "spec")
    job.fixed("Indexed", "spec", "completionMode", why="without it a pod has no index")
    subdomain = job.text(*POD, "subdomain")
    size = pod_size(job, "spec", "template")
    if subdomain is not None:
        _check_service(job, documents, name, subdomain)
    names = [f"{name}-{index}.{subdomain}" for index in range(count or 0)]
    return pods(job, names, size)


def pod_count(fields: Fields, *spec: str | int) -> int | None:
    """Return the number of pods of a Job; all must run at the same time."""
    count = fields.integer(*spec, "completions", least=1)
    parallel = fields.integer(*spec, "parallelism", least=1)
    if None not in (count, parallel) and count != parallel:
        message = f"completions is {count} and parallelism {parallel}"
        hint = "all pods of a job that communicates have to run at once"
        fields.source.report(
            rules.COUNTS_DISAGREE,
            fields.span_of(*spec, "parallelism"),
            message,
            hint=hint,
        )
    if count is not None and count > MAX_HOSTS:
        fields.report(f"completions is more than {MAX_HOSTS}", *spec, "completions")
        return None
    return count


def _check_service(
    job: Fields, documents: Iterable[Fields], name: str, subdomain: str
) -> None:
    """Compare the Service with the Job, if it is in the same file."""
    services = [fields for fields in documents if fields.get("kind") == "Service"]
    named = [
        service for service in services if service.get("metadata", "name") == subdomain
    ]
    if services and not named:
        message = f"subdomain {quoted(subdomain)} is the name of no Service here"
        job.source.report(
            rules.COUNTS_DISAGREE, job.span_of(*POD, "subdomain"), message
        )
    for service in named:
        service.fixed(
            "None", "spec", "clusterIP", why="a Service that names pods is headless"
        )
        selector = service.get("spec", "selector")
        labels = selector if isinstance(selector, dict) else {}
        if labels and not any(labels.get(label) == name for label in _LABELS):
            place = next((label for label in _LABELS if label in labels), None)
            path = ("spec", "selector") + (() if place is None else (place,))
            message = f"the Service selects no pods of the Job {quoted(name)}"
            job.source.report(
                rules.COUNTS_DISAGREE,
                service.span_of(*path),
                message,
                hint=f"write job-name: {name}",
            )


def make_job(job: NewJob) -> list[object]:
    """Return a Service and an Indexed Job with one pod for each node."""
    name = job.name
    pod = _pod(job, f"{name}-0.{name}")
    headless = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"job-name": name},
    }
    service = manifest("v1", "Service", name, headless)
    indexed = _indexed(job.num_pods, {"subdomain": name, **pod})
    return [service, manifest("batch/v1", "Job", name, indexed)]


def _pod(job: NewJob, master: str) -> dict[str, object]:
    """Return the spec of every pod: a torchrun that connects to the first pod."""
    arguments = agent_arguments(
        # Kubernetes replaces the variable here; no shell is needed.
        node_rank="$(JOB_COMPLETION_INDEX)",
        num_nodes=job.num_pods,
        num_processes=job.size,
        master_addr=master,
        master_port=job.options.port or DEFAULT_PORT,
        script=job.script,
    )
    made = job.container(["torchrun", *arguments], job.name)
    return {"restartPolicy": "Never", "containers": [made]}


def _indexed(count: int, pod: dict[str, object]) -> dict[str, object]:
    """Return the spec of an Indexed Job with this number of pods."""
    return {
        "completions": count,
        "parallelism": count,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": pod},
    }


KUBERNETES_JOB = manifest_format(
    name="kubernetes-job",
    title="an Indexed Job",
    kind="Job",
    group="batch",
    read=read_job,
    make=make_job,
)


GROUP = "jobset.x-k8s.io"
_JOBS = ("spec", "replicatedJobs")


def read_jobset(jobset: Fields, name: str, _: list[Fields]) -> Hostfile | None:
    """Return the pods of a JobSet, job after job."""
    subdomain = jobset.text("spec", "network", "subdomain", default=name)
    if jobset.get("spec", "network", "enableDNSHostnames") is False:
        path = ("spec", "network", "enableDNSHostnames")
        jobset.report("without enableDNSHostnames the pods have no names", *path)
    jobs = jobset.get(*_JOBS)
    if not isinstance(jobs, list) or not jobs:
        jobset.report("spec.replicatedJobs has no job", *_JOBS)
        return None
    found: list[Hostfile] = []
    for place in range(len(jobs)):
        one = _read_job(jobset, place, f"{name}-{{}}.{subdomain}")
        if one is None:
            return None
        found.append(one)
    return Hostfile(hosts=tuple(host for one in found for host in one.hosts))


def _read_job(jobset: Fields, place: int, pattern: str) -> Hostfile | None:
    path = (*_JOBS, place)
    job = jobset.text(*path, "name")
    replicas = jobset.integer(*path, "replicas", least=1, default=1)
    count = pod_count(jobset, *path, "template", "spec")
    mode = (*path, "template", "spec", "completionMode")
    if jobset.get(*mode) is not None:  # JobSet's own default is Indexed
        jobset.fixed("Indexed", *mode, why="without it a pod has no index")
    size = pod_size(jobset, *path, "template", "spec", "template")
    is_sound = jobset.source.is_sound
    if job is None or replicas is None or count is None or not is_sound:
        return None
    if replicas * count > MAX_HOSTS:
        jobset.report(f"this is more than {MAX_HOSTS} pods", *path, "replicas")
        return None
    names = [
        pattern.format(f"{job}-{replica}-{index}")
        for replica in range(replicas)
        for index in range(count)
    ]
    return pods(jobset, names, size)


def make_jobset(job: NewJob) -> list[object]:
    """Return a JobSet of one job with one pod for each node."""
    name = job.name
    indexed = _indexed(job.num_pods, _pod(job, f"{name}-node-0-0.{name}"))
    replicated = {"name": "node", "replicas": 1, "template": {"spec": indexed}}
    spec = {
        "network": {"enableDNSHostnames": True, "subdomain": name},
        "replicatedJobs": [replicated],
    }
    return [manifest(f"{GROUP}/v1alpha2", "JobSet", name, spec)]


JOBSET = manifest_format(
    name="jobset",
    title="a JobSet",
    kind="JobSet",
    group=GROUP,
    read=read_jobset,
    make=make_jobset,
)
