"""RT320 to RT339: what is submitted, and what each of its processes would get."""

from __future__ import annotations

from ranktable.schema.finding import Rule, Severity


def _sbatch(*lines: str, nodes: int = 2, more: str = "") -> bytes:
    """Return a small batch script."""
    head = f"#!/bin/bash\n#SBATCH --nodes={nodes}\n{more}"
    return (head + "".join(f"{line}\n" for line in lines)).encode()


_TORCHRUN = "--rdzv_backend c10d --rdzv_endpoint $head:29500"
_HEAD = 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)'
_ONE_TASK = "#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n"


def _pytorchjob(worker: str, *, nproc: str = '"4"', chips: int = 4) -> bytes:
    """Return a small PyTorchJob of two pods."""
    container = (
        f"{{name: pytorch, image: i, command: {worker}, "
        f"resources: {{limits: {{nvidia.com/gpu: {chips}}}}}}}"
    )
    pod = f"{{replicas: 1, template: {{spec: {{containers: [{container}]}}}}}}"
    return (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\n"
        f"spec:\n  nprocPerNode: {nproc}\n  pytorchReplicaSpecs:\n"
        f"    Master: {pod}\n    Worker: {pod}\n"
    ).encode()


def _volcano(task: str, flags: str = "[]", least: int = 2) -> bytes:
    """Return a small job of Volcano with two tasks."""
    pod = "{spec: {containers: [{name: c, image: i, command: [python, t.py]}]}}"
    return (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\n"
        f"spec:\n  minAvailable: {least}\n  plugins: {{pytorch: {flags}}}\n  tasks:\n"
        f"  - {{name: {task}, replicas: 1, template: {pod}}}\n"
        f"  - {{name: worker, replicas: 1, template: {pod}}}\n"
    ).encode()


def _job(spec: str) -> bytes:
    """Return a small Job of Kubernetes."""
    return (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec:\n"
        "  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n"
        f"  template:\n    spec:\n{spec}"
    ).encode()


_AGENT = (
    '"torchrun", "--nnodes=2", "--node-rank=$(JOB_COMPLETION_INDEX)", '
    '"--master-addr=train-0.train", "--master-port=29500", "t.py"'
)

