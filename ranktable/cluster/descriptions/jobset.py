"""JobSets: a group of Indexed Jobs whose pods are named by their indices.

Source: kubernetes-sigs/jobset, site/static/examples/simple/jobset-with-network.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.containers import pod_size
from ranktable.cluster.descriptions.description import MAX_HOSTS, Description
from ranktable.cluster.descriptions.form import Form
from ranktable.cluster.descriptions.kubernetes_job import pod_count
from ranktable.cluster.descriptions.manifests import (
    SETTINGS,
    container,
    equal_pods,
    find_objects,
    job_name,
    known_by,
    name_of,
    pods,
    port_and_script,
)
from ranktable.cluster.descriptions.torchrun import agent_arguments
from ranktable.cluster.descriptions.yaml_writing import dump_yaml

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.fields import Fields
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source

TITLE = "a JobSet"
GROUP = "jobset.x-k8s.io"
_JOBS = ("spec", "replicatedJobs")
_KNOWN = known_by("JobSet")


def read(source: Source) -> Description | None:
    """Return the pods of a JobSet, job after job."""
    try:
        jobset, _ = find_objects(source, "JobSet", GROUP)
    except LookupError:
        return None
    name = name_of(jobset)
    subdomain = jobset.text("spec", "network", "subdomain", default=name)
    if jobset.get("spec", "network", "enableDNSHostnames") is False:
        path = ("spec", "network", "enableDNSHostnames")
        jobset.say("without enableDNSHostnames the pods have no names", *path)
    jobs = jobset.get(*_JOBS)
    if not isinstance(jobs, list) or not jobs:
        jobset.say("spec.replicatedJobs has no job", *_JOBS)
        return None
    found: list[Description] = []
    for place in range(len(jobs)):
        one = _read_job(source, jobset, place, f"{name}-{{}}.{subdomain}")
        if one is None:
            return None
        found.append(one)
    return Description(hosts=tuple(host for one in found for host in one.hosts))


def _read_job(
    source: Source, jobset: Fields, place: int, pattern: str
) -> Description | None:
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
        jobset.say(f"this is more than {MAX_HOSTS} pods", *path, "replicas")
        return None
    names = [
        pattern.format(f"{job}-{replica}-{index}")
        for replica in range(replicas)
        for index in range(count)
    ]
    return pods(source, jobset, names, size)


def write(description: Description, settings: Settings) -> str:
    """Return a JobSet of one job with a pod for every node."""
    size = equal_pods(description, TITLE)
    name = job_name(settings)
    port, script = port_and_script(settings)
    count = len(description.hosts)
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
        "containers": [container(settings, size, ["torchrun", *arguments], name)],
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


JOBSET = Form(
    name="jobset",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: _KNOWN.search(text) is not None,
    settings=SETTINGS,
    names_hosts=True,
)
