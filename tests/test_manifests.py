"""Manifests of Kubernetes: what their pods are called, and what is wrong with them."""

from __future__ import annotations

import pytest

from tests.test_hostfiles import read, said

JOB = """\
apiVersion: v1
kind: Service
metadata:
  name: svc
spec:
  clusterIP: None
  selector:
    job-name: train
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      subdomain: svc
      restartPolicy: Never
      containers:
      - name: c
        image: i
        args: [--nproc-per-node=8]
        resources:
          limits:
            vendor.com/chip: 4
"""
JOBS = {
    ("", ""): "train-0.svc 8; train-1.svc 8",
    ("completions: 2", "completions: 3"): "refused | 16:16 RT227",
    ("completions: 2", "completions: '2'"): "refused | 15:16 RT137",
    ("completions: 2", "completions: 0"): "refused | 15:16 RT137",
    ("completions: 2", "completions: 02"): "refused | 15:16 RT137",
    ("  completionMode: Indexed\n", ""): "refused | 15:3 RT137",
    ("Indexed", "NonIndexed"): "refused | 17:19 RT137",
    ("      subdomain: svc\n", ""): "refused | 20:7 RT137",
    ("subdomain: svc", "subdomain: other"): "refused | 20:18 RT227",
    ("clusterIP: None", "clusterIP: ''"): "refused | 6:14 RT137",
    ("clusterIP: None", "clusterIP: null"): "refused | 6:14 RT137",
    ("job-name: train", "job-name: tran"): "refused | 8:15 RT227",
    ("job-name: train", "app: other"): "refused | 8:5 RT227",
    ("node=8", "node=x"): "refused | 25:16 RT132",
    ("node=8", "node=0"): "refused | 25:16 RT132",
    ("--nproc-per-node=8", "$(N)"): "train-0.svc 4; train-1.svc 4",
    ("-node=8]", "-node, auto]"): "train-0.svc ?; train-1.svc ?",
    ("        args: [--nproc-per-node=8]\n", ""): "train-0.svc 4; train-1.svc 4",
    (
        "args: [--nproc-per-node=8]",
        "env: [{name: PET_NPROC_PER_NODE, value: '2'}]",
    ): "train-0.svc 2; train-1.svc 2",
    ("containers:", "containerz:"): "refused | 20:7 RT137",
    ("kind: Job", "kind: CronJob"): "refused | RT133",
    ("batch/v1", "v1"): "refused | 10:13 RT137",
    ("  name: train", "  name: Train"): "refused | 8:15 RT227 | 13:9 RT137",
    ("  name: svc", "  name: svc\n  name: two"): "refused | 5:3 RT105",
    ("image: i", "image: &i i"): "train-0.svc 8; train-1.svc 8",
    ("- name: c", "- name: *c"): "refused | 23:15 RT136",
    ("metadata:", "metadata: !!map"): "refused | 3:11 RT136 | 12:11 RT136",
    ("spec:\n", "spec: [\n"): "refused | 7:11 RT135",
}


@pytest.mark.parametrize(("old", "new"), JOBS)
def test_job_and_service(old: str, new: str) -> None:
    text = JOB.replace(old, new) if old else JOB

    assert said(read("kubernetes-job", text)) == JOBS[old, new]


def test_service_may_be_in_another_file() -> None:
    _, _, job = JOB.partition("---\n")

    assert said(read("kubernetes-job", job)) == "train-0.svc 8; train-1.svc 8"


def test_two_jobs_in_a_file_are_refused() -> None:
    _, _, job = JOB.partition("---\n")

    assert said(read("kubernetes-job", f"{job}---\n{job}")) == "refused | 22:7 RT137"


JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set}
spec:
  network: {enableDNSHostnames: true, subdomain: example}
  replicatedJobs:
  - name: leader
    template: &one
      spec:
        completions: 1
        parallelism: 1
        template: {spec: {containers: [{name: c, image: i}]}}
  - name: workers
    replicas: 2
    template:
      spec:
        completions: 1
        parallelism: 1
        template: {spec: {containers: [{name: c, image: i}]}}
