"""What is submitted, judged as files: wrong ones and their nearest right neighbours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from ranktable.cluster.submissions.detect import is_sbatch
from ranktable.cluster.submissions.read_submissions import read_submissions
from tests.submission_cases import (
    C10D,
    EIGHT,
    HEAD,
    TWO,
    found,
    notes,
    read_cases,
    script,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

MANIFESTS = read_cases("manifests")
CASES = read_cases("scripts") | MANIFESTS
STEP = "torchrun --nnodes=2 --node_rank={} --master_addr=n1 t.py"
E, W = "error", "warning"


@pytest.mark.parametrize("name", CASES)
def test_wrong_one_has_the_defect(name: str) -> None:
    codes, wrong, _ = CASES[name]

    assert found(wrong) == codes


@pytest.mark.parametrize("name", CASES)
def test_right_one_is_silent(name: str) -> None:
    assert found(CASES[name].right) == []


def test_lines_that_end_as_on_dos() -> None:
    text = script("-N1 -n2", "srun python t.py")

    assert found(text) == []
    assert found(text.replace("\n", "\r\n")) == [("RT331", E)]


def test_blank_behind_a_backslash_ends_the_words_of_a_task() -> None:
    text = script(
        "-N1", "srun bash -c 'torchrun --nproc-per-node 2 \\", "--tee 3 t.py'"
    )

    assert found(text) == []
    assert found(text.replace("\\\n", "\\ \n")) == [("RT328", E)]


@pytest.mark.parametrize(
    ("value", "severities"),
    [
        ("$(date +%s%N)", [E]),
        ("$(date -u +%s%3N | md5sum)", [E]),
        ("j$$", [E]),
        ("$(hostname)", [E]),
        ("$(uname -n)", [E]),
        ("$SLURM_NODEID", [E]),
        ("$(mktemp -u)", [E]),
        ("$(cat /proc/sys/kernel/random/uuid)", [E]),
        ("$((RANDOM % 1000))", [E]),
        ("$((SLURM_JOB_ID + RANDOM))", [E]),
        ('$(python3 -c "import uuid; print(uuid.uuid4())")', [E]),
        ("$(date +%s)", [W]),
        ("$(date)", [W]),
        ("$(date +%s%N | cut -c1-10)", [W]),
        ("$EPOCHSECONDS", [W]),
        ("$(date +%Y%m%d)", []),
        ("$(date -r run.sh +%s)", []),
        ("$(md5sum run.sh)", []),
        ("$(shuf --random-source=run.sh -i 1-9 -n1)", []),
        ("$((SLURM_JOB_ID % 1000))", []),
        ("$SLURM_LOCALID", []),
        ("$ID", []),
    ],
)
def test_id_that_is_another_one_on_every_node(
    value: str, severities: list[str]
) -> None:
    line = f"srun bash -c 'torchrun --nnodes 2 --rdzv_id {value} --rdzv_backend c10d "
    text = script(
        TWO,
        f"export {HEAD}",
        "export ID=$(uuidgen)",
        line + "--rdzv_endpoint $head:29500 t.py'",
    )

    assert found(text) == [("RT323", severity) for severity in severities]


NO_PORT, NO_HOST = [("RT327", "error")], [("RT326", "error")]


@pytest.mark.parametrize(
    ("address", "port", "codes"),
    [
        ("", "29500", NO_HOST),
        ('""', "29500", NO_HOST),
        ("$head:29500", "29500", NO_HOST),
        ("n1.cluster:29500", "29500", NO_HOST),
        ("[fd00::1]:29500", "29500", NO_HOST),
        ("tcp://n1:29500", "29500", NO_HOST),
        ("$SLURM_JOB_NODELIST", "29500", NO_HOST),
        ("$head", "auto", NO_PORT),
        ("$head", "", NO_PORT),
        ("$head", "-1", NO_PORT),
        ("$head", "70000", NO_PORT),
        ("$head", "29500,", NO_PORT),
        ("$head", "22", [("RT327", W)]),
        ("$head", "1023", [("RT327", W)]),
        ("$head", "1024", []),
        ("$head", "029500", []),
        ("$head", '" 29500"', []),
        ("fd00::1", "29500", []),
        ("::1:29500", "29500", []),
        ("$ADDRESS:29500", "29500", []),
        ("${ENDPOINT%:*}", "${ENDPOINT#*:}", []),
        ("$head", "$((RANDOM % 1000 + 20000))", []),
        ("$head", "PORT", []),
        ("$head", "'{{port}}'", []),
        ("'`hostname`'", "'$PORT'", []),
    ],
)
def test_address_and_port_that_the_tasks_read(
    address: str, port: str, codes: list[tuple[str, str]]
) -> None:
    lines = f"export {HEAD}", f"export MASTER_ADDR={address} MASTER_PORT={port}"

    assert found(script(TWO, *lines, "srun python t.py")) == codes


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ("--rdzv_endpoint :29500", NO_HOST),
        ("--rdzv_endpoint=$head:29500:29500", NO_HOST),
        ("--rdzv_endpoint $SLURM_NODELIST:29500", NO_HOST),
        ("--rdzv_endpoint $head:auto", NO_PORT),
        ("--rdzv_endpoint $head:-1", NO_PORT),
        ("--rdzv_endpoint $head:", NO_PORT),
        ("--rdzv_endpoint $head:80", [("RT327", W)]),
        ("--rdzv_endpoint=", [("RT323", E)]),
        ("--rdzv_endpoint $head", []),
        ("--rdzv_endpoint [fd00::1]", []),
        ("--rdzv_endpoint [fd00::1]:29500", []),
        ("--rdzv_endpoint fd00::1:29500", []),
        ("--rdzv_endpoint $ENDPOINT", []),
        ("--rdzv_endpoint /shared/a:b --rdzv_conf store_type=file", []),
        ("--rdzv_endpoint http://etcd:2379", []),
        ("--rdzv_endpoint $head:$PORT", []),
    ],
)
def test_endpoint_that_torchrun_takes(
    options: str, codes: list[tuple[str, str]]
) -> None:
    line = f"srun torchrun --nnodes 2 --nproc-per-node 8 --rdzv_backend c10d {options}"

    assert found(script(EIGHT, HEAD, f"{line} t.py")) == codes


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ("--master_port auto", NO_PORT),
        ("--master_port 70000", NO_PORT),
        ("--master_port=", NO_PORT),
        ("--rdzv_backend c10d --rdzv_endpoint localhost:auto", NO_PORT),
        ("--rdzv_backend c10d --rdzv_endpoint :0", NO_HOST),
        ("--rdzv_backend c10d --rdzv_endpoint localhost:0", []),
        ("--rdzv_backend c10d --rdzv_endpoint=", []),
        ("--standalone --rdzv_endpoint :0", []),
        ("--master_addr localhost --master_port 29501", []),
        ("--master_addr 127.0.0.1 --master_port $PORT", []),
        ("--master_addr $SLURM_NODELIST --master_port $((20000 + RANDOM))", []),
    ],
)
def test_address_and_port_of_one_agent(
    options: str, codes: list[tuple[str, str]]
) -> None:
    line = f"torchrun --nproc-per-node 8 {options} t.py"
    assert found(script("-N1 --gpus-per-node=8", line)) == codes
    assert found(script("-N1 -n1 --gpus-per-node=8", f"srun {line}")) == codes


@pytest.mark.parametrize(
    ("given", "program", "codes"),
    [
        ("MASTER_ADDR=localhost", "python", NO_HOST),
        ("MASTER_PORT=auto", "python", NO_PORT),
        ("WORLD_SIZE=8", "python", [("RT325", E)]),
        ("RANK=0", "python", [("RT324", E)]),
        ("WORLD_SIZE=16", "python", []),
        ("MASTER_ADDR=m-worker-0.m", "python", []),
        ("MASTER_ADDR=localhost", "./run", []),
        ("MASTER_ADDR=localhost", "./run.sh, python", []),
        ("MASTER_ADDR", "python", []),
        ('WORLD_SIZE=32, -np, "2", -N, "1"', "python", []),
    ],
)
def test_variables_that_the_mpirun_of_pods_gives(
    given: str, program: str, codes: list[tuple[str, str]]
) -> None:
    text = mpijob(f'[mpirun, -np, "16", -x, {given}, {program}, t.py]')
    line = f"mpirun -np 16 -x MASTER_ADDR=$(hostname) {program.replace(',', '')} t.py"

    assert found(text) == codes
    assert found(mpijob(f'[sh, -c, "{line}"]')) == []


def test_agent_whose_address_is_empty_is_told_once() -> None:
    line = STEP.format("$SLURM_NODEID").replace("=n1", '=""')

    assert found(script(TWO, f"srun bash -c '{line}'")) == NO_HOST


SLOTS = "-N2 --ntasks-per-node=4 --exclusive"


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (["mpirun -x MASTER_ADDR=localhost -np 8 python t.py"], NO_HOST),
        (["mpirun -x MASTER_ADDR=localhost python t.py"], NO_HOST),
        (["mpiexec -n 8 -genv MASTER_ADDR 127.0.0.1 python t.py"], NO_HOST),
        (["mpiexec -n 8 -genv MASTER_ADDR=127.0.0.1 python t.py"], NO_HOST),
        (["mpiexec -env MASTER_PORT auto -n 8 python t.py"], NO_PORT),
        (["mpirun -x MASTER_ADDR=$head:29500 -np 8 python t.py"], NO_HOST),
        (["mpirun -x WORLD_SIZE=4 -x A=1 -np 8 python t.py"], [("RT325", E)]),
        (["mpirun -x WORLD_SIZE=16 -np 8 python t.py"], [("RT325", E)]),
        (["mpirun -x RANK=0 -np 8 python t.py"], [("RT324", E)]),
        (["export MASTER_ADDR=localhost", "mpirun -x MASTER_ADDR python t"], NO_HOST),
        (["export MASTER_ADDR=localhost", "mpirun -genvall python t"], NO_HOST),
        (["export MASTER_ADDR=localhost", "mpiexec.hydra -n 8 python t"], NO_HOST),
        (["export MASTER_PORT=x", "mpiexec -envlist A,MASTER_PORT python t"], NO_PORT),
        (["export A=n1:1", "mpirun -x MASTER_ADDR=$A sh -c 'python t'"], NO_HOST),
        (["srun mpirun -np 8 python t.py"], [("RT322", W)]),
        (["srun mpirun python t.py"], [("RT322", W)]),
        # The nearest right ones: another host, number, program or launcher.
        (["mpirun -x MASTER_ADDR=$head -x MASTER_PORT=29500 python t.py"], []),
        (["mpirun -x WORLD_SIZE=8 -np 8 python t.py"], []),
        (["mpirun -x MASTER_ADDR=localhost -x WORLD_SIZE=1 ./t"], []),
        (["mpirun -x MASTER_ADDR=localhost ./start.sh"], []),
        (["mpirun -x MASTER_ADDR=localhost ./start.sh python t.py"], []),
        (["mpirun -x MASTER_ADDR=localhost sh -c 'MASTER_ADDR=$A python t'"], []),
        (["mpirun -x RANK=0 bash -c 'RANK=$OMPI_COMM_WORLD_RANK python t'"], []),
        (["export MASTER_ADDR=localhost", "mpirun python t"], []),
        (["export MASTER_ADDR=localhost", "mpirun -x MASTER_PORT python t"], []),
        (["export MASTER_ADDR=localhost", "mpiexec.hydra -genvnone python t"], []),
        (["export MASTER_ADDR=localhost", "mpiexec.hydra -genvlist A python t"], []),
        (
            ["mpirun -x MASTER_ADDR=localhost --host n1:8 -np 8 python t"],
            [("RT328", W)],
        ),
        (["mpirun --hostfile h -x MASTER_ADDR=localhost -np 8 python t.py"], []),
        (["mpirun -x MASTER_ADDR=localhost -np 4 ./a : -np 4 python t.py"], []),
        (["srun -n1 mpirun -np 8 python t.py"], []),
        (["srun mpirun --version", "mpirun -np 8 python t.py"], []),
        (["mpirun -np 2 --map-by node -x WORLD_SIZE=8 python t"], [("RT322", W)]),
        (["mpirun -np 2 --hostfile h -x WORLD_SIZE=8 python t"], []),
    ],
)
def test_variables_that_mpirun_gives_its_processes(
    lines: list[str], codes: list[tuple[str, str]]
) -> None:
    assert found(script(SLOTS, HEAD, *lines)) == codes


@pytest.mark.parametrize(
    "line",
    [
        'eval "$(python parse.py)"',
        "export $(grep -v x .env | xargs)",
        'declare "$1=$2"',
        "[ -f a.env ] && . a.env",
        "if [ -f a ]; then eval $(cat a); fi",
        "set -a; . <(cat a.env); set +a",
        "while read -r x S; do :; done < a",
        "S[0]=t.py",
    ],
)
def test_a_value_that_a_line_may_set_is_not_known(line: str) -> None:
    agents = script("-N1", "S=", line, "torchrun --nproc_per_node=4 $S")
    array = script("-N1", "S=()", line, 'torchrun --nproc_per_node=4 "${S[@]}"')
    hook = script("-N1", "S=", 'eval "$(conda shell.bash hook)"', "torchrun $S")

    assert found(agents) == found(array) == []
    assert found(hook) == [("RT336", E)]


@pytest.mark.parametrize("nodes", [2, 3])
def test_an_array_in_a_text_is_one_text(nodes: int) -> None:
    options = f"A=(--nproc_per_node 4 --nnodes {nodes} {C10D})"
    chips = f"{TWO} --gpus-per-node=4"
    run = script(chips, HEAD, options, 'run="srun torchrun ${A[@]} t.py"', "$run")
    inner = 'srun bash -c "torchrun ${A[*]} t.py"'

    codes = [] if nodes == 2 else [("RT322", E)]
    assert found(run) == found(script(chips, HEAD, options, inner)) == codes


def test_hydra_starts_more_processes_than_slots() -> None:
    count = "-N2 --ntasks-per-node=1 --exclusive"

    assert found(script(count, "mpiexec.hydra -n 8 -ppn 4 python t.py")) == []
    assert found(script(count, "mpirun -n 8 python t.py")) == [("RT322", W)]


def test_a_cut_that_knows_the_bracket_may_give_a_host() -> None:
    cut = "sed -E 's/\\[([0-9]+).*/\\1/'"
    line = 'export MASTER_ADDR=$(echo "$SLURM_NODELIST" | CUT)'
    rest = (TWO, "export MASTER_PORT=29500", "srun python t.py")

    assert found(script(rest[0], line.replace("CUT", cut), *rest[1:])) == []
    assert found(script(rest[0], line.replace("CUT", "cut -c1-3"), *rest[1:])) != []


def test_chips_that_each_process_of_an_mpirun_chooses_are_its_own() -> None:
    line = "mpirun bash -c 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK python t'"

    assert found(script(f"{SLOTS} --gpus-per-node=4", line)) == []


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        ("-N2 --ntasks-per-node=4 --exclusive", "-np 4"),
        ("-N2 --ntasks-per-node=4 --exclusive", "-np 4 -npernode 4"),
        ("-N2 --exclusive", "-np 8"),
        ("-N1 --ntasks-per-node=8", "-np 8"),
        ("-N2 -n8 --exclusive", "-np 6"),
    ],
)
def test_loopback_of_an_mpirun_that_may_fill_one_node_only(
    options: str, processes: str
) -> None:
    line = f"mpirun -x MASTER_ADDR=localhost {processes} python t.py"
    codes = {code for code, _ in found(script(options, line))}

    assert "RT326" not in codes


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (["srun --export=ALL,MASTER_ADDR=localhost python t.py"], NO_HOST),
        (["srun --export=MASTER_PORT=auto,ALL python t.py"], NO_PORT),
        (["#SBATCH --export=ALL,MASTER_PORT=auto", "srun python t.py"], NO_PORT),
        (["srun env MASTER_ADDR=localhost python t.py"], NO_HOST),
        (["srun /usr/bin/env -u A MASTER_PORT=x bash -c 'python t.py'"], NO_PORT),
        (["env MASTER_ADDR=localhost srun python t.py"], NO_HOST),
        (["srun bash -c 'env MASTER_PORT=auto python t.py'"], NO_PORT),
        (["srun env RANK=$SLURM_PROCID python t.py"], [("RT324", E)]),
        (["mpirun -np 2 env RANK=0 python t.py"], [("RT324", E)]),
        (["srun --export=ALL,MASTER_ADDR=$head python t.py"], []),
        (["srun --export=ALL,A=auto python t.py"], []),
        (["#SBATCH --export=ALL,MASTER_PORT=x", "MASTER_PORT=29500 srun python t"], []),
        (["export MASTER_PORT=x", "srun --export=ALL,MASTER_PORT=$P python t"], []),
        (["export MASTER_PORT=x", "srun env MASTER_PORT=29500 python t.py"], []),
        (["export MASTER_PORT=x", "env MASTER_PORT=29500 srun python t.py"], []),
        (["export MASTER_PORT=x", "srun env -u MASTER_PORT python t.py"], []),
        (["export MASTER_PORT=x", "srun env -i A=1 python t.py"], []),
        (["srun env MASTER_PORT=x bash -c 'MASTER_PORT=29500 python t'"], []),
        (["srun bash -c 'env MASTER_PORT=x ./a; python t.py'"], []),
        (["env MASTER_PORT=x", "srun python t.py"], []),
        (["export MASTER_PORT=", ": ${MASTER_PORT:=29500}", "srun python t.py"], []),
        (["export MASTER_PORT=", "printf -v MASTER_PORT 5", "srun python t.py"], []),
        (
            [
                "f() {",
                "MASTER_PORT=5",
                "}",
                "export MASTER_PORT=",
                "f",
                "srun python t",
            ],
            [],
        ),
        (["env MASTER_PORT=x ./a", "srun python t.py"], []),
    ],
)
def test_variables_that_options_and_programs_give_the_tasks(
    lines: list[str], codes: list[tuple[str, str]]
) -> None:
    first, *rest = lines if lines[0][0] == "#" else ["", *lines]
    text = script(TWO, HEAD, *rest).replace("\n\n", f"\n{first}\n\n", 1)

    assert found(text) == codes


def pod(command: str, chips: int | None = 4, *, name: str = "pytorch") -> str:
    """Return the template of a pod in one line."""
    limits = (
        "" if chips is None else f", resources: {{limits: {{nvidia.com/gpu: {chips}}}}}"
    )
    run = f", command: {command}" if command else ""
    return f"{{spec: {{containers: [{{name: {name}, image: i{run}{limits}}}]}}}}"


def pytorchjob(
    command: str = "[torchrun, t.py]",
    *,
    each: str | None = '"4"',
    master: int | None = 1,
    worker: int | None = 1,
    chips: tuple[int, int] = (4, 4),
    more: str = "",
    name: str = "train",
) -> str:
    lines = ["apiVersion: kubeflow.org/v1", "kind: PyTorchJob"]
    lines += [f"metadata: {{name: {name}}}", "spec:"]
    lines += [] if each is None else [f"  nprocPerNode: {each}"]
    lines += [f"  {more}"] if more else []
    lines += ["  pytorchReplicaSpecs:"]
    for role, count, number in (
        ("Master", master, chips[0]),
        ("Worker", worker, chips[1]),
    ):
        if count is not None:
            template = pod(command, number)
            lines.append(f"    {role}: {{replicas: {count}, template: {template}}}")
    return "\n".join((*lines, ""))


def config_map(data: str) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    return f"{head}data: {data}\n---\n"


def trainjob(trainer: str, runtime: str = "torch-distributed") -> str:
    return (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n"
        f"metadata: {{name: t}}\nspec:\n  runtimeRef: {{name: {runtime}}}\n"
        f"  trainer: {trainer}\n"
    )


def mpijob(
    command: str, *, slots: str = "slotsPerWorker: 8", more: str = "", chips: int = 8
) -> str:
    return (
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: m}\nspec:\n"
        f"  {slots}\n{more}  mpiReplicaSpecs:\n"
        f"    Launcher: {{replicas: 1, template: {pod(command, None)}}}\n"
        f"    Worker: {{replicas: 2, template: {pod('', chips)}}}\n"
    )


def volcano(
    *tasks: tuple[str, int],
    flags: str = "[]",
    least: int | None = None,
    command: str = "[python, t.py]",
    chips: int = 1,
) -> str:
    lines = ["apiVersion: batch.volcano.sh/v1alpha1", "kind: Job"]
    lines += [
        "metadata: {name: v}",
        "spec:",
        f"  plugins: {{svc: [], pytorch: {flags}}}",
    ]
    lines += [] if least is None else [f"  minAvailable: {least}"]
    lines += ["  tasks:"]
    for name, replicas in tasks:
        lines.append(
            "  - "
            f"{{name: {name}, replicas: {replicas}, template: {pod(command, chips)}}}"
        )
    return "\n".join((*lines, ""))


def agent(nodes: int, rank: str, master: str) -> str:
    return (
        f'["torchrun", "--nnodes={nodes}", "--node-rank={rank}", "--nproc-per-node=4", '
        f'"--master-addr={master}", "--master-port=29500", "t.py"]'
    )


INDEX = "$(JOB_COMPLETION_INDEX)"


def jobset(replicas: int, pods: int, command: str, *, ends: int | None = None) -> str:
    return (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: "
        "s}\nspec:\n"
        "  replicatedJobs:\n"
        "  - "
        f"{{name: w, replicas: {replicas}, template: {{spec: {{parallelism: {pods}, "
        f"completions: {ends or pods}, completionMode: Indexed, template: "
        f"{pod(command)}}}}}}}\n"
    )


def leaderworkerset(size: int, command: str, leader: int | None = None) -> str:
    first = "" if leader is None else f"    leaderTemplate: {pod(command, leader)}\n"
    return (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n"
        "metadata: {name: l}\nspec:\n  replicas: 3\n  leaderWorkerTemplate:\n"
        f"    size: {size}\n{first}    workerTemplate: {pod(command)}\n"
    )


def job(
    *,
    subdomain: str = "subdomain: j, ",
    service: str = "",
    resources: str = "",
    pod_more: str = "",
    env: str = "[]",
) -> str:
    limits = resources or "limits: {nvidia.com/gpu: 4}"
    return (
        f"{service}apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec:\n"
        "  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n"
        f"  template: {{spec: {{{subdomain}{pod_more}containers: [{{name: c, image: i, "
        f"env: {env}, command: {agent(2, INDEX, 'j-0.j')}, "
        f"resources: {{{limits}}}}}]}}}}\n"
    )


def service(selector: str = "job-name: j", address: str = "None") -> str:
    return (
        "apiVersion: v1\nkind: Service\nmetadata: {name: j}\nspec:\n"
        f"  clusterIP: {address}\n  selector: {{{selector}}}\n---\n"
    )


GPUS = "limits: {nvidia.com/gpu: 8}, requests: {nvidia.com/gpu: 8}"


def ray(params: str, *, chips: int = 8, kind: str = "RayCluster") -> str:
    lines = ["headGroupSpec:", "  rayStartParams: {}", f"  template: {pod('', None)}"]
    lines += ["workerGroupSpecs:", "- groupName: w", "  replicas: 2"]
    lines += [f"  rayStartParams: {params}", f"  template: {pod('', chips)}"]
    indent = "\n  "
    if kind == "RayJob":
        lines, indent = ["rayClusterSpec:", *(f"  {each}" for each in lines)], "\n  "
    body = indent.join(lines)
    head = f"apiVersion: ray.io/v1\nkind: {kind}\nmetadata: {{name: r}}\nspec:"
    return f"{head}{indent}{body}\n"


ADDRESS = "--master_addr="


def compose(first: str, second: str, each: int = 2) -> str:
    """Return a compose file with two nodes of two chips."""
    lines = ["services:"]
    for rank, (name, more) in enumerate((("a", first), ("b", second))):
        line = f"torchrun --nnodes=2 --nproc-per-node={each} --node-rank={rank}"
        device = "{driver: nvidia, count: 2, capabilities: [gpu]}"
        lines += [
            f"  {name}:",
            f"    command: {line} {more or '--master-addr=a'} t.py",
            f"    deploy: {{resources: {{reservations: {{devices: [{device}]}}}}}}",
        ]
    return "\n".join((*lines, ""))


@pytest.mark.parametrize(
    ("text", "name", "longest"),
    [
        (pytorchjob(), "train", 54),
        (mpijob("[mpirun, python, t.py]"), "m", 54),
        (job().replace("j-0.j", "x"), "j", 61),
        (jobset(1, 2, "[python, t.py]"), "s", 51),
        (volcano(("master", 1)), "v", 54),
    ],
)
def test_long_names_of_jobs_leave_no_room_for_those_of_pods(
    text: str, name: str, longest: int
) -> None:
    def named(length: int) -> str:
        return text.replace(f"{{name: {name}}}", f"{{name: {name[0] * length}}}")

    assert found(named(longest)) == []
    assert found(named(longest + 1)) == [("RT331", E)]


# What cannot be judged


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("for h in a b; do srun -w $h torchrun t.py & done", "it is in a loop"),
        ("if [ -n $X ]; then srun torchrun t.py; fi", "it is in a condition"),
        ("[ -n $X ] && srun torchrun t.py", "it is in a condition"),
        ("start() { srun torchrun t.py; }", "it is in a function"),
        ("( cd x; srun torchrun t.py )", "it is in a subshell"),
        ("source settings.sh", "settings.sh may set every variable"),
        ("./train.sh", "what train.sh starts is not in the file"),
        ("horovodrun -np 4 python t.py", "what horovodrun starts is not judged"),
        (
            "srun python -m paddle.distributed.launch t.py",
            "what paddle.distributed.launch starts is not judged",
        ),
        (
            "srun python -u -m site.launch --nproc_per_node 4 t.py",
            "what site.launch starts is not judged",
        ),
        ("srun --multi-prog tasks.conf", "tasks.conf says what each task starts"),
        ("sh test.sh -p python -n 2", "what test.sh starts is not in the file"),
        ("srun -n 2 bash -e run/train.sh", "what train.sh starts is not in the file"),
        ("srun env A=1 ./train.sh 3", "what train.sh starts is not in the file"),
        ("srun bash -c './a.bash'", "what a.bash starts is not in the file"),
        ("ssh n2 torchrun t.py", "what ssh starts is not judged"),
        ("$COMMAND t.py", "its first word is not in the file"),
        (
            "srun torchrun --nnodes $NODES t.py",
            "the file does not say the value of --nnodes ...",
        ),
        ("srun torchrun $OPTIONS t.py", "the file does not say the value of some"),
        ("srun -n $TASKS python t.py", "the file does not say the value of --ntasks"),
        (
            "srun $OPTIONS python t.py",
            "the file does not say the value of some options",
        ),
        ("srun $PROGRAM", "the program is not in the file"),
        ("srun bash -c 'for i in 1 2; do torchrun t.py; done'", "it is in a loop"),
        ("srun bash -c 'torchrun t.py", "a quotation mark or bracket in it is never"),
        ('srun bash -c "torchrun $(cat x) t.py', "a quotation mark or bracket in it"),
        ("srun python t.py --name=$(hostname", "a quotation mark or bracket in it"),
    ],
)
def test_line_that_is_not_judged_is_said(line: str, reason: str) -> None:
    said = notes(script("-N2 --ntasks-per-node=1 --exclusive", line))

    assert [(at, text[: len(f"not judged: {reason}")]) for at, text in said] == [
        (6, f"not judged: {reason}")
    ]


def test_chips_of_sockets_are_said_to_be_unknown() -> None:
    options = "-N2 --gpus-per-socket=2 --sockets-per-node=2"
    agents = f"srun torchrun --nnodes 2 --nproc-per-node 8 {C10D} t.py"

    # Slurm 22.05 gave a task for each socket, and --exclusive all chips of the node.
    reason = "the chips of a node are those of its sockets (--gpus-per-socket=2)"
    assert found(script(options, HEAD, agents)) == []
    assert notes(script(options, HEAD, agents)) == [(3, f"not judged: {reason}")]


@pytest.mark.parametrize(
    "line",
    [
        *("source ~/.bashrc", "source venv/bin/activate", "set -eu", "module load x"),
        *("shift", "[ -d x ]", "srun python -m train --num_nodes 2"),
        *(r"echo $'it\'s'", "echo it\\'s", "echo '\"' \"'\"", "# it's", "echo a#'b'"),
    ],
)
def test_usual_lines_are_not_mentioned(line: str) -> None:
    assert notes(script("-N2 --ntasks-per-node=1", line, "srun python t.py")) == []


def test_script_with_nothing_but_a_warning_has_status_2(
    run: Run, tmp_path: Path
) -> None:
    text = script("--nodes=3 --ntasks=2", "./prepare", "for i in 1; do srun a; done")
    (tmp_path / "job.sbatch").write_text(text)
    done = run("ranktable", "validate", "job.sbatch")

    assert done.status == 2
    assert [code in done.out for code in ("RT008", "RT328", "RT332")] == [True] * 3


def test_step_of_a_job_with_components_is_not_judged() -> None:
    text = "#!/bin/sh\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 2\n"

    assert notes(f"{text}srun --het-group=0 ./a : --het-group=1 ./b\n") == [
        (5, "not judged: the job has several components")
    ]


@pytest.mark.parametrize(
    "line",
    ["srun --het-group=0 ./a : --het-group=1 ./b", "srun --het-group=0,1 ./a"],
)
def test_job_with_components_of_which_nothing_is_judged_has_status_2(line: str) -> None:
    text = "#!/bin/sh\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -n 2 -N 1\n"

    assert found(f"{text}{line}\n") == [("RT008", E)]
    assert [at for at, _ in notes(f"{text}{line}\n")] == [5]


def test_template_of_helm_is_no_json() -> None:
    text = '{{- define "job" -}}\n' + pytorchjob() + "{{- end }}\n"

    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    assert {each.code for each in report.diagnostics} == {"RT008", "RT332"}


def test_script_that_srun_starts_is_not_judged() -> None:
    text = script("-N2 --ntasks-per-node=2 --gres=gpu:1", "srun ./train.sh")

    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    assert [each.code for each in report.diagnostics] == ["RT008", "RT332"]


def test_program_in_a_loop_is_named_if_nothing_else_is_judged() -> None:
    alone = notes(script("-N1", "for s in 1 2; do python t.py $s; done"))
    beside = notes(
        script("-N1", "for s in 1; do python t.py; done", "srun python t.py")
    )

    assert alone == [(4, "not judged: it is in a loop")]
    assert beside == []


def test_script_of_another_language_is_not_judged() -> None:
    text = "#!/usr/bin/env python3\n#SBATCH -N 2\nimport os\nos.system('srun t')\n"

    report = read_submissions(text.encode(), file="job", is_script=True).report

    assert report is not None
    assert [(each.code, each.message) for each in report.diagnostics] == [
        ("RT008", "nothing in the script starts processes by words that can be judged"),
        ("RT332", "not judged: it is not a script of a shell"),
    ]


@pytest.mark.parametrize(
    ("text", "is_script"),
    [
        ("#!/bin/bash -l\nset -u\n#SBATCH -N 2\nsrun t\n", True),
        ("#! /usr/bin/env zsh\nset -u # don't\n#SBATCH -N 2\nsrun t\n", True),
        ('#!/bin/bash\necho "don\'t"\n#SBATCH -N 2\nsrun t\n', True),
        ("#!/bin/fish\ncut -f1 <<< $x\n#SBATCH -N 2\nsrun t\n", True),
        ("#!/usr/bin/env mksh\necho don\\'t\n#SBATCH -N 2\nsrun t\n", True),
        ("#!/bin/bash\ncat <<<'\n#SBATCH -N 2'\n", False),
        ("#!/usr/bin/python\nx = 1\n#SBATCH -N 2\n", False),
        ("#!/bin/bash\ncat > j <<E\n#SBATCH -N 2\nE\n", False),
        ("#!/bin/bash\necho '#!/bin/sh\n#SBATCH -N 2' > j\n", False),
    ],
)
def test_script_with_options_below_its_first_command(
    text: str, *, is_script: bool
) -> None:
    assert is_sbatch(text) is is_script


@pytest.mark.parametrize(
    "before",
    ["timeout -k 9 23h", "stdbuf -oL", "uv run", "env A=1", "command", "nsys profile",
     "conda run -n e", "/usr/bin/time -v", "xvfb-run"],
)  # fmt: skip
def test_program_before_srun_starts_what_srun_starts(before: str) -> None:
    def lines(nproc: int) -> str:
        line = f"{before} srun torchrun --nnodes 2 --nproc_per_node {nproc} {C10D} t.py"
        return script(f"{TWO} --gres=gpu:4", HEAD, line)

    assert found(lines(4)) == []
    assert found(lines(8)) == [("RT320", E)]


@pytest.mark.parametrize("program", ["tune run", "fabric run", "./mine"])
def test_program_that_starts_several_processes_is_not_judged(program: str) -> None:
    text = script(EIGHT, f"srun {program} --nnodes 2 --nproc_per_node=8 t")

    assert found(text) == [("RT008", E)]
    assert [at for at, _ in notes(text)] == [7]


@pytest.mark.parametrize(
    "line",
    ["xargs -n1 srun -N1 torchrun --nnodes 2 t.py", "xargs -I{} ssh {} torchrun t.py",
     'bash -c "srun torchrun --nnodes 2 t.py"'],
)  # fmt: skip
def test_lines_of_other_shells_and_hosts_are_not_judged_and_said(line: str) -> None:
    text = script(TWO, "cat f | xargs rm", line)

    assert found(text) == [("RT008", E)]
    assert [at for at, _ in notes(text)] == [7]


def test_one_assignment_before_two_lines_is_reported_once() -> None:
    lines = ("export CUDA_VISIBLE_DEVICES=$X", "python a.py", "python b.py")

    assert found(script("-N1 --gres=gpu:2", *lines)) == [("RT329", W)]


@pytest.mark.parametrize(
    "text",
    ["#!/bin/bash\n#PBS -l select=2\nmpirun -np 8 t\n", "#BSUB -n 8\njsrun t\n",
     "#!/bin/sh\ntorchrun t.py\n", "#!/usr/bin/env python3\nimport torch\n"],
)  # fmt: skip
def test_script_of_no_kind_that_is_read_is_no_defect(
    run: Run, tmp_path: Path, text: str
) -> None:
    (tmp_path / "job.pbs").write_text(text)
    done = run("ranktable", "validate", "job.pbs")

    shown = run("ranktable", "show", "job.pbs")

    assert (done.status, "RT008" in done.out) == (2, True)
    assert (shown.status, "is a script" in shown.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("num_nodes: 2\nrun: |\n  python t.py\n", 2, "a task of SkyPilot is not"),
        ("services:\n  a: {command: python t.py}\n", 2, "a file of compose without"),
        ("jobs:\n  a: {run: torchrun t.py}\n", 2, "of no scheduler or operator"),
        ("services:\n  - a:b\nt: {script: torchrun}\n", 2, "a file of compose with"),
        ("jobs:\n  a: {run: make}\n", 1, "nothing here says that it is"),
    ],
)
def test_file_of_another_program_is_said_to_be_not_judged(
    run: Run, tmp_path: Path, text: str, status: int, said: str
) -> None:
    (tmp_path / "job.yaml").write_text(text)
    done = run("ranktable", "validate", "job.yaml")

    assert (done.status, said in done.out) == (status, True)


def test_line_that_eval_runs_is_not_judged_and_said() -> None:
    text = script("-N2", 'c="torchrun --nnodes 3 t.py"', 'eval "srun $c"', "eval $(x)")

    assert notes(text) == [(5, "not judged: what eval runs is not judged")]


def test_value_from_a_file_that_is_sourced_is_not_judged() -> None:
    text = script(
        "-N2 --ntasks-per-node=4",
        "export WORLD_SIZE=4",
        "source x.sh",
        "srun python t.py",
    )

    assert found(text) == []


def test_expression_of_helm_is_not_judged_and_said() -> None:
    text = pytorchjob().replace('nprocPerNode: "4"', "nprocPerNode: {{ .Values.n }}")

    assert found(text) == []
    assert notes(text) == [(5, "not judged: it is a template")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('nprocPerNode: "4"', 'nprocPerNode: "${NPROC}"'),
        ('nprocPerNode: "4"', "nprocPerNode: $NPROC"),
        ('nprocPerNode: "4"', 'nprocPerNode: "@@NPROC@@"'),
        ('nprocPerNode: "4"', "nprocPerNode: [[ nproc ]]"),
        ('nprocPerNode: "4"', "nprocPerNode: <% nproc %>"),
        ('nprocPerNode: "4"', "nprocPerNode: <number of GPUs>"),
        ("Worker: {replicas: 1", 'Worker: {replicas: "${WORKERS:-1}"'),
        ("Worker: {replicas: 1", "Worker: {replicas: ${WORKERS}"),
        ("nvidia.com/gpu: 4", "nvidia.com/gpu: ${GPUS}"),
        ("name: train", "name: ${JOB}-train"),
    ],
)
def test_value_that_another_tool_puts_in_is_not_judged_and_said(
    old: str, new: str
) -> None:
    text = pytorchjob().replace(old, new)

    assert found(text) == []
    assert notes(text)
    assert all("another tool puts a value" in reason for _, reason in notes(text))


@pytest.mark.parametrize(
    ("kind", "spec", "is_said"),
    [
        ("Deployment", pod("[torchrun, t.py]"), True),
        ("Workflow", pod("[sh, -c, 'mpirun ./t']"), True),
        ("Deployment", pod("[redis-server]"), False),
        ("RayService", "{rayClusterConfig: {}}", True),
    ],
)
def test_other_object_that_starts_processes_is_said(
    kind: str, spec: str, is_said: bool
) -> None:
    head = f"apiVersion: x.io/v1\nkind: {kind}\nmetadata: {{name: x}}\n"
    text = f"{head}spec: {spec}\n---\n{pytorchjob()}"

    reason = f'not judged: what the {kind} "x" starts'
    assert notes(text) == ([(2, reason)] if is_said else [])


def test_words_of_a_file_that_another_tool_completes_are_not_judged() -> None:
    text = pytorchjob("[torchrun, '--nnodes=${N}', t.py]")

    assert found(text) == [("RT328", E), ("RT328", E)]
    assert found(text.replace("name: train", "name: ${JOB}")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kubeflow.org/v2beta1", "kubeflow.org/v1alpha1"),
        ("kubeflow.org/v2beta1", "mpi.example/v2beta1"),
    ],
)
def test_job_of_another_version_is_not_judged(old: str, new: str) -> None:
    text = mpijob("[mpirun, python, t.py]").replace(old, new)

    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    assert [(each.code, each.message) for each in report.diagnostics] == [
        ("RT008", "nothing in the manifest could be judged"),
        ("RT332", f'not judged: a MPIJob of "{new}" is not known'),
    ]


def test_job_set_of_another_group_is_not_judged() -> None:
    text = jobset(1, 2, "[python, t.py]").replace("x-k8s.io", "sigs.k8s.io")

    assert [text for _, text in notes(text)] == [
        'not judged: a JobSet of "jobset.sigs.k8s.io/v1alpha2" is not known'
    ]


def test_variable_in_the_words_of_a_script_of_a_pod_is_said() -> None:
    script_first = job().replace('["torchrun', '["/opt/entry.sh", "torchrun')
    text = script_first.replace("$(JOB_COMPLETION_INDEX)", "$JOB_COMPLETION_INDEX")

    said = "not judged: entry.sh gets the text $JOB_COMPLETION_INDEX"
    assert (found(text), [reason for _, reason in notes(text)]) == ([], [said])
    assert notes(script_first) == []


def test_many_services_of_one_job_are_judged_in_a_pass() -> None:
    lines = (f"  s{at}: {{command: {line(at)}}}" for at in range(2000))
    report = read_submissions("\n".join(("services:", *lines)).encode(), file="job")

    assert report.report is not None
    assert {each.code for each in report.report.diagnostics} == {"RT322", "RT323"}


def line(at: int) -> str:
    return f"torchrun --nnodes=3000 --node-rank={at} t.py"


def test_variables_that_double_each_other_are_not_known() -> None:
    doubled = (f"{{name: A{at}, value: $(A{at - 1})$(A{at - 1})}}" for at in range(60))
    text = job(env=f"[{', '.join(['{name: A-1, value: xx}', *doubled])}]")

    assert notes(text.replace("=j-0.j", "=$(A59)")) == [
        (8, "not judged: the file does not say the value of --master-addr=...")
    ]


def test_variable_whose_name_is_no_text_ends_in_findings() -> None:
    text = job(env="[{name: [x], value: $(X)}, 3, {name: {a: b}}]")

    assert {code for code, _ in found(text)} <= {"RT331", "RT328"}


@pytest.mark.parametrize("options", ["-c, --", "-l, -c", "-euo, pipefail, -c"])
def test_options_of_a_shell_stand_before_its_text(options: str) -> None:
    text = pytorchjob(f'[bash, {options}, "torchrun --nproc-per-node=8 t.py"]')

    assert found(text) == [("RT320", E), ("RT320", E)]
    assert found(text.replace("node=8", "node=4")) == []
    assert notes(text) == []


def test_loop_in_the_command_of_a_pod_is_said() -> None:
    text = pytorchjob("[bash, -c, 'while true; do torchrun t.py; done']")

    assert [reason for _, reason in notes(text)] == ["not judged: it is in a loop"] * 2


def test_document_with_control_lines_is_not_judged() -> None:
    text = pytorchjob(each='"8"') + "{{- if .Values.more }}\nmore: 1\n{{- end }}\n"

    assert [code for code, _ in found(text)] == ["RT008"]


def test_file_called_sbatch_needs_its_first_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text("#SBATCH -N1 -n2\nsrun python t.py\n")
    done = run("ranktable", "validate", "job.sbatch")

    assert done.status == 1
    assert (
        "job.sbatch:1:1: error[RT331] the first line does not begin with #!" in done.out
    )


# The commands


def test_show_prints_what_would_start(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        pytorchjob("[python, t.py]", each='"1"', worker=2, chips=(1, 1))
    )
    done = run("ranktable", "show", "t.yaml")
    data = json.loads(run("ranktable", "show", "t.yaml", "--format", "json").out)

    assert done.out == (
        "line 2: PyTorchJob train: 3 pods, 3 processes, started by python\n"
        "  pod 0: RANK 0, WORLD_SIZE 3; 1 chip\n"
        "  pod 1: RANK 1, WORLD_SIZE 3; 1 chip\n"
        "  pod 2: RANK 2, WORLD_SIZE 3; 1 chip\n"
    )
    (one,) = data["submissions"]
    assert [each["rank"] for each in one["processes"]] == [0, 1, 2]
    assert (one["num_nodes"], one["num_processes"]) == (3, 3)


@pytest.mark.parametrize(
    ("manifest", "lines"),
    [
        (  # the default of nprocPerNode, auto, changes nothing for a plain program
            pytorchjob("[python, t.py]", each=None, worker=1, chips=(1, 1)),
            [
                "line 2: PyTorchJob train: 2 pods, 2 processes, started by python",
                "  pod 0: RANK 0, WORLD_SIZE 2; 1 chip",
                "  pod 1: RANK 1, WORLD_SIZE 2; 1 chip",
            ],
        ),
        (  # what the image runs is not in the file
            pytorchjob("", each=None, worker=1, chips=(1, 1)),
            ["line 2: PyTorchJob train: 2 pods, an unknown number of processes"],
        ),
        (
            jobset(2, 2, "[python, t.py]"),
            [
                "line 2: JobSet s: 4 pods, 4 processes, started by python",
                "  pod 0: 1 process without RANK (node rank 0); 4 chips",
                "  pod 1: 1 process without RANK (node rank 1); 4 chips",
                "  pod 2: 1 process without RANK (node rank 0); 4 chips",
                "  pod 3: 1 process without RANK (node rank 1); 4 chips",
            ],
        ),
        (
            jobset(1, 1, "[python, t.py]").replace("name: s}", 'name: "a-{{ id }}"}'),
            [
                "line 2: JobSet a-...: 1 pod, 1 process, started by python",
                "  pod 0: 1 process without RANK (node rank 0); 4 chips",
            ],
        ),
    ],
)
def test_show_predicts_the_environment_of_pods(
    run: Run, tmp_path: Path, manifest: str, lines: list[str]
) -> None:
    (tmp_path / "t.yaml").write_text(manifest)

    assert run("ranktable", "show", "t.yaml").out.splitlines() == lines


def test_index_of_a_pod_is_not_called_a_variable_of_slurm() -> None:
    options = "--nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=x:2951"
    words = f"torchrun {options} --node-rank=$(LWS_WORKER_INDEX) t.py".split()
    text = leaderworkerset(2, json.dumps(words))
    report = read_submissions(text.encode(), file="job").report

    (warning,) = report.diagnostics if report is not None else ()
    assert warning.message == (
        "--node-rank=(index of the pod) has no effect with --rdzv-backend=c10d: the "
        "agents are numbered as they join"
    )


def test_table_with_other_ranks_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(
        script("-N2 --ntasks-per-node=4", "srun python t.py")
    )
    run("ranktable", "gen", "--device-id", "[[0..3],[0..3]]", "-o", "eight.json")
    run("ranktable", "gen", "--device-id", "[[0..3]]", "-o", "four.json")
    right = run("ranktable", "validate", "job.sbatch", "--rank-table", "eight.json")
    wrong = run("ranktable", "validate", "job.sbatch", "--rank-table", "four.json")

    assert (right.status, wrong.status) == (0, 1)
    assert (
        "error[RT304] this starts 8 processes on 2 nodes, but the rank table has 4"
        in wrong.out
    )


@pytest.mark.parametrize(
    ("ranks", "volume", "is_wrong"),
    [
        ("[[0..3],[0..3]]", "c", False),
        ("[[0..3]]", "c", True),
        ("[[0..3]]", "other", False),
    ],
)
def test_table_that_the_pods_mount_is_compared(
    ranks: str, volume: str, is_wrong: bool, run: Run, tmp_path: Path
) -> None:
    run("ranktable", "gen", "--device-id", ranks, "-o", "t.json")
    data = json.dumps({"rank_table.json": (tmp_path / "t.json").read_text()})
    mounted = f"{{spec: {{volumes: [{{name: v, configMap: {{name: {volume}}}}}], "
    text = config_map(data) + pytorchjob().replace("{spec: {", mounted)
    (tmp_path / "job.yaml").write_text(text)
    done = run("ranktable", "validate", "job.yaml")

    assert ("RT304" in done.out) is is_wrong
    assert done.status == int(is_wrong)


def test_script_without_a_line_to_judge_has_status_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_text(script("-N2", "./train.sh"))
    done = run("ranktable", "validate", "job.sbatch")

    assert done.status == 2
    assert "job.sbatch:4:1: note[RT332] not judged: what train.sh starts" in done.out


def test_folder_with_scripts_and_manifests_is_judged(run: Run, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.sh").write_text(
        script("-N2", "export MASTER_ADDR=localhost", "srun python t.py")
    )
    (tmp_path / "jobs" / "b.sh").write_text("#!/bin/sh\necho no job\n")
    (tmp_path / "jobs" / "c.yaml").write_text(pytorchjob(each='"8"'))
    done = run("ranktable", "validate", "jobs")

    assert done.status == 1
    assert "jobs/a.sh:4:8: error[RT326]" in done.out
    assert "jobs/c.yaml:" in done.out
    assert "b.sh" not in done.out


@pytest.mark.parametrize("name", ["kubernetes-job", "jobset", "pytorchjob", "trainjob"])
def test_manifests_that_convert_writes_are_sound(
    name: str, run: Run, tmp_path: Path
) -> None:
    run("ranktable", "gen", "--device-id", "[[0..3],[0..3]]", "-o", "t.json")
    made = run(
        "ranktable",
        "convert",
        "t.json",
        "--to",
        name,
        "--image",
        "i",
        "--resource",
        "nvidia.com/gpu",
    )
    (tmp_path / "job.yaml").write_text(made.out)
    done = run("ranktable", "validate", "job.yaml", "--rank-table", "t.json")

    assert (done.status, done.out) == (0, "job.yaml: sound\n")


# Any file


def test_long_script_is_read_to_its_end() -> None:
    lines = [
        f'export V{n}="$V{n - 1} x"; echo $(date) {{ ( "a' + "'\"" for n in range(3000)
    ]
    read = read_submissions(
        script("-N2", *lines, "srun python t.py").encode(), file="job"
    )

    assert read.report is not None


@pytest.mark.parametrize(
    "line",
    [
        "x=" + "$(" * 5000,
        'x="' + '"$(' * 5000,
        "srun bash -c '" + "$((" * 200 + "'",
        "a=xx; " + "a=$a$a; " * 60 + "srun python $a",
        "cat <<EOF" * 50,
        "x=(" * 1000,
        "${" * 3000,
        "`" * 3001,
        "srun\u00a0torchrun --nnodes=$\u2028X",
        "srun python t.py\f\v\x1c",
        "srun -N0 python t.py",
        "srun -N0 -n0 torchrun --nnodes 0 --nproc-per-node 0 t.py",
        "srun accelerate launch --num_machines 0 --num_processes 0 t.py",
    ],
    ids=range(13),
)
def test_hostile_script_ends_in_findings(line: str) -> None:
    read = read_submissions(script("-N2", line).encode(), file="job")

    assert read.report is not None


# The same in other words


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_of_json_in_a_list_has_the_same_defects(name: str) -> None:
    codes, *both = MANIFESTS[name]
    listed = [
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": list(yaml.safe_load_all(text)),
            }
        )
        for text in both
    ]

    assert [found(text) for text in listed] == [codes, []]


@pytest.mark.parametrize(
    ("options", "chips"),
    [
        ("--gres gpu:4", 4),
        ("--gres=gpu:a100:4", 4),
        ("--gres=gpu:2,nvme:1", 2),
        ("--gres=gpu", 1),
        ("--gres=gpu:a100:2,gpu:v100:1", 3),
        ("--gpus-per-node a100:4", 4),
        ("--gpus-per-n=4", 4),
        ("-G 4", 4),
        ("-G4", 4),
        ("--gpus=h100:2", 2),
        ("--gpus-per-task=4", 4),
        ("--gres=npu:8", 8),
        ("--gres=hpu:8", 8),
        ("--gres=gaudi2:4,gpumem:9", 4),
        ("--gres=ascend910b:8", 8),
        ("--gres=neuron:4", None),
        ("--gres=gpu:$C", None),
        ("--gres=nvme:1", None),
        ("-c 8", None),
    ],
)
def test_chips_of_a_node(options: str, chips: int | None) -> None:
    text = f"#!/bin/bash\n#SBATCH -N 1 -n 1 {options}\nsrun python t.py\n"
    (one,) = read_submissions(text.encode(), file="job").submissions

    assert (one.roles[0].chips and one.roles[0].chips.value) == chips


@pytest.mark.parametrize(("chips", "codes"), [(3, ["RT327"]), (4, [])])
def test_fixed_port_is_noted_if_other_jobs_may_have_the_node(
    chips: int, codes: list[str]
) -> None:
    options = f"-N1 -n{chips} --gres=gpu:{chips}"
    text = script(options, "export MASTER_PORT=29500", "srun python t.py")
    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    assert [each.code for each in report.diagnostics] == codes


def test_roles_with_other_variables_of_torchrun_are_judged_apart() -> None:
    pod = (
        "{{spec: {{containers: [{{name: c,"
        " command: [torchrun, --nproc-per-node=8, a.py],"
        " env: [{{name: PET_NNODES, value: '{nodes}'}}],"
        " resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]}}}}"
    )
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n"
        "spec:\n  minAvailable: 2\n  plugins: {pytorch: [--master=m, --worker=w]}\n"
        "  tasks:\n"
        f"  - {{name: m, replicas: 1, template: {pod.format(nodes=2)}}}\n"
        f"  - {{name: w, replicas: 1, template: {pod.format(nodes=3)}}}\n"
    )
    report = read_submissions(text.encode(), file="job.yaml").report

    assert report is not None
    found = {each.code: each.message for each in report.diagnostics}
    assert found["RT322"].endswith("but PET_NNODES=3 expects 3")
