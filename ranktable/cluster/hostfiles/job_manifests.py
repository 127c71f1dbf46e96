"""Write jobs of Kubernetes: Indexed Job, JobSet, PyTorchJob and TrainJob.

Every node of a table becomes one pod, which starts torchrun.

Sources: kubernetes.io, "Job with Pod-to-Pod Communication"; kubernetes-sigs/jobset,
site/static/examples/simple/jobset-with-network.yaml; kubeflow/training-operator,
pkg/controller.v1/pytorch/envvar.go; kubeflow/trainer,
pkg/runtime/framework/plugins/torch/torch.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import (
    DEFAULT_PORT,
    LauncherFormat,
    even_size,
    refuse_interleaved,
    script_words,
)
from ranktable.cluster.hostfiles.torchrun import agent_arguments
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions

_MAX_LABEL = 63
# The longest ending of a pod's name is JobSet's: -node-0-1048575.
_MAX_NAME = _MAX_LABEL - len("-node-0-1048575")
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][!-~]*")
_DOMAIN = re.compile(
    r"(?=.{1,244}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
)
_RESOURCE = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that is written as manifests; every pod has the same template.

    Attributes:
        name: Its name.
        num_pods: Number of pods, one for each node.
        size: Number of processes of a pod.
        options: Port, script, image and resource.
    """

    name: str
    num_pods: int
    size: int
    options: WriterOptions

    def container(self, command: Sequence[str], name: str) -> dict[str, object]:
        """Return the container of every pod.

        Raises:
            ArgumentError: There is no image, or Kubernetes would refuse it or the
                resource.
        """
        image, resource = self.options.image, self.options.resource
        if image is None:
            raise ArgumentError(
                "a container needs an image", hint="name it: --image registry/image:tag"
            )
        if not _IMAGE.fullmatch(image):
            raise ArgumentError(
                f"--image {quoted(image)} is not the name of an image",
                hint="write, for example, --image registry/image:tag",
            )
        made: dict[str, object] = {
            "name": name,
            "image": image,
            "command": list(command),
        }
        if resource is not None:
            made["resources"] = {"limits": {_extended(resource): self.size}}
        return made

    def torchrun(self) -> list[str]:
        """Return the command of a pod whose operator sets torchrun's options."""
        return ["torchrun", *script_words(self.options.script)]

    def indexed(self, master: str, **pod: object) -> dict[str, object]:
        """Return the spec of an Indexed Job whose pods connect to the first one."""
        arguments = agent_arguments(
            # Kubernetes replaces the variable here; no shell is needed.
            node_rank="$(JOB_COMPLETION_INDEX)",
            num_nodes=self.num_pods,
            num_processes=self.size,
            master_addr=master,
            master_port=self.options.port or DEFAULT_PORT,
            script=script_words(self.options.script),
        )
        made = self.container(["torchrun", *arguments], self.name)
        return {
            "completions": self.num_pods,
            "parallelism": self.num_pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {
                "spec": {**pod, "restartPolicy": "Never", "containers": [made]}
            },
        }


def _extended(resource: str) -> str:
    """Return the name of an extended resource.

    Raises:
        ArgumentError: Kubernetes would refuse it. Source: kubernetes,
            pkg/apis/core/v1/helper, IsExtendedResourceName.
    """
    domain, _, name = resource.partition("/")
    is_native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    if is_native or not (_DOMAIN.fullmatch(domain) and _RESOURCE.fullmatch(name)):
        raise ArgumentError(
            f"--resource {quoted(resource)} is not the name of a resource for chips",
            hint="write it with the domain of its vendor: --resource vendor.com/chip",
        )
    return resource


def _manifest(
    version: str, kind: str, name: str, spec: Mapping[str, object]
) -> dict[str, object]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _job(job: NewJob) -> list[object]:
    """Return a Service and an Indexed Job with one pod for each node."""
    name = job.name
    headless = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"job-name": name},
    }
    indexed = job.indexed(f"{name}-0.{name}", subdomain=name)
    return [
        _manifest("v1", "Service", name, headless),
        _manifest("batch/v1", "Job", name, indexed),
    ]


def _jobset(job: NewJob) -> list[object]:
    """Return a JobSet of one job with one pod for each node."""
    name = job.name
    indexed = job.indexed(f"{name}-node-0-0.{name}")
    replicated = {"name": "node", "replicas": 1, "template": {"spec": indexed}}
    spec = {
        "network": {"enableDNSHostnames": True, "subdomain": name},
        "replicatedJobs": [replicated],
    }
    return [_manifest("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec)]


def _pytorchjob(job: NewJob) -> list[object]:
    """Return a PyTorchJob with one pod for each node; the first is the master."""
    # The operator passes torchrun's options as variables, and only to a container with
    # the name pytorch.
    pod = {"spec": {"containers": [job.container(job.torchrun(), "pytorch")]}}
    master = {"replicas": 1, "restartPolicy": "Never", "template": pod}
    specs = {"Master": master}
    if job.num_pods > 1:
        specs["Worker"] = {**master, "replicas": job.num_pods - 1}
    spec = {"nprocPerNode": str(job.size), "pytorchReplicaSpecs": specs}
    return [_manifest("kubeflow.org/v1", "PyTorchJob", job.name, spec)]


def _trainjob(job: NewJob) -> list[object]:
    """Return a TrainJob with one pod for each node."""
    made = job.container(job.torchrun(), job.name)
    trainer = {
        "numNodes": job.num_pods,
        "numProcPerNode": job.size,
        **{key: made[key] for key in ("image", "command")},
    }
    if job.options.resource is not None:
        chips = {_extended(job.options.resource): job.size}
        # Without requests Trainer 2.0 starts one process, whatever numProcPerNode says.
        trainer["resourcesPerNode"] = {"limits": chips, "requests": chips}
    # The trainer installs this runtime for torchrun.
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    return [_manifest("trainer.kubeflow.org/v1alpha1", "TrainJob", job.name, spec)]


def _format(
    name: str, title: str, make: Callable[[NewJob], list[object]], *options: str
) -> LauncherFormat:
    """Return a format that is written only."""

    def write(hostfile: Hostfile, options: WriterOptions) -> str:
        refuse_interleaved(hostfile, title)
        job = NewJob(
            size=even_size(hostfile, title),
            name=_new_name(options),
            num_pods=len(hostfile.hosts),
            options=options,
        )
        return _yaml(make(job))

    return LauncherFormat(
        name=name,
        title=title,
        write=write,
        options=("name", "image", "resource", "script", *options),
        names_hosts=True,
    )


def _new_name(options: WriterOptions) -> str:
    """Return the name of a new job.

    Raises:
        ArgumentError: The name of a pod cannot begin with it.
    """
    name = "train" if options.name is None else options.name
    if not _LABEL.fullmatch(name) or len(name) > _MAX_NAME:
        raise ArgumentError(
            f"--name {quoted(name)} cannot begin the name of a pod",
            hint=f"write lower-case letters, digits and hyphens, at most {_MAX_NAME}",
        )
    return name


def _yaml(documents: Sequence[object]) -> str:
    """Return documents as YAML, with the keys in the given order."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes repeated values in full, because aliases are hard to read and edit."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    text: str = yaml.dump_all(
        documents,
        Dumper=Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=10_000,  # long lines are not folded, with any version of the library
    )
    return text


JOB_MANIFESTS = (
    _format("kubernetes-job", "an Indexed Job", _job, "port"),
    _format("jobset", "a JobSet", _jobset, "port"),
    _format("pytorchjob", "a PyTorchJob", _pytorchjob),
    _format("trainjob", "a TrainJob", _trainjob),
)