"""
PODS = "set-leader-0-0.{0} ?; set-workers-0-0.{0} ?; set-workers-1-0.{0} ?"
JOBSETS = {
    ("", ""): PODS.format("example"),
    (", subdomain: example", ""): PODS.format("set"),
    ("Hostnames: true", "Hostnames: false"): "refused | 5:33 RT137",
    ("replicas: 2", "replicas: two"): "refused | 14:15 RT137",
    ("replicas: 2", "replicas: 9999999"): "refused | 14:15 RT137",
    ("- name: leader", "- nam: leader"): "refused | 7:5 RT137",
    ("kind: JobSet", "kind: JobSett"): "refused | RT133",
    ("jobset.x-k8s.io", "batch"): "refused | 1:13 RT137",
}


@pytest.mark.parametrize(("old", "new"), JOBSETS)
def test_jobset(old: str, new: str) -> None:
    text = JOBSET.replace(old, new) if old else JOBSET

    assert said(read("jobset", text)) == JOBSETS[old, new]


ELASTIC = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: e
spec:
  nprocPerNode: "2"
  elasticPolicy:
    rdzvBackend: c10d
    minReplicas: 3
    maxReplicas: 3
  pytorchReplicaSpecs:
    Worker:
      replicas: 3
      template: {spec: {containers: [{name: pytorch, image: i}]}}
"""
WORKERS = "e-worker-0 {0}; e-worker-1 {0}; e-worker-2 {0}"
POLICY = "  elasticPolicy:\n    rdzvBackend: c10d\n    minReplicas: 3\n"
PYTORCHJOBS = {
    # Workers only: there is no RANK at all, and the number of nodes is fixed.
    ("", ""): WORKERS.format(2),
    ("    minReplicas: 3\n    maxReplicas: 3\n", ""): WORKERS.format(2),
    ("minReplicas: 3", "minReplicas: 1"): "refused | 9:18 RT228",
    ("maxReplicas: 3", "maxReplicas: 4"): "refused | 10:18 RT228",
    (f"{POLICY}    maxReplicas: 3\n", ""): "refused | 8:5 RT137",
    ("Worker:", "Master:"): "refused | 13:17 RT137",
    ('"2"', "auto"): WORKERS.format("?"),
    ('"2"', "0"): "refused | 6:17 RT132",
    ('  nprocPerNode: "2"\n', ""): WORKERS.format("?"),
    ("replicas: 3", "replicas: 0"): "refused | 9:18 RT228",
}


@pytest.mark.parametrize(("old", "new"), PYTORCHJOBS)
def test_pytorchjob(old: str, new: str) -> None:
    text = ELASTIC.replace(old, new) if old else ELASTIC

    assert said(read("pytorchjob", text)) == PYTORCHJOBS[old, new]


TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 8
"""
TRAINJOBS = {
    ("", ""): "t-node-0-0.t 8; t-node-0-1.t 8",
    ("    numProcPerNode: 8\n", ""): "t-node-0-0.t ?; t-node-0-1.t ?",
    ("Node: 8", "Node: auto"): "t-node-0-0.t ?; t-node-0-1.t ?",
    ("Node: 8", "Node: true"): "refused | 8:21 RT132",
    ("numNodes: 2", "numNodes: 0"): "refused | 7:15 RT137",
    ("  runtimeRef: {name: torch-distributed}\n", ""): "refused | 5:3 RT137",
}


@pytest.mark.parametrize(("old", "new"), TRAINJOBS)
def test_trainjob(old: str, new: str) -> None:
    text = TRAINJOB.replace(old, new) if old else TRAINJOB

    assert said(read("trainjob", text)) == TRAINJOBS[old, new]