MORE_THAN_CHIPS = Rule(
    code="RT320",
    name="more-processes-than-chips",
    summary="a node starts more processes than it has chips",
    why="Every process of a job uses a chip of its own, the one with the number of its "
    "local rank. The others find no chip, or share one.",
    fix="Start as many processes on a node as it has chips, or ask for more chips.",
    readers={"torch": "invalid device ordinal", "NCCL": "Duplicate GPU detected"},
    seen_as=("invalid device ordinal", "Duplicate GPU detected"),
    bad=_sbatch(
        _HEAD,
        f"srun torchrun --nnodes 2 --nproc-per-node 8 {_TORCHRUN} t.py",
        more="#SBATCH --gres=gpu:4\n" + _ONE_TASK,
    ),
    good=_sbatch(
        _HEAD,
        f"srun torchrun --nnodes 2 --nproc-per-node 4 {_TORCHRUN} t.py",
        more="#SBATCH --gres=gpu:4\n" + _ONE_TASK,
    ),
)
IDLE_CHIPS = Rule(
    code="RT321",
    name="idle-chips",
    severity=Severity.WARNING,
    summary="a node has more chips than processes",
    why="Usually a process uses one chip, so the others are paid for and idle. A "
    "program "
    "that uses several chips in one process is right.",
    fix="Start as many processes on a node as it has chips.",
    bad=_sbatch(
        _HEAD,
        f"srun torchrun --nnodes 2 --nproc-per-node 4 {_TORCHRUN} t.py",
        more="#SBATCH --gres=gpu:8\n" + _ONE_TASK,
    ),
    good=_sbatch(
        _HEAD,
        f"srun torchrun --nnodes 2 --nproc-per-node 8 {_TORCHRUN} t.py",
        more="#SBATCH --gres=gpu:8\n" + _ONE_TASK,
    ),
)
WRONG_AGENTS = Rule(
    code="RT322",
    name="wrong-number-of-agents",
    summary="the launcher is started more or fewer times than it expects",
    why="torchrun is started once on every node, and waits for as many agents as "
    "--nnodes says. With fewer it waits until the time-out; more of them are refused, "
    "or "
    "replace each other.",
    fix="Start one agent on every node, and give their number as --nnodes.",
    readers={"torchrun": "RendezvousTimeoutError, or DistStoreError after 15 minutes"},
    seen_as=("RendezvousTimeoutError", "RendezvousClosedError"),
    bad=_sbatch(
        _HEAD,
        f"srun torchrun --nnodes 2 --nproc-per-node 2 {_TORCHRUN} t.py",
        more="#SBATCH --ntasks=4\n#SBATCH --exclusive\n",
    ),
    good=_sbatch(
        _HEAD,
        f"srun torchrun --nnodes 2 --nproc-per-node 2 {_TORCHRUN} t.py",
        more="#SBATCH --ntasks=2\n#SBATCH --exclusive\n",
    ),
)
NODES_ALONE = Rule(
    code="RT323",
    name="nodes-alone",
    summary="every node would form a job of its own, or wait for itself",
    why="Agents meet at one address, with one id. Without --nnodes, with "
    "--standalone, or "
    "with an address or id that every node computes for itself, they never meet: every "
    "node trains alone, or waits until the time-out.",
    fix="Give all agents the same number of nodes, address and id, computed once "
    "before "
    "srun.",
    seen_as=("RendezvousTimeoutError", "world_size 1"),
    bad=_sbatch("srun torchrun --nproc-per-node 8 t.py", more=_ONE_TASK),
    good=_sbatch(
        _HEAD,
        f"srun torchrun --nnodes 2 --nproc-per-node 8 {_TORCHRUN} t.py",
        more=_ONE_TASK,
    ),
)
SAME_RANK = Rule(
    code="RT324",
    name="same-rank-everywhere",
    summary="all nodes or processes would have the same rank",
    why="The batch script runs on the first node, where SLURM_NODEID, SLURM_PROCID and "
    "SLURM_LOCALID are 0. What its shell expands is 0 for all tasks. Other numbers "
    "count "
    "only a part of the nodes.",
    fix="Let the shell of every task expand it: srun bash -c 'torchrun --node_rank "
    "$SLURM_NODEID ...', in single quotes.",
    seen_as=("Address already in use", "EADDRINUSE"),
    bad=_sbatch(
        _HEAD,
        "srun torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr $head t.py",
        more=_ONE_TASK,
    ),
    good=_sbatch(
        _HEAD,
        "export head",
        "srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID "
        "--master_addr $head t.py'",
        more=_ONE_TASK,
    ),
)
WRONG_SIZE = Rule(
    code="RT325",
    name="size-of-something-else",
    summary="WORLD_SIZE is not the number of processes that are started",
    why="Every process waits for WORLD_SIZE processes. If it counts pods, chips or "
    "other "
    "tasks, some of them never come.",
    fix="Start the processes with torchrun, or set WORLD_SIZE to the number of "
    "processes.",
    seen_as=("Timed out waiting for clients",),
    bad=_pytorchjob('["python", "t.py"]'),
    good=_pytorchjob('["torchrun", "t.py"]'),
)
MASTER_ADDRESS = Rule(
    code="RT326",
    name="master-address",
    summary="the address of the rendezvous is not one that all nodes can use",
    why="All processes connect to the first node. A loopback address is another "
    "machine "
    "on every node, and a list in brackets is no host.",
    fix="Compute it before srun: scontrol show hostnames $SLURM_JOB_NODELIST | head "
    "-n1.",
    seen_as=("Connection refused", "Name or service not known"),
    bad=_sbatch(
        "export MASTER_ADDR=localhost",
        "srun python t.py",
        more=_ONE_TASK,
    ),
    good=_sbatch(
        _HEAD,
        "export MASTER_ADDR=$head",
        "srun python t.py",
        more=_ONE_TASK,
    ),
)
MASTER_PORT = Rule(
    code="RT327",
    name="master-port",
    summary="the port of the rendezvous cannot be used, or may be taken",
    why="A port is between 1 and 65535. Two jobs that share a node cannot have the "
    "same "
    "one.",
    fix="Compute it from the number of the job: $((20000 + SLURM_JOB_ID % 10000)).",
    seen_as=("Address already in use", "EADDRINUSE"),
    bad=_sbatch(
        _HEAD,
        "export MASTER_ADDR=$head MASTER_PORT=70000",
        "srun python t.py",
        more=_ONE_TASK,
    ),
    good=_sbatch(
        _HEAD,
        "export MASTER_ADDR=$head MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))",
        "srun python t.py",
        more=_ONE_TASK,
    ),
)
NO_EFFECT = Rule(
    code="RT328",
    name="option-without-effect",
    severity=Severity.WARNING,
    summary="an option that is not read, or that another one overrides",
    why="sbatch reads #SBATCH lines up to the first command only; torchrun gives all "
    "that "
    "stands behind the script to the script, and ignores --node_rank with c10d.",
    fix="Move or drop the option.",
    bad=b"#!/bin/bash\n#SBATCH --exclusive\n#sbatch --nodes=2\npython t.py\n",
    good=b"#!/bin/bash\n#SBATCH --exclusive\n#SBATCH --nodes=1\npython t.py\n",
)
CHIPS_VISIBLE = Rule(
    code="RT329",
    name="chips-of-a-task",
    severity=Severity.WARNING,
    summary="the chips that a task sees may not be those that its local rank names",
    why="With --gpus-per-task every task sees its own chips, numbered from 0. A "
    "program "
    "that takes the chip of its local rank finds none from local rank 1 on. A list of "
    "visible devices that is exported replaces the one of the scheduler.",
    fix="Ask for the chips of the node (--gpus-per-node), or show them to all tasks: "
    "--tres-bind=gres/gpu:none.",
    seen_as=("invalid device ordinal",),
    bad=_sbatch(
        "srun python t.py",
        more="#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-task=1\n",
    ),
    good=_sbatch(
        "srun python t.py",
        more="#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n",
    ),
)
POD_RESOURCES = Rule(
    code="RT330",
    name="resources-of-a-pod",
    summary="the chips of a pod are not what its job needs",
    why="Kubernetes takes chips from the limits of a container. Requests alone are "
    "refused, and other requests than limits too. Trainer counts a chip only if its "
    "name "
    "contains gpu, and CPUs otherwise.",
    fix="Give limits, whole numbers, and the same requests; write the number of "
    "processes.",
    seen_as=("Limit must be set for non overcommitable resources",),
    bad=b"""apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    command: [torchrun, t.py]
    resourcesPerNode: {limits: {huawei.com/Ascend910: 8, cpu: 64}}
""",
    good=b"""apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 8
    command: [torchrun, t.py]
    resourcesPerNode:
      limits: {huawei.com/Ascend910: 8, cpu: 64}
      requests: {huawei.com/Ascend910: 8, cpu: 64}
""",
)
REFUSED = Rule(
    code="RT331",
    name="refused-at-submission",
    summary="the scheduler or the operator refuses this",
    why="The value has a form that the program does not accept, or contradicts another "
    "one. The job is never started.",
    fix="Write it as the message says.",
    readers={"sbatch": "is not a valid node count"},
    bad=b"#!/bin/bash\n#SBATCH --nodes=$N\nsrun python t.py\n",
    good=b"#!/bin/bash\n#SBATCH --nodes=2\nsrun python t.py\n",
)
NOT_JUDGED = Rule(
    code="RT332",
    name="line-not-judged",
    severity=Severity.NOTE,
    summary="a line that cannot be judged without running it",
    why="What loops, functions, other files, templates and the output of commands do "
    "is "
    "not guessed. Only what the file says in its own words is judged.",
    fix="Nothing has to be done. Plain words instead of $(...) let more be judged.",
    bad=_sbatch(
        "for n in a b; do srun -w $n torchrun t.py & done",
        "srun python t.py",
        more=_ONE_TASK,
    ),
    good=_sbatch("srun python t.py", more=_ONE_TASK),
)
NO_RANK = Rule(
    code="RT333",
    name="no-rank-for-pods",
    summary="the operator would not tell the pods their rank",
    why="Operators set RANK, MASTER_ADDR and torchrun's variables only for roles with "
    "certain names. Without them every pod is node 0 and waits for itself.",
    fix="Name the roles as the operator expects, or give the rendezvous in the "
    "command.",
    bad=_volcano("ps"),
    good=_volcano("ps", '["--master=ps"]'),
)
POD_NAMES = Rule(
    code="RT334",
    name="name-of-a-pod",
    summary="the pods would not find each other by this name",
    why="The name of a pod is known only below a headless Service that selects it, and "
    "before the pod is ready only with publishNotReadyAddresses. The names of other "
    "jobs "
    "and Services are unknown.",
    fix="Give the template the subdomain of a headless Service that selects its "
    "labels.",
    seen_as=("Name or service not known", "Temporary failure in name resolution"),
    bad=_job(f"      containers: [{{name: c, image: i, command: [{_AGENT}]}}]\n"),
    good=_job(
        "      subdomain: train\n"
        f"      containers: [{{name: c, image: i, command: [{_AGENT}]}}]\n"
    ),
)
GANG = Rule(
    code="RT335",
    name="gang-size",
    summary="the job starts with another number of pods than it has",
    why="Volcano starts a job as soon as minAvailable pods can run. With more than "
    "there "
    "are it never starts; with fewer some processes wait for others.",
    fix="Set minAvailable to the sum of the replicas.",
    bad=_volcano("master", least=3),
    good=_volcano("master"),
)

RULES = (
    MORE_THAN_CHIPS,
    IDLE_CHIPS,
    WRONG_AGENTS,
    NODES_ALONE,
    SAME_RANK,
    WRONG_SIZE,
    MASTER_ADDRESS,
    MASTER_PORT,
    NO_EFFECT,
    CHIPS_VISIBLE,
    POD_RESOURCES,
    REFUSED,
    NOT_JUDGED,
    NO_RANK,
    POD_NAMES,
    GANG,
)
