"""TrainJobs of Kubeflow's trainer: ``numNodes`` and ``numProcPerNode``.

Source: kubeflow/trainer, pkg/runtime/framework/plugins/torch/torch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.host_lists import MAX_HOSTS
from ranktable.cluster.hostfiles.hostfile import LauncherFormat
from ranktable.cluster.hostfiles.kubernetes_manifests import (
    MANIFEST_OPTIONS,
    container,
    equal_pods,
    find_objects,
    job_name,
    known_by,
    name_of,
    pods,
    port_and_script,
    size_at,
)
from ranktable.cluster.hostfiles.yaml_fields import dump_yaml

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions
    from ranktable.cluster.source_text import SourceText

TITLE = "a TrainJob"
GROUP = "trainer.kubeflow.org"
RUNTIME = "torch-distributed"
"""The runtime that the trainer installs for torchrun."""

_TRAINER = ("spec", "trainer")
_KNOWN = known_by("TrainJob")


def read(source: SourceText) -> Hostfile | None:
    """Return the pods of a TrainJob."""
    try:
        job, _ = find_objects(source, "TrainJob", GROUP)
    except LookupError:
        return None
    name = name_of(job)
    job.text("spec", "runtimeRef", "name")
    count = job.integer(*_TRAINER, "numNodes", least=1) or 0
    value = job.get(*_TRAINER, "numProcPerNode")
    size = None if value is None else size_at(job, (*_TRAINER, "numProcPerNode"), value)
    if count > MAX_HOSTS:
        job.report(f"numNodes is more than {MAX_HOSTS}", *_TRAINER, "numNodes")
        count = 0
    names = [f"{name}-node-0-{index}.{name}" for index in range(count)]
    return pods(source, job, names, size)


def write(hostfile: Hostfile, options: WriterOptions) -> str:
    """Return a TrainJob with a pod for every node."""
    size = equal_pods(hostfile, TITLE)
    name = job_name(options)
    _, script = port_and_script(options)
    made = container(options, size, ["torchrun", *script], name)
    trainer = {
        "numNodes": len(hostfile.hosts),
        "numProcPerNode": size,
        **{key: made[key] for key in ("image", "command")},
    }
    if "resources" in made:
        trainer["resourcesPerNode"] = made["resources"]
    job = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": RUNTIME}, "trainer": trainer},
    }
    return dump_yaml(job)


TRAINJOB = LauncherFormat(
    name="trainjob",
    title=TITLE,
    read=read,
    write=write,
    matches=_KNOWN.search,
    options=tuple(name for name in MANIFEST_OPTIONS if name != "port"),
    names_hosts=True,
)
