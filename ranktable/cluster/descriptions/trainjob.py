"""TrainJobs of Kubeflow's trainer: ``numNodes`` and ``numProcPerNode``.

Source: kubeflow/trainer, pkg/runtime/framework/plugins/torch/torch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.containers import size_at
from ranktable.cluster.descriptions.description import MAX_HOSTS
from ranktable.cluster.descriptions.form import Form
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
from ranktable.cluster.descriptions.yaml_writing import dump_yaml

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source

TITLE = "a TrainJob"
GROUP = "trainer.kubeflow.org"
RUNTIME = "torch-distributed"
"""The runtime that the trainer installs for torchrun."""

_TRAINER = ("spec", "trainer")
_KNOWN = known_by("TrainJob")


def read(source: Source) -> Description | None:
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
        job.say(f"numNodes is more than {MAX_HOSTS}", *_TRAINER, "numNodes")
        count = 0
    names = [f"{name}-node-0-{index}.{name}" for index in range(count)]
    return pods(source, job, names, size)


def write(description: Description, settings: Settings) -> str:
    """Return a TrainJob with a pod for every node."""
    size = equal_pods(description, TITLE)
    name = job_name(settings)
    _, script = port_and_script(settings)
    made = container(settings, size, ["torchrun", *script], name)
    trainer = {
        "numNodes": len(description.hosts),
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


TRAINJOB = Form(
    name="trainjob",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: _KNOWN.search(text) is not None,
    settings=tuple(name for name in SETTINGS if name != "port"),
    names_hosts=True,
)
