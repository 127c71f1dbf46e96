"""JobSets: a group of Indexed Jobs whose pods are named by their indices.

Source: kubernetes-sigs/jobset, site/static/examples/simple/jobset-with-network.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles.hostfile import Hostfile, LauncherFormat
from ranktable.cluster.hostfiles.kubernetes_job import pod_count
from ranktable.cluster.hostfiles.kubernetes_manifests import (
    MANIFEST_OPTIONS,
    container,
    equal_pods,
    find_objects,
    job_name,
    known_by,
    name_of,
    pod_size,
    pods,
    port_and_script,
)
from ranktable.cluster.hostfiles.torchrun import agent_arguments
from ranktable.cluster.hostfiles.yaml_fields import dump_yaml

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import WriterOptions
    from ranktable.cluster.hostfiles.yaml_fields import Fields
    from ranktable.cluster.source_text import SourceText

TITLE = "a JobSet"
GROUP = "jobset.x-k8s.io"
_JOBS = ("spec", "replicatedJobs")
_KNOWN = known_by("JobSet")


def read(source: SourceText) -> Hostfile | None:
    """Return the pods of a JobSet, job after job."""
    try:
        jobset, _ = find_objects(source, "JobSet", GROUP)
    except LookupError:
        return None
    name = name_of(jobset)
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
        one = _read_job(source, jobset, place, f"{name}-{{}}.{subdomain}")
        if one is None:
            return None
        found.append(one)
    return Hostfile(hosts=tuple(host for one in found for host in one.hosts))


def _read_job(
    source: SourceText, jobset: Fields, place: int, pattern: str
) -> Hostfile | None:
    path = (*_JOBS, place)
    job = jobset.text(*path, "name")
    replicas = jobset.integer(*path, "replicas", least=1, default=1)
    count = pod_count(jobset, *path, "template", "spec")
    mode = (*path, "template", "spec", "completionMode")
    if jobset.get(*mode) is not None:  # JobSet's own default is Indexed
        jobset.fixed("Indexed", *mode, why="without it a pod has no index")
    size = pod_size(jobset, *path, "template", "spec", "template")
    if job is None or replicas is None or count is None or not source.is_sound:
        return None
    if replicas * count > MAX_HOSTS:
        jobset.report(f"this is more than {MAX_HOSTS} pods", *path, "replicas")
        return None
    names = [
        pattern.format(f"{job}-{replica}-{index}")
        for replica in range(replicas)
        for index in range(count)
    ]
    return pods(source, jobset, names, size)


def write(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return a JobSet of one job with a pod for every node."""
    size = equal_pods(hostfile, TITLE)
    name = job_name(options)
    port, script = port_and_script(options)
    count = len(hostfile.hosts)
    arguments = agent_arguments(
        node_rank="$(JOB_COMPLETION_INDEX)",
        num_nodes=count,
        num_processes=size,
        master_addr=f"{name}-node-0-0.{name}",
        master_port=port,
        script=script,
    )
    pod = {
        "restartPolicy": "Never",
        "containers": [container(options, size, ["torchrun", *arguments], name)],
    }
    job = {
        "completions": count,
        "parallelism": count,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": pod},
    }
    jobset = {
        "apiVersion": f"{GROUP}/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": name},
            "replicatedJobs": [
                {"name": "node", "replicas": 1, "template": {"spec": job}}
            ],
        },
    }
    return dump_yaml(jobset)


JOBSET = LauncherFormat(
    name="jobset",
    title=TITLE,
    read=read,
    write=write,
    matches=_KNOWN.search,
    options=MANIFEST_OPTIONS,
    names_hosts=True,
)
