"""The kinds of jobs of Kubernetes: one reader each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.kinds.indexed_job import read_job
from ranktable.cluster.submissions.kinds.jobset import read_jobset
from ranktable.cluster.submissions.kinds.leaderworkerset import read_leaderworkerset
from ranktable.cluster.submissions.kinds.mpijob import read_mpijob
from ranktable.cluster.submissions.kinds.pytorchjob import read_pytorchjob
from ranktable.cluster.submissions.kinds.ray import read_ray
from ranktable.cluster.submissions.kinds.statefulset import read_statefulset
from ranktable.cluster.submissions.kinds.trainjob import read_trainjob
from ranktable.cluster.submissions.kinds.volcano import read_volcano

if TYPE_CHECKING:
    from ranktable.cluster.submissions.manifests import Kinds

KINDS: Final[Kinds] = {
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
}
"""The reader of each kind, by the group of its version and its name."""
