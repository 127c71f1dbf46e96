"""PyTorchJobs of Kubeflow's training operator, and TrainJobs of its trainer.

A PyTorchJob has a master and workers, or workers alone; a TrainJob has ``numNodes`` and
``numProcPerNode``.

Sources: kubeflow/training-operator, pkg/apis/kubeflow.org/v1/pytorch_types.go and
pkg/controller.v1/pytorch/envvar.go; kubeflow/trainer,
pkg/runtime/framework/plugins/torch/torch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.hostfile import Hostfile
from ranktable.cluster.hostfiles.kubernetes_manifests import (
    MANIFEST_OPTIONS,
    manifest,
    manifest_format,
    pod_size,
    pods,
    size_at,
)

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.kubernetes_manifests import Fields, NewJob

PYTORCHJOB_GROUP = "kubeflow.org"
_SPECS = ("spec", "pytorchReplicaSpecs")
_POLICY = ("spec", "elasticPolicy")
_OPTIONS = tuple(name for name in MANIFEST_OPTIONS if name != "port")


def read_pytorchjob(job: Fields, name: str, _: list[Fields]) -> Hostfile | None:
    """Return the pods of a PyTorchJob, the master first."""
    source = job.source
    found: list[Hostfile] = []
    for kind, least in (("Master", 1), ("Worker", 0)):
        if job.get(*_SPECS, kind) is None:
            continue
        count = job.integer(*_SPECS, kind, "replicas", least=least, default=1) or 0
        if count > (1 if kind == "Master" else MAX_HOSTS):
            job.report(f"{count} are too many of {kind}", *_SPECS, kind, "replicas")
            continue
        names = [f"{name}-{kind.lower()}-{index}" for index in range(count)]
        size = _size(job, kind)
        if names and (one := pods(job, names, size)) is not None:
            found.append(one)
    _check_policy(job, sum(len(one.hosts) for one in found))
    hosts = [host for one in found for host in one.hosts]
    source.refuse_nothing(hosts)
    return Hostfile(hosts=tuple(hosts)) if source.is_sound else None


def _size(job: Fields, kind: str) -> int | None:
    """Return the processes of a pod, from the job or from its container."""
    for path in (("spec", "nprocPerNode"), (*_POLICY, "nProcPerNode")):
        value = job.get(*path)
        if value is not None:
            return size_at(job, path, value)
    return pod_size(job, *_SPECS, kind, "template")


def _check_policy(job: Fields, count: int) -> None:
    """Report a variable number of workers, or a job that lacks a master."""
    if job.get(*_POLICY) is None:
        if job.get(*_SPECS, "Master") is None and job.source.is_sound:
            message = "there is no Master, and no elasticPolicy that needs none"
            job.report(message, *_SPECS)
        return
    low = job.integer(*_POLICY, "minReplicas", least=1, default=count)
    high = job.integer(*_POLICY, "maxReplicas", least=1, default=count)
    is_sound = job.source.is_sound and low is not None and high is not None
    if is_sound and (low, high) != (count, count):
        job.source.report(
            rules.NOT_FIXED,
            job.span_of(*_POLICY, "minReplicas" if low != count else "maxReplicas"),
            f"the job has {low} to {high} workers, as many as join",
            hint=f"a rank table is for a fixed number: write {count} for both",
        )


def make_pytorchjob(job: NewJob) -> list[object]:
    """Return a PyTorchJob with one pod for each node; the first is the master."""
    workers = job.num_pods - 1
    # The operator passes torchrun's options as variables, and only to a container with
    # the name pytorch.
    container = job.container(["torchrun", *job.script], "pytorch")
    pod = {"spec": {"containers": [container]}}
    master = {"replicas": 1, "restartPolicy": "Never", "template": pod}
    specs = {"Master": master}
    if workers:
        specs["Worker"] = {**master, "replicas": workers}
    spec = {"nprocPerNode": str(job.size), "pytorchReplicaSpecs": specs}
    return [manifest(f"{PYTORCHJOB_GROUP}/v1", "PyTorchJob", job.name, spec)]


PYTORCHJOB = manifest_format(
    name="pytorchjob",
    title="a PyTorchJob",
    kind="PyTorchJob",
    group=PYTORCHJOB_GROUP,
    read=read_pytorchjob,
    make=make_pytorchjob,
    options=_OPTIONS,
)


TRAINJOB_GROUP = "trainer.kubeflow.org"
RUNTIME = "torch-distributed"
"""The runtime that the trainer installs for torchrun."""

_TRAINER = ("spec", "trainer")


def read_trainjob(job: Fields, name: str, _: list[Fields]) -> Hostfile | None:
    """Return the pods of a TrainJob."""
    job.text("spec", "runtimeRef", "name")
    count = job.integer(*_TRAINER, "numNodes", least=1) or 0
    value = job.get(*_TRAINER, "numProcPerNode")
    size = None if value is None else size_at(job, (*_TRAINER, "numProcPerNode"), value)
    if count > MAX_HOSTS:
        job.report(f"numNodes is more than {MAX_HOSTS}", *_TRAINER, "numNodes")
        count = 0
    names = [f"{name}-node-0-{index}.{name}" for index in range(count)]
    return pods(job, names, size)


def make_trainjob(job: NewJob) -> list[object]:
    """Return a TrainJob with one pod for each node."""
    made = job.container(["torchrun", *job.script], job.name)
    trainer = {
        "numNodes": job.num_pods,
        "numProcPerNode": job.size,
        **{key: made[key] for key in ("image", "command")},
    }
    if "resources" in made:
        trainer["resourcesPerNode"] = made["resources"]
    spec = {"runtimeRef": {"name": RUNTIME}, "trainer": trainer}
    return [manifest(f"{TRAINJOB_GROUP}/v1alpha1", "TrainJob", job.name, spec)]


TRAINJOB = manifest_format(
    name="trainjob",
    title="a TrainJob",
    kind="TrainJob",
    group=TRAINJOB_GROUP,
    read=read_trainjob,
    make=make_trainjob,
    options=_OPTIONS,
)
