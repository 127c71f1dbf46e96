"""The jobs of a file with manifests, and the reader of each kind."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.kinds.compose import read_compose
from ranktable.cluster.submissions.kinds.indexed_job import read_job
from ranktable.cluster.submissions.kinds.jobset import read_jobset
from ranktable.cluster.submissions.kinds.leaderworkerset import read_leaderworkerset
from ranktable.cluster.submissions.kinds.mpijob import read_mpijob
from ranktable.cluster.submissions.kinds.pytorchjob import read_pytorchjob
from ranktable.cluster.submissions.kinds.ray import read_ray
from ranktable.cluster.submissions.kinds.statefulset import read_statefulset
from ranktable.cluster.submissions.kinds.trainjob import read_trainjob
from ranktable.cluster.submissions.kinds.volcano import read_volcano
from ranktable.cluster.submissions.manifest_fields import judge_fields
from ranktable.cluster.submissions.manifests import read_objects
from ranktable.cluster.submissions.pod_roles import joined
from ranktable.cluster.submissions.submission import Unjudged
from ranktable.cluster.submissions.task_command import LAUNCHERS
from ranktable.schema.config_map import is_table
from ranktable.schema.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ranktable.cluster.submissions.manifests import Manifest, Manifests
    from ranktable.cluster.submissions.submission import Submission

    Kinds = Mapping[tuple[str, str], Callable[[Manifest, Manifests], list[Submission]]]

_KINDS: Final[Kinds] = {
    ("kubeflow.org", "PyTorchJob"): read_pytorchjob,
    ("trainer.kubeflow.org", "TrainJob"): read_trainjob,
    ("kubeflow.org", "MPIJob"): read_mpijob,
    ("batch.volcano.sh", "Job"): read_volcano,
    ("jobset.x-k8s.io", "JobSet"): read_jobset,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): read_leaderworkerset,
    ("batch", "Job"): read_job,
    ("apps", "StatefulSet"): read_statefulset,
    ("ray.io", "RayCluster"): read_ray,
    ("ray.io", "RayJob"): read_ray,
    ("", "compose"): read_compose,
}
"""The reader of each kind, by the group of its version and its name."""

_OTHER_FORMS: Final = {
    "MPIJob": ("v1alpha1", "v1alpha2"),
    "PyTorchJob": ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2"),
    "TrainJob": ("v2alpha1",),
}
"""Versions whose fields are not those that are read here."""


_READ_BESIDE: Final = ("ConfigMap", "TrainingRuntime", "ClusterTrainingRuntime")


def _starts(job: Manifest) -> bool:
    """Whether an object of another kind has a launcher in its texts."""
    return LAUNCHERS.search(json.dumps(job.get(), default=str)) is not None


def _mounted_tables(job: Manifest, made: Manifests) -> tuple[str, ...]:
    """Return the rank tables in the ConfigMaps of the file that a job mounts."""
    found = []
    for name in dict.fromkeys(_mounted(job.get())):
        config_map = made.named.get(("ConfigMap", name))
        data = {} if config_map is None else config_map.members("data")
        found += [
            text
            for key, text in data.items()
            if isinstance(text, str) and is_table(key, text.encode(errors="replace"))
        ]
    return tuple(found)


def _mounted(value: object, key: str = "") -> Iterator[str]:
    """Yield the names of the ConfigMaps in all volumes below a value."""
    if isinstance(value, list):
        for item in value:
            volume = item.get("configMap") if isinstance(item, dict) else None
            name = volume.get("name") if isinstance(volume, dict) else None
            if key == "volumes" and isinstance(name, str):
                yield name
            yield from _mounted(item)
    elif isinstance(value, dict):
        for inner, item in value.items():
            yield from _mounted(item, inner)


def read_manifests(text: str) -> Manifests:
    """Return what the jobs of a file start."""
    made = read_objects(text)
    known = {kind for _, kind in _KINDS}
    for job in made.objects:
        group, _, version = job.text("apiVersion").partition("/")
        kind = job.text("kind")
        if not kind and job.members("services"):
            kind = "compose"
        read = _KINDS.get((group, kind))
        is_other = version in _OTHER_FORMS.get(kind, ())
        if not is_other:
            judge_fields(job, made, (group, kind))
        if read is not None and not is_other:
            found = read(job, made)
            if len(found) == 1:  # otherwise nobody knows whose table it is
                found = [replace(found[0], tables=_mounted_tables(job, made))]
            made.submissions += found
        elif kind.endswith("Job") or kind in known:
            named = quoted(job.text("apiVersion"))
            reason = f"a {kind} of {named} is not known"
            made.unjudged.append(Unjudged(job.span("kind"), reason))
        elif kind == "RayService" or (kind not in _READ_BESIDE and _starts(job)):
            reason = f"what the {kind} {quoted(job.name)} starts"
            made.unjudged.append(Unjudged(job.span("kind"), reason))
    made.submissions = joined(made.submissions)
    return made
