"""Pods of each controller, as ``kubectl get pods -o json`` prints them."""

from __future__ import annotations

import json
from typing import Any

Pod = dict[str, Any]

_SET, _LWS = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
_KUBEFLOW, _COMPLETION = "training.kubeflow.org/", "batch.kubernetes.io/job-"
CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
REAL = "huawei.com/AscendReal"


def running(
    name: str,
    at: int,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, ...] = ("Job", "train", "batch/v1"),
    chips: int = 2,
    env: dict[str, str] | None = None,
) -> Pod:
    """Return a running pod of a controller, the ``at``-th, alone on its node.

    Its chips are numbered in the order of text, as the device plugin writes them.
    """
    devices = [
        {"device_id": str(chip), "device_ip": f"192.168.{at}.{chip + 1}"}
        for chip in range(chips)
    ]
    told = {"pod_name": name, "server_id": f"uid-{name}", "host_ip": f"10.0.0.{at}"}
    marks = {
        CONFIGURATION: json.dumps({**told, "devices": devices}),
        REAL: ",".join(sorted(f"Ascend910-{chip}" for chip in range(chips))),
    }
    variables = [{"name": key, "value": text} for key, text in (env or {}).items()]
    trainer = {
        "name": "main",
        "env": [*variables, {"name": "POD_IP", "valueFrom": {"fieldRef": {}}}],
        "resources": {"limits": {"cpu": "8", "huawei.com/Ascend910": str(chips)}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": f"2026-11-23T10:00:{at:02}Z",
            "labels": labels or {},
            "annotations": {**marks, **(annotations or {})},
            "ownerReferences": [
                dict(zip(("kind", "name", "apiVersion"), owner, strict=False))
            ],
        },
        "spec": {
            "nodeName": f"node-{at}",
            "containers": [{"name": "log", "resources": {}}, trainer],
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.9.0.{at}",
            "podIPs": [{"ip": f"10.9.0.{at}"}],
            "hostIP": f"10.0.0.{at}",
        },
    }


def volcano(at: int, **more: Any) -> Pod:
    """Return the master, or a worker: both count from 0."""
    task, index = ("master", 0) if at == 0 else ("worker", at - 1)
    labels = {
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": task,
        "volcano.sh/task-index": str(index),
    }
    owner = ("Job", "train", "batch.volcano.sh/v1alpha1")
    return running(f"train-{task}-{index}", at, labels=labels, owner=owner, **more)


def old_volcano(at: int, **more: Any) -> Pod:
    """Return a pod of an older Volcano: only its name has the index."""
    pod = volcano(at, **more)
    pod["metadata"]["labels"].pop("volcano.sh/task-index")
    return pod


def kubeflow(at: int, **more: Any) -> Pod:
    """Return the master, or a worker: both count from 0."""
    kind, index = ("master", 0) if at == 0 else ("worker", at - 1)
    labels = {
        _KUBEFLOW + "job-name": "train",
        _KUBEFLOW + "replica-type": kind,
        _KUBEFLOW + "replica-index": str(index),
    }
    owner = ("PyTorchJob", "train")
    return running(f"train-{kind}-{index}", at, labels=labels, owner=owner, **more)


def jobset(at: int, **more: Any) -> Pod:
    """Return a pod of two jobs of a set; each job has six pods or fewer."""
    job, index = divmod(at, 6)
    labels = {
        _SET + "jobset-name": "train",
        _SET + "replicatedjob-name": "node",
        _SET + "job-index": str(job),
        _SET + "job-global-index": str(job),
        _SET + "restart-attempt": "1",
        "job-name": f"train-node-{job}",
    }
    marks = {_COMPLETION + "completion-index": str(index)}
    name = f"train-node-{job}-{index}-x7k2p"
    return running(name, at, labels=labels, annotations=marks, **more)


def indexed_job(at: int, **more: Any) -> Pod:
    """Return a pod of an Indexed Job, whose name ends with random characters."""
    labels = {"job-name": "train", _COMPLETION + "name": "train"}
    marks = {_COMPLETION + "completion-index": str(at)}
    return running(f"train-{at}-4q9z1", at, labels=labels, annotations=marks, **more)


def leader_worker_set(at: int, **more: Any) -> Pod:
    """Return the leader or a worker; each StatefulSet of a group has its workers."""
    group, index = divmod(at, 6)
    labels = {
        _LWS + "name": "train",
        _LWS + "group-index": str(group),
        _LWS + "worker-index": str(index),
    }
    name = f"train-{group}" if index == 0 else f"train-{group}-{index}"
    return running(name, at, labels=labels, owner=("StatefulSet", name), **more)


def stateful_set(at: int, **more: Any) -> Pod:
    """Return a pod of a StatefulSet."""
    labels = {"apps.kubernetes.io/pod-index": str(at), "app": "train"}
    return running(
        f"train-{at}", at, labels=labels, owner=("StatefulSet", "train"), **more
    )


def old_stateful_set(at: int, **more: Any) -> Pod:
    """Return a pod of an older StatefulSet: only its name has the index."""
    return running(f"train-{at}", at, owner=("StatefulSet", "train"), **more)


def ascend_job(at: int, **more: Any) -> Pod:
    """Return a pod of ascend-operator, which writes hccl/rankIndex."""
    kind = "master" if at == 0 else "worker"
    labels = {"job-name": "train", "replica-type": kind, "replica-index": "0"}
    marks = {"hccl/rankIndex": str(at)}
    name = f"train-{kind}-{max(at - 1, 0)}"
    return running(name, at, labels=labels, annotations=marks, **more)


def pytorch_env(at: int, **more: Any) -> Pod:
    """Return a pod whose index is in a variable only."""
    names = {"RANK": str(at), "WORLD_SIZE": "16"}
    return running(
        f"p{'abcdefghijkl'[at]}", at, owner=("XJob", "train"), env=names, **more
    )


CONTROLLERS = (
    *(
        volcano,
        old_volcano,
        kubeflow,
        jobset,
        indexed_job,
        leader_worker_set,
        stateful_set,
    ),
    *(old_stateful_set, ascend_job, pytorch_env),
)


def listed(*pods: Pod) -> bytes:
    """Return a List of pods."""
    document = {"apiVersion": "v1", "items": pods, "kind": "List", "metadata": {}}
    return json.dumps(document, indent=4).encode()
