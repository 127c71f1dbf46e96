"""What is submitted, judged as files: wrong ones and their nearest right neighbours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from ranktable.cluster.submissions.detect import is_sbatch
from ranktable.cluster.submissions.read_submissions import read_submissions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

HEAD = 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
C10D = "--rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint $head:29500"
TWO = "-N2 --ntasks-per-node=1 --exclusive"
EIGHT = f"{TWO} --gpus-per-node=8"


def script(options: str, *lines: str) -> str:
    """Return a batch script with these options, one a line."""
    directives = [f"#SBATCH {option}" for option in options.split()]
    return "\n".join(("#!/bin/bash", *directives, "", *lines, ""))


def found(text: str) -> list[tuple[str, str]]:
    """Return code and severity of what is found in a file, without notes."""
    report = read_submissions(text.encode(), file="job").report
    assert report is not None
    return sorted(
        (each.code, each.severity.value)
        for each in report.diagnostics
        if each.severity.value != "note"
    )


def notes(text: str) -> list[tuple[int | None, str]]:
    """Return lines and reasons of what is not judged."""
    report = read_submissions(text.encode(), file="job").report
    assert report is not None
    return [
        (each.location.line, each.message)
        for each in report.diagnostics
        if each.code == "RT332"
    ]


LIST = "CUDA_VISIBLE_DEVICES="
ASCEND = "ASCEND_RT_VISIBLE_DEVICES="
ONE_CHIP = "bash -c 'CUDA_VISIBLE_DEVICES=0 LOCAL_RANK=0 python t.py'"
STEP = "torchrun --nnodes=2 --node_rank={} --master_addr=n1 t.py"
PORT = STEP.format("$SLURM_NODEID").replace("n1", "n1 --master_port {}")
OMPI, OMPI_NODE = "$OMPI_COMM_WORLD_RANK", "$OMPI_COMM_WORLD_NODE_RANK"
IN_TASKS = STEP.format("$SLURM_NODEID").replace("n1", "$head")
MACHINES = "accelerate launch --config_file c --num_machines {} --num_processes {}"
EACH = MACHINES.format(2, 16).replace(" --config_file c", "")
TOLD = f"{EACH} --machine_rank $SLURM_NODEID --main_process_ip $head"
PET = (
    "export PET_NNODES=2 PET_RDZV_BACKEND=c10d PET_RDZV_ID=$SLURM_JOB_ID",
    "export PET_RDZV_ENDPOINT=$head:29500",
)
OF_TASKS = "-N1 --gres=gpu:4 --gpus-per-task=1"
DYNAMIC = "--rdzv-backend c10d"
HOSTS = "export head=$(scontrol show hostnames $SLURM_JOB_NODELIST | "

E, W = "error", "warning"
SCRIPTS = {
    "four agents for two nodes": (
        [("RT322", E)],
        script(
            "-N2 --ntasks-per-node=4 --exclusive",
            HEAD,
            f"srun torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py",
        ),
        script(TWO, HEAD, f"srun torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py"),
    ),
    "agents counted by the job's tasks": (
        [("RT320", E), ("RT322", E)],
        script(
            "--nodes=2 --ntasks=4 --gres=gpu:2 --exclusive",
            HEAD,
            f"srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 {C10D} t.py",
        ),
        script(
            "--nodes=2 --ntasks=4 --gres=gpu:2 --exclusive",
            HEAD,
            "srun -n $SLURM_NNODES --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES "
            f"--nproc_per_node=2 {C10D} t.py",
        ),
    ),
    "fewer agents than expected": (
        [("RT322", E)],
        script(TWO, HEAD, f"srun torchrun --nnodes 3 --nproc-per-node 4 {C10D} t.py"),
        script(TWO, HEAD, f"srun torchrun --nnodes 1:3 --nproc-per-node 4 {C10D} t.py"),
    ),
    "more processes than chips": (
        [("RT320", E)],
        script(
            f"{TWO} --gres=gpu:a100:4",
            HEAD,
            f"srun torchrun --nnodes 2 --nproc_per_node 8 {C10D} t.py",
        ),
        script(
            f"{TWO} --gres=gpu:a100:4",
            HEAD,
            f"srun torchrun --nnodes 2 --nproc_per_node 4 {C10D} t.py",
        ),
    ),
    "a unique beginning of an option": (
        [("RT320", E)],
        script("-N1 --gpus-per-node=4", "srun torchrun --nproc_per 8 t.py"),
        script("-N1 --gpus-per-node=4", "srun torchrun --nproc_per 4 t.py"),
    ),
    "any free port": (
        [("RT327", E)],
        script(
            EIGHT,
            "srun torchrun --nproc-per-node 8 --rdzv_backend c10d "
            "--nnodes 2 --rdzv_endpoint n1:0 t.py",
        ),
        script(
            "-N1 --gpus-per-node=8",
            "srun torchrun --nproc-per-node 8 "
            "--rdzv_backend c10d --rdzv_endpoint localhost:0 t.py",
        ),
    ),
    "a server in every task": (
        [("RT320", W)],
        script(
            f"{TWO} --gpus-per-node=4", "srun vllm serve m --tensor-parallel-size 8"
        ),
        script(
            f"{TWO} --gpus-per-node=4",
            "srun -N1 -n1 vllm serve m --tensor-parallel-size 8",
        ),
    ),
    "a server without the chips": (
        [("RT320", E)],
        script(
            "-N1 --gpus-per-node=4", "vllm serve m --tensor_parallel_size=8 --port 80"
        ),
        script("-N1 --gpus-per-node=8", "python -m sglang.launch_server --tp 8"),
    ),
    "rank counted on every node": (
        [("RT324", E)],
        script(
            "-N2 --ntasks-per-node=4",
            HEAD,
            "srun bash -c 'RANK=$SLURM_LOCALID WORLD_SIZE=8 python t.py'",
        ),
        script(
            "-N1 --ntasks-per-node=4",
            HEAD,
            "srun bash -c 'RANK=$SLURM_LOCALID WORLD_SIZE=4 python t.py'",
        ),
    ),
    "rank of a node in several tasks": (
        [("RT324", E)],
        script(
            "-N2 --ntasks-per-node=4",
            HEAD,
            "srun bash -c 'RANK=$SLURM_NODEID WORLD_SIZE=8 python t.py'",
        ),
        script(
            "-N2 --ntasks-per-node=1",
            HEAD,
            "srun bash -c 'RANK=$SLURM_NODEID WORLD_SIZE=2 python t.py'",
        ),
    ),
    "accelerate without machines": (
        [("RT323", W)],
        script(TWO, HEAD, "srun accelerate launch --num_processes 4 t.py"),
        script(TWO, HEAD, "srun accelerate launch --config_file c.yaml t.py"),
    ),
    "options in an array": (
        [("RT320", E)],
        script("-N1 --gpus-per-node=4", "a=(--nproc_per 8)", "torchrun ${a[@]} t.py"),
        script("-N1 --gpus-per-node=4", "a=(--nproc_per 4)", "torchrun ${a[@]} t.py"),
    ),
    "an agent that env starts": (
        [("RT320", E)],
        script("-N1 --gpus-per-node=4", "srun env -i A=1 torchrun --nproc_per 8 t.py"),
        script("-N1 --gpus-per-node=4", "srun env -i A=1 torchrun --nproc_per 4 t.py"),
    ),
    "fewer processes than chips": (
        [("RT321", W)],
        script(EIGHT, HEAD, f"srun torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py"),
        script(EIGHT, HEAD, f"srun torchrun --nnodes 2 --nproc-per-node 8 {C10D} t.py"),
    ),
    "torchrun without srun": (
        [("RT322", E)],
        script(TWO, HEAD, f"torchrun --nnodes 2 --nproc-per-node 8 {C10D} t.py"),
        script(TWO, HEAD, f"srun torchrun --nnodes 2 --nproc-per-node 8 {C10D} t.py"),
    ),
    "python without srun": (
        [("RT322", W)],
        script(TWO, "python t.py"),
        script(TWO, "srun python t.py"),
    ),
    "node rank of the batch script": (
        [("RT324", E)],
        script(
            TWO,
            HEAD,
            "srun torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr $head "
            "t.py",
        ),
        script(
            TWO,
            f"export {HEAD}",
            "srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr "
            "$head t.py'",
        ),
    ),
    "node rank in double quotes": (
        [("RT324", E)],
        script(
            TWO,
            HEAD,
            'srun bash -c "torchrun --nnodes 2 --node_rank $SLURM_PROCID '
            '--master_addr $head t.py"',
        ),
        script(
            TWO,
            HEAD,
            'srun bash -c "torchrun --nnodes 2 --node_rank \\$SLURM_PROCID '
            '--master_addr $head t.py"',
        ),
    ),
    "node rank with c10d": (
        [("RT328", W)],
        script(
            TWO,
            f"export {HEAD}",
            f"srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID {C10D} t.py'",
        ),
        script(
            TWO,
            f"export {HEAD}",
            "srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr "
            "$head --master_port 29500 t.py'",
        ),
    ),
    "an id that every node draws": (
        [("RT323", E)],
        script(
            TWO,
            f"export {HEAD}",
            "srun bash -c 'torchrun --nnodes 2 --rdzv_id $RANDOM --rdzv_backend c10d "
            "--rdzv_endpoint $head:29500 t.py'",
        ),
        script(
            TWO,
            HEAD,
            "srun torchrun --nnodes 2 --rdzv_id $RANDOM --rdzv_backend c10d "
            "--rdzv_endpoint $head:29500 t.py",
        ),
    ),
    "an address that every node computes": (
        [("RT323", E)],
        script(
            TWO,
            "srun bash -c 'torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint "
            "$(hostname):29500 t.py'",
        ),
        script(
            TWO,
            "srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint "
            "$(hostname):29500 t.py",
        ),
    ),
    "localhost if scontrol is not there": (
        [("RT326", W)],
        script(
            TWO,
            "head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1 "
            "|| echo localhost)",
            f"srun torchrun --nnodes 2 {C10D} t.py",
        ),
        script(TWO, HEAD, f"srun torchrun --nnodes 2 {C10D} t.py"),
    ),
    "standalone on two nodes": (
        [("RT323", E)],
        script(TWO, "srun torchrun --standalone --nnodes 2 --nproc-per-node 8 t.py"),
        script(TWO, HEAD, f"srun torchrun --nnodes 2 --nproc-per-node 8 {C10D} t.py"),
    ),
    "an endpoint without a backend": (
        [("RT324", E)],
        script(TWO, HEAD, "srun torchrun --nnodes 2 --rdzv_endpoint $head:29500 t.py"),
        script(
            TWO,
            HEAD,
            "srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint $head:29500 "
            "t.py",
        ),
    ),
    "no number of nodes": (
        [("RT323", E)],
        script(TWO, "srun torchrun --nproc-per-node 8 t.py"),
        script(
            TWO,
            HEAD,
            f"srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 {C10D} t.py",
        ),
    ),
    "two lines, one after the other": (
        [("RT324", E), ("RT324", E)],
        script(
            TWO,
            HEAD,
            "srun torchrun --nnodes 2 --node_rank 0 --master_addr $head t.py",
            "srun torchrun --nnodes 2 --node_rank 1 --master_addr $head t.py",
        ),
        script(
            TWO,
            HEAD,
            "srun -N1 -n1 torchrun --nnodes 2 --node_rank 0 --master_addr $head t.py &",
            "srun -N1 -n1 torchrun --nnodes 2 --node_rank 1 --master_addr $head t.py &",
            "wait",
        ),
    ),
    "the last node as the master": (
        [("RT326", W)],
        script(TWO, HOSTS + "tail -n1)", f"srun bash -c '{IN_TASKS}'"),
        script(TWO, HOSTS + "tail -n1)", f"srun torchrun --nnodes 2 {C10D} t.py"),
    ),
    "the second node as the master": (
        [("RT326", W)],
        script(
            TWO,
            f"nodes=({HOSTS[12:]}cat))",
            "export head=${nodes[1]}",
            f"srun bash -c '{IN_TASKS}'",
        ),
        script(
            "-N3 --ntasks-per-node=1",
            f"nodes=({HOSTS[12:]}cat))",
            "export head=${nodes[1]}",
            f"srun -N2 -n2 -r1 bash -c '{IN_TASKS}'",
        ),
    ),
    "any node as the master of a program": (
        [("RT326", W)],
        script(TWO, HOSTS + "shuf -n 1)", "export MASTER_ADDR=$head", "srun python t"),
        script(TWO, HOSTS + "head -n 1)", "export MASTER_ADDR=$head", "srun python t"),
    ),
    "more agents than expected on any number of nodes": (
        [("RT322", E)],
        script("-N3-4 --exclusive", HEAD, f"srun torchrun --nnodes 2 {C10D} t.py"),
        script("-N3-4 --exclusive", HEAD, f"srun torchrun --nnodes 3:4 {C10D} t.py"),
    ),
    "perhaps more agents than expected": (
        [("RT322", W)],
        script("-N2-4 --exclusive", HEAD, f"srun torchrun --nnodes 2 {C10D} t.py"),
        script(
            "-N2-4 --exclusive",
            HEAD,
            f"srun torchrun --nnodes $SLURM_NNODES {C10D} t.py",
        ),
    ),
    "more processes than chips of the whole job": (
        [("RT320", E)],
        script(
            f"{TWO} --gpus=h100:4",
            HEAD,
            f"srun torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py",
        ),
        script(
            f"{TWO} --gpus=h100:8",
            HEAD,
            f"srun torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py",
        ),
    ),
    "more processes than chips of the whole step": (
        [("RT320", E)],
        script(
            f"{TWO} --gres=gpu:4",
            HEAD,
            f"srun --gpus=4 torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py",
        ),
        script(
            f"{TWO} --gres=gpu:4",
            HEAD,
            f"srun --gpus=8 torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py",
        ),
    ),
    "a variable that the tasks do not inherit": (
        [("RT328", W)],
        script(TWO, HEAD, f"srun bash -c '{IN_TASKS}'"),
        script(TWO, "set -ea", HEAD, f"srun bash -c '{IN_TASKS}'"),
    ),
    "a variable that the line gives its tasks": (
        [("RT328", W)],
        script(TWO, HEAD, f"srun --export=ALL bash -c '{IN_TASKS}'"),
        script(TWO, HEAD, f"srun --export=ALL,head=$head bash -c '{IN_TASKS}'"),
    ),
    "a variable that the tasks of an mpirun do not inherit": (
        [("RT328", W)],
        script(TWO, HEAD, f"mpirun -np 2 -npernode 1 bash -c '{IN_TASKS}'"),
        script(TWO, HEAD, f"mpirun -np 2 -x head=$head bash -c '{IN_TASKS}'"),
    ),
    "an argument that the tasks do not inherit": (
        [("RT328", W)],
        script("-n2", "LR=1", "srun sh -c 'python t.py --lr $LR'"),
        script("-n2", "if [ $1 ]; then LR=1; fi", "srun sh -c 'python t.py --lr $LR'"),
    ),
    "a variable that --export takes away": (
        [("RT328", E)],
        script(f"{TWO} --export=NONE", f"export {HEAD}", f"srun bash -c '{IN_TASKS}'"),
        script(
            f"{TWO} --export=NONE",
            f"export {HEAD} SLURM_EXPORT_ENV=ALL",
            f"srun bash -c '{IN_TASKS}'",
        ),
    ),
    "a variable that --export of a step does not name": (
        [("RT328", E)],
        script(TWO, f"export {HEAD}", f"srun --export=HOME bash -c '{IN_TASKS}'"),
        script(TWO, f"export {HEAD}", f"srun --export=head bash -c '{IN_TASKS}'"),
    ),
    "a worker in the background and the master behind it": (
        [("RT322", E), ("RT322", E)],
        script(
            TWO,
            f"srun -N1 -n1 {STEP.format(0)}",
            f"srun -N1 -n1 {STEP.format(1)}",
        ),
        script(
            TWO,
            f"srun -N1 -n1 {STEP.format(1)} &",
            f"srun -N1 -n1 {STEP.format(0)}",
        ),
    ),
    "a rank of a step in the background too": (
        [("RT324", E)],
        script(
            TWO,
            f"srun -N1 -n1 {STEP.format(0)} &",
            f"srun -N1 -n1 {STEP.format(0)}",
        ),
        script(
            TWO,
            f"srun -N1 -n1 {STEP.format(1)} | tee log &",
            f"srun -N1 -n1 {STEP.format(0)}",
        ),
    ),
    "fewer agents in the background": (
        [("RT322", E)],
        script(TWO, HEAD, f"srun torchrun --nnodes 3 {C10D} t.py &", "wait"),
        script(TWO, HEAD, f"srun torchrun --nnodes 2 {C10D} t.py &", "wait"),
    ),
    "a script that ends before its step": (
        [("RT328", E)],
        script("-n2", "srun python t.py > log 2>&1 &", "echo started"),
        script("-n2", "srun python t.py > log 2>&1 &", "p=$!", "wait $p"),
    ),
    "a script that ends before its agent": (
        [("RT328", E)],
        script("-N1", "cd x && torchrun --standalone t.py &", "exit 0"),
        script("-N1", "trap end EXIT", "torchrun --standalone t.py &"),
    ),
    "a script that ends before two steps": (
        [("RT328", E)],
        script(
            TWO,
            f"srun -N1 -n1 {STEP.format(0)} &",
            f"srun -N1 -n1 {STEP.format(1)} &",
            "jobs=$SLURM_NNODES",
        ),
        script(
            TWO,
            f"srun -N1 -n1 {STEP.format(0)} &",
            f"srun -N1 -n1 {STEP.format(1)} &",
            "while kill -0 $!; do sleep 9; done",
        ),
    ),
    "a chip of its own for every task": (
        [("RT329", W)],
        script("-N2 --ntasks-per-node=8 --gpus-per-task=1", "srun python t.py"),
        script("-N2 --ntasks-per-node=8 --gpus-per-node=8", "srun python t.py"),
    ),
    "the same, but all chips are shown": (
        [("RT329", W)],
        script("-N1 --ntasks-per-node=4 --gpus-per-task=1", "srun python t.py"),
        script(
            "-N1 --ntasks-per-node=4 --gpus-per-task=1 --tres-bind=gres/gpu:none",
            "srun python t.py",
        ),
    ),
    "agents that see one chip each": (
        [("RT320", E), ("RT323", E)],
        script(
            "-N1 --ntasks-per-node=4 --gpus-per-task=1",
            "srun torchrun --nproc-per-node 4 t.py",
        ),
        script(
            "-N1 --ntasks-per-node=1 --gpus-per-node=4",
            "srun torchrun --nproc-per-node 4 t.py",
        ),
    ),
    "ranks of the batch script for the program": (
        [("RT324", E), ("RT324", W)],
        script(
            "-N2 --ntasks-per-node=2",
            "srun python t.py $SLURM_PROCID --node-rank=$SLURM_NODEID",
        ),
        script(
            "-N2 --ntasks-per-node=1",
            "srun bash -c 'python t.py $SLURM_PROCID' --log out_$SLURM_PROCID",
            "srun -N1 -n1 python t.py --node-rank=$SLURM_NODEID --id $SLURM_LOCALID",
        ),
    ),
    "a port that every node draws": (
        [("RT327", E)],
        script(TWO, f"srun bash -c '{PORT.format('$RANDOM')}'"),
        script(TWO, "export P=$((RANDOM))", f"srun bash -c '{PORT.format('$P')}'"),
    ),
    "a port with the number of the node": (
        [("RT327", E)],
        script(TWO, f"srun bash -c '{PORT.format('$((29500+SLURM_NODEID))')}'"),
        script(TWO, f"srun bash -c '{PORT.format('$((29500+SLURM_NODEID%1))')}'"),
    ),
    "a port that every node shuffles": (
        [("RT327", E)],
        script(TWO, f"srun bash -c '{PORT.format('$(shuf -i 2000-3000 -n 1)')}'"),
        script(
            TWO,
            "export P=$(shuf -i 2000-3000 -n 1)",
            f"srun bash -c '{PORT.format('$P')}'",
        ),
    ),
    "a sum that is a node rank": (
        [("RT324", E)],
        script(TWO, f"srun {STEP.format('$((SLURM_NODEID))')}"),
        script(TWO, f"srun bash -c '{STEP.format('$((SLURM_NODEID))')}'"),
    ),
    "all addresses of the first host": (
        [("RT326", W)],
        script(TWO, "export MASTER_ADDR=$(hostname -I)", "srun python t.py"),
        script(
            TWO,
            "all=($(hostname -I))",
            "export MASTER_ADDR=${all[0]}",
            "srun python t.py",
            "export MASTER_ADDR=$(hostname -I | cut -d' ' -f1)",
            "srun python t.py",
        ),
    ),
    "ranks of mpirun that the batch script expands": (
        [("RT324", E)],
        script(TWO, "mpirun -npernode 1 " + STEP.format(OMPI).replace("t.py", "t")),
        script(TWO, f"mpirun -npernode 1 bash -c '{STEP.format(OMPI)}'"),
    ),
    "an exported rank of mpirun": (
        [("RT324", E)],
        script(TWO, f"export RANK={OMPI}", "mpirun python t.py"),
        script(TWO, f"export RANK={OMPI}", "echo $RANK", "unset RANK", "mpirun t"),
    ),
    "agents of mpirun": (
        [("RT320", E), ("RT322", E)],
        script(
            "-N2 --ntasks-per-node=4 --gres=gpu:4 --exclusive",
            HEAD,
            f"mpirun torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py",
        ),
        script(
            "-N2 --ntasks-per-node=4 --gres=gpu:4 --exclusive",
            HEAD,
            "mpirun -np 2 --map-by ppr:1:node torchrun --nnodes 2 --nproc-per-node 4 "
            f"{C10D} t.py",
        ),
    ),
    "the number of mpirun on each node as a node rank": (
        [("RT324", E)],
        script(TWO, f"mpirun -npernode 1 bash -c '{STEP.format(OMPI_NODE)}'"),
        script(TWO, f"mpirun -npernode 1 bash -c '{STEP.format(OMPI)}'"),
    ),
    "more processes of mpirun on a node than chips": (
        [("RT320", W)],
        script("-N2 -n8 --gres=gpu:4", "mpirun -np 8 -npernode 8 python t.py"),
        script("-N2 -n8 --gres=gpu:4", "mpirun -np 4 -npernode 2 python t.py"),
    ),
    "more slots of a node than chips": (
        [("RT320", W)],
        script("-N2 -n8 --gres=gpu:2", "mpirun ./t"),
        script("-N2 -n8 --gres=gpu:4", "mpirun ./t"),
    ),
    "tasks and chips of another component": (
        [("RT320", E)],
        script(
            "-N1 --gres=gpu:8 hetjob -N2 --gres=gpu:4",
            "srun --het-group=1 torchrun --nproc-per-node 8 --nnodes 2 t.py",
        ).replace("t.py", C10D.replace("$head", "n1") + " t.py"),
        script(
            "-N1 --gres=gpu:8 hetjob -N2 --gres=gpu:4",
            "srun --het-group=0 torchrun --nproc-per-node 8 t.py",
        ),
    ),
    "agents in all components": (
        [("RT322", E)],
        script(
            "-N1 --ntasks-per-node=1 hetjob -N2 --ntasks-per-node=1",
            f"srun --het-group=0,1 {STEP.format('$SLURM_NODEID')}",
        ).replace("--node_rank", "--rdzv_backend c10d --rdzv_endpoint n1 --rdzv_id"),
        script(
            "-N1 --ntasks-per-node=1 hetjob -N1 --ntasks-per-node=1",
            f"srun --het-group=0,1 bash -c '{STEP.format('$SLURM_NODEID')}'",
        ),
    ),
    "a list that Slurm replaces in every step": (
        [("RT328", W)],
        script("-N1 -n4 --gres=gpu:4", f"export {LIST}0", "srun python t.py"),
        script("-N1 -n4 --gres=gpu:4", f"export {LIST}0,1,2,3", "srun python t.py"),
    ),
    "a list that Slurm does not replace": (
        [("RT329", E)],
        script("-N1 -n4 --gres=npu:4", f"export {ASCEND}0", "srun python t.py"),
        script("-N1 -n4 --gres=npu:4", f"export {ASCEND}0,1,2,3", "srun python t.py"),
    ),
    "more processes of a task than its own list shows": (
        [("RT320", E)],
        script(
            "-N1 --gres=gpu:4",
            f"srun bash -c '{LIST}0,1 torchrun --nproc-per-node 4 t.py'",
        ),
        script(
            "-N1 --gres=gpu:4",
            f"srun bash -c '{LIST}3,2,1,0 torchrun --nproc-per-node 4 t.py'",
        ),
    ),
    "a list of one chip beside a local rank": (
        [("RT329", W)],
        script(
            "-N1 -n4 --gres=gpu:4",
            f"srun bash -c 'export LOCAL_RANK=$SLURM_LOCALID {LIST}$LOCAL_RANK; "
            "python t.py'",
        ),
        script(
            "-N1 -n4 --gres=gpu:4",
            f"srun bash -c 'export LOCAL_RANK=0 {LIST}$SLURM_LOCALID; python t.py'",
        ),
    ),
    "a chip that a binding gives several tasks": (
        [("RT329", E)],
        script("-N1 -n4 --gres=gpu:4", "srun --gpu-bind=map_gpu:0,1 python t.py"),
        script("-N1 -n4 --gres=gpu:4", "srun --gpu-bind=mask_gpu:0xf python t.py"),
    ),
    "masks of a chip that several tasks get": (
        [("RT329", E)],
        script("-N1 -n4 --gres=gpu:4", "srun --gpu-bind=mask_gpu:0x1*4 python t.py"),
        script("-N1 -n1 --gres=gpu:4", "srun --gpu-bind=mask_gpu:0x1*4 python t.py"),
    ),
    "four tasks on each chip, and four chips": (
        [("RT329", E)],
        script("-N1 -n4 --gres=gpu:4", "srun --gpu-bind=single:4 python t.py"),
        script("-N1 -n1 --gres=gpu:4", "srun --gpu-bind=single:4 python t.py"),
    ),
    "a map of one chip for each task": (
        [("RT329", W)],
        script("-N1 -n4 --gres=gpu:4", "srun --gpu-bind=map_gpu:3,2,1,0 python t.py"),
        script(
            "-N1 -n4 --gres=gpu:4",
            "srun --gpu-bind=map_gpu:3,2,1,0 bash -c 'LOCAL_RANK=0 python t.py'",
        ),
    ),
    "the chips near the processors": (
        [("RT329", W)],
        script("-N1 -n4 --gres=gpu:4", "srun --accel-bind=gn python t.py"),
        script("-N1 -n4 --gres=gpu:4", "srun --accel-bind=n python t.py"),
    ),
    "the closest chips": (
        [("RT329", W)],
        script("-N1 -n4 --gres=gpu:4", "srun --gpu-bind=closest python t.py"),
        script("-N1 -n1 --gres=gpu:4", "srun --gpu-bind=closest python t.py"),
    ),
    "tasks counted by the chips": (
        [("RT329", W)],
        script("-N2 --gres=gpu:4 --ntasks-per-gpu=1", "srun python t.py"),
        script("-N2 --gres=gpu:1 --ntasks-per-gpu=1", "srun python t.py"),
    ),
    "a step on more nodes than its job": (
        [("RT331", E)],
        script("-N2 -n8 --exclusive", "srun -N4 python t.py"),
        script("-N4 -n8 --exclusive", "srun -N4 python t.py"),
    ),
    "a step on more nodes than tasks": (
        [("RT322", E)],
        script(TWO, HEAD, f"srun -N4 torchrun --nnodes 4 {C10D} t.py"),
        script(TWO, HEAD, f"srun -N4 torchrun --nnodes 2 {C10D} t.py"),
    ),
    "all tasks of a job on one of its nodes": (
        [("RT320", E)],
        script(EIGHT, HEAD, f"srun -N1 torchrun --nnodes 2 --nproc-per 8 {C10D} t.py"),
        script(EIGHT, HEAD, f"srun -N2 torchrun --nnodes 2 --nproc-per 8 {C10D} t.py"),
    ),
    "one node rank for all tasks of a job on one of its nodes": (
        [("RT324", E), ("RT324", E)],
        script(TWO, *(f"srun -N1 {STEP.format(n)}" for n in (0, 1))),
        script(TWO, *(f"srun -N1 -n1 {STEP.format(n)} &" for n in (0, 1)), "wait"),
    ),
    "more tasks than chips on some node": (
        [("RT320", W)],
        script("-N2 --ntasks-per-node=4 --gres=gpu:4", "srun -n 9 python t.py"),
        script("-N2 --ntasks-per-node=4 --gres=gpu:4", "srun -n 8 python t.py"),
    ),
    "more chips for a step than its job has": (
        [("RT329", W), ("RT331", E)],
        script("-N1 -n2 --gres=gpu:2", "srun --gpus-per-task=2 python t.py"),
        script("-N1 -n1 --gres=gpu:2", "srun --gpus-per-task=2 python t.py"),
    ),
    "more chips of a node for a step": (
        [("RT331", E)],
        script("-N2 --gpus-per-node=2", "srun --gres=gpu:4 python t.py"),
        script("-N2 --gpus-per-node=4", "srun --gres=gpu:4 python t.py"),
    ),
    "fewer chips for a step": (
        [("RT320", E)],
        script("-N1 --gres=gpu:4", "srun --gres=gpu:1 torchrun --nproc-per 4 t.py"),
        script("-N1 --gres=gpu:4", "srun --gres=gpu:4 torchrun --nproc-per 4 t.py"),
    ),
    "rank of the batch script": (
        [("RT324", E), ("RT324", E)],
        script(
            "-N2 --ntasks-per-node=4",
            "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID",
            "srun python t.py",
        ),
        script(
            "-N2 --ntasks-per-node=4",
            "srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python t.py'",
        ),
    ),
    "a size that is not the tasks": (
        [("RT325", E)],
        script("-N2 --ntasks-per-node=4", "export WORLD_SIZE=4", "srun python -u t.py"),
        script(
            "-N2 --ntasks-per-node=4",
            "export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))",
            "srun python -u t.py",
        ),
    ),
    "localhost on two nodes": (
        [("RT326", E)],
        script(TWO, "export MASTER_ADDR=127.0.0.1", "srun python t.py"),
        script("-N1 -n2", "export MASTER_ADDR=127.0.0.1", "srun python t.py"),
    ),
    "the node of srun": (
        [("RT326", W)],
        script(TWO, "export MASTER_ADDR=$SLURM_LAUNCH_NODE_IPADDR", "srun python t.py"),
        script(TWO, HEAD, "export MASTER_ADDR=$head", "srun python t.py"),
    ),
    "a list that is cut": (
        [("RT326", W)],
        script(TWO, "export MASTER_ADDR=${SLURM_NODELIST%%,*}", "srun python t.py"),
        script(
            TWO,
            "nodes=( $(scontrol show hostnames $SLURM_NODELIST) )",
            "export MASTER_ADDR=${nodes[0]}",
            "srun python t.py",
        ),
    ),
    "a list that several programs cut": (
        [("RT326", W)],
        script(
            TWO,
            "export MASTER_ADDR=$(echo $SLURM_NODELIST | tr -d '[]' | cut -d, -f1)",
            "srun python t.py",
        ),
        script(
            TWO,
            "export MASTER_ADDR=$(nodeset -e $SLURM_NODELIST | cut -d' ' -f1)",
            "srun python t.py",
        ),
    ),
    "a list from a string that is cut": (
        [("RT326", W)],
        script(
            TWO,
            "export MASTER_ADDR=$(cut -d, -f1 <<< $SLURM_JOB_NODELIST)",
            "srun python t.py",
        ),
        script(
            TWO,
            "export MASTER_ADDR=$(head -n1 hosts)",
            "srun python t.py",
        ),
    ),
    "a list that sed cuts": (
        [("RT326", W)],
        script(
            TWO,
            "export MASTER_ADDR=$(echo $SLURM_JOB_NODELIST | sed 's/,.*//')",
            "srun python t.py",
        ),
        script(
            TWO,
            "nodes=$(scontrol show hostname $SLURM_JOB_NODELIST)",
            "export MASTER_ADDR=$(echo $nodes | awk '{print $1}')",
            "srun python t.py",
        ),
    ),
    "a fixed port in every element of an array": (
        [("RT327", W)],
        script(
            "-N1 -n2 --gres=gpu:2 --array=0-9",
            "export MASTER_PORT=29500",
            "srun python t.py",
        ),
        script(
            "-N1 -n2 --gres=gpu:2 --array=0-9",
            "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))",
            "srun python t.py",
        ),
    ),
    "a port that does not exist": (
        [("RT327", E)],
        script(TWO, "export MASTER_PORT=70000", "srun python t.py"),
        script(TWO, "export MASTER_PORT=60000", "srun python t.py"),
    ),
    "a port without a modulo": (
        [("RT327", W)],
        script(
            TWO, "export MASTER_PORT=$((10000 + $SLURM_JOB_ID))", "srun python t.py"
        ),
        script(
            TWO,
            "export MASTER_PORT=$((10000 + $SLURM_JOB_ID % 20000))",
            "srun python t.py",
        ),
    ),
    "one of two components": (
        [("RT328", W)],
        script("-N1 hetjob -N2", "srun python t.py"),
        script("-N1 hetjob -N2", "srun --het-group=0,1 python t.py"),
    ),
    "mpirun with another number": (
        [("RT322", W)],
        script("-N2 --ntasks-per-node=4", "mpirun -np 4 python t.py"),
        script("-N2 --ntasks-per-node=4", "mpirun python t.py"),
    ),
    "mpirun with a host file": (
        [("RT322", W)],
        script("-N2 --ntasks-per-node=1", "mpirun -np 16 python t.py"),
        script("-N2 --ntasks-per-node=1", "mpirun -np 16 --hostfile h python t.py"),
    ),
    "mpirun with too many, before its program": (
        [("RT322", W)],
        script("-N1 --ntasks-per-node=4", "mpirun --mca btl tcp -np 5 ./t -n 4 -c 1"),
        script("-N1 --ntasks-per-node=4", "mpirun --mca btl tcp -np 4 ./t -n 90 -c 1"),
    ),
    "mpirun with an option of the program": (
        [("RT322", W)],
        script("-N2 --ntasks-per-node=3", "mpirun -np 7 sh -c './t -H x'"),
        script("-N2 --ntasks-per-node=3", "mpirun -x A -np 6 ./t -H x -f y -n 7"),
    ),
    "mpirun with two programs": (
        [("RT322", W)],
        script("-N2 --ntasks-per-node=3", "mpirun -np 4 ./a"),
        script("-N2 --ntasks-per-node=3", "mpirun -np 4 ./a : -np 2 ./b"),
    ),
    "mpirun with hosts by hand": (
        [("RT328", W)],
        script("-N2 --ntasks-per-node=4", "mpirun -H n1,n2 python t.py"),
        script("-N2 --ntasks-per-node=4", "mpirun -np $SLURM_NTASKS python t.py"),
    ),
    "accelerate counts all machines": (
        [("RT325", E)],
        script(
            "-N4 --ntasks-per-node=1",
            f"srun {MACHINES.format(4, 6)} t.py",
        ),
        script(
            "-N4 --ntasks-per-node=1",
            f"srun {MACHINES.format(4, 8)} t.py",
        ),
    ),
    "accelerate for one machine": (
        [("RT321", W)],
        script(EIGHT, f"srun {MACHINES.format(2, 8)} t.py"),
        script(EIGHT, f"srun {MACHINES.format(2, 16)} t.py"),
    ),
    "machine rank of the batch script": (
        [("RT324", E)],
        script(
            TWO,
            f"srun {MACHINES.format(2, 16)} --machine_rank $SLURM_NODEID t.py",
        ),
        script(
            TWO,
            f"srun bash -c '{MACHINES.format(2, 16)} --machine_rank $SLURM_NODEID t'",
        ),
    ),
    "deepspeed in every task": (
        [("RT322", W)],
        script(TWO, "srun deepspeed t.py"),
        script(TWO, "deepspeed t.py"),
    ),
    "options behind the script": (
        [("RT328", E)],
        script("-N1 -n1", "torchrun --standalone t.py --nproc_per_node 8"),
        script("-N1 -n1", "torchrun --nproc_per_node 8 t.py --epochs 3"),
    ),
    "groups that do not divide the processes": (
        [("RT325", E)],
        script(
            EIGHT,
            HEAD,
            f"srun torchrun --nnodes 2 --nproc-per-node 8 {C10D} pretrain.py "
            "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 3",
        ),
        script(
            EIGHT,
            HEAD,
            f"srun torchrun --nnodes 2 --nproc-per-node 8 {C10D} pretrain.py "
            "--tensor-model-parallel-size 4 --pipeline-model-parallel-size=2",
        ),
    ),
    "a sum of expr": (
        [("RT325", E)],
        script(
            "-N2 --ntasks-per-node=4",
            "export WORLD_SIZE=$(expr $SLURM_NNODES \\* 2)",
            "srun python t.py",
        ),
        script(
            "-N2 --ntasks-per-node=4",
            "export WORLD_SIZE=$(expr $SLURM_NNODES \\* 4)",
            "srun python t.py",
        ),
    ),
    "lines that end as on DOS": (
        [("RT331", E)],
        script("-N1 -n2", "srun python t.py").replace("\n", "\r\n"),
        script("-N1 -n2", "srun python t.py"),
    ),
    "one rank for all tasks": (
        [("RT324", E)],
        script("-N1 -n2", "export RANK=0", "srun python t.py"),
        script("-N1 -n1", "export RANK=0", "srun python t.py"),
    ),
    "one rank that every task exports": (
        [("RT324", E)],
        script("-N1 -n2", "srun bash -c 'export RANK=0; python t.py'"),
        script("-N1 -n2", "srun bash -c 'export RANK=$SLURM_PROCID; python t.py'"),
    ),
    "a directive in lower case": (
        [("RT328", W)],
        "#!/bin/bash\n#sbatch --nodes=1\n#SBATCH -n2\nsrun python t.py\n",
        "#!/bin/bash\n##SBATCH --nodes=1\n#SBATCH -n2\nsrun python t.py\n",
    ),
    "a directive below a command": (
        [("RT328", W)],
        "#!/bin/bash\n#SBATCH -n2\ncd work\n#SBATCH --nodes=1\nsrun python t.py\n",
        "#!/bin/bash\n#SBATCH -n2\n\n#SBATCH --nodes=1\ncd work\nsrun python t.py\n",
    ),
    "an environment that the tasks do not get": (
        [("RT328", W)],
        script(
            f"{TWO} --export=NONE", HEAD, "export MASTER_ADDR=$head", "srun python t.py"
        ),
        script(
            f"{TWO} --export=NONE",
            HEAD,
            "export MASTER_ADDR=$head",
            "srun --export=ALL python t.py",
        ),
    ),
    "a variable in a directive": (
        [("RT331", E)],
        script("--nodes=$NODES", "srun python t.py"),
        script("--nodes=2 --output=$USER.out", "srun python t.py"),
    ),
    "fewer tasks than nodes": (
        [("RT328", W)],
        script("--nodes=3 --ntasks=2", "srun python t.py"),
        script("--nodes=3 --ntasks=3", "srun python t.py"),
    ),
    "agents on fewer nodes than asked for": (
        [("RT322", E), ("RT328", W)],
        script("-N4 -n2 --exclusive", HEAD, f"srun torchrun --nnodes 4 {C10D} t.py"),
        script("-N2 -n2 --exclusive", HEAD, f"srun torchrun --nnodes 2 {C10D} t.py"),
    ),
    "tasks of a node by their other name": (
        [("RT320", W)],
        script("-N2 --tasks-per-node=4 --gres=gpu:2", "srun python t.py"),
        script("-N2 --tasks-per-node=2 --gres=gpu:2", "srun python t.py"),
    ),
    "torchrun of Juelich": (
        [("RT322", E)],
        script(TWO, HEAD, f"srun torchrun_jsc --nnodes=3 {C10D} t.py"),
        script(TWO, HEAD, f"srun torchrun_jsc --nnodes=2 {C10D} t.py"),
    ),
    "a program in the place of the script": (
        [("RT336", E)],
        script("-N1", "torchrun --nproc-per-node 2 python3 t.py"),
        script("-N1", "torchrun --nproc-per-node 2 --no-python python3 t.py"),
    ),
    "a shell in the place of the script": (
        [("RT336", E)],
        script("-N1", "srun python -m torch.distributed.run --standalone bash t.sh"),
        script("-N1", "srun python -m torch.distributed.run --standalone ./bash t.sh"),
    ),
    "a shell in the batch script": (
        [("RT320", E)],
        script(
            "-N1 --gres=gpu:2", "sif exec i bash -c 'torchrun --nproc-per-node 4 t'"
        ),
        script(
            "-N1 --gres=gpu:2", "sif exec i bash -c 'torchrun --nproc-per-node 2 t'"
        ),
    ),
    "a wrapper of python": (
        [("RT324", E)],
        script("-N2 -n4", "export RANK=$SLURM_PROCID", "srun ./gpu.sh python t.py"),
        script("-N2 -n4", "srun ./gpu.sh python t.py"),
    ),
    "a wrapper of torchrun with an option": (
        [("RT322", E)],
        script(TWO, HEAD, f"srun ./gpu.sh --bind torchrun --nnodes=4 {C10D} t.py"),
        script(TWO, HEAD, f"srun ./gpu.sh --bind torchrun --nnodes=2 {C10D} t.py"),
    ),
    "a chip for each task": (
        [("RT329", W)],
        script("-N1 -n3 --gpus-per-task=1", "srun python t.py"),
        script(
            "-N1 -n3 --gpus-per-task=1",
            "srun --gres-flags=allow-task-sharing python t.py",
        ),
    ),
    "options that begin a command": (
        [("RT328", E)],
        script(
            "-N1 --gres=gpu:4",
            "torchrun --standalone \\",
            "  --nproc-per-node 4 t.py \\",
            "  # --lr 1 \\",
            "  --epochs 3",
        ),
        script(
            "-N1 --gres=gpu:4",
            "torchrun --standalone \\",
            "  --nproc-per-node 4 t.py \\",
            "  --epochs 3",
            "case $1 in --lr) LR=1 ;; esac",
        ),
    ),
    "options that begin a command of a task": (
        [("RT328", E)],
        script("-N1", "srun bash -c 'torchrun --nproc-per-node 2 \\ ", "--tee 3 t.py'"),
        script("-N1", "srun bash -c 'torchrun --nproc-per-node 2 \\", "--tee 3 t.py'"),
    ),
    "comments in an array": (
        [("RT320", E)],
        script(
            "-N2 --gres=gpu:4 --exclusive",
            HEAD,
            "A=(--nnodes 2 # don't change (two",
            "--nproc_per_node 8)",
            f"srun torchrun ${{A[@]}} {C10D} t.py",
        ),
        script(
            "-N2 --gres=gpu:4 --exclusive",
            HEAD,
            "A=(--nnodes 2 # don't change (two",
            "--nproc_per_node 4)",
            f"srun torchrun ${{A[@]}} {C10D} t.py",
        ),
    ),
    "a program in a folder that is not known": (
        [("RT320", W)],
        script("-N2 --ntasks-per-node=8 --gres=gpu:4", "srun -l $TESTS/perf -g 1"),
        script("-N2 --ntasks-per-node=4 --gres=gpu:4", "srun -l $TESTS/perf -g 1"),
    ),
    "options below a command, several": (
        [("RT328", W)],
        "#!/bin/sh\nset -e\n# it's late\n#SBATCH -N 3\n#SBATCH -n 6\npython t.py\n",
        "#!/bin/sh\n#SBATCH -N 3\n#SBATCH -n 6\nset -e\nsrun python t.py\n",
    ),
    "options below a command, and those of another script": (
        [("RT328", W)],
        script(
            "-N1", "python t.py", "#SBATCH -n 2", "cat > j <<E", "#SBATCH -n 3", "E"
        ),
        script("-N1", "python t.py", "cat > j <<E", "#SBATCH -n 3", "E"),
    ),
    "a line below a word that a command reads": (
        [("RT320", E)],
        script("-N1 --gres=gpu:4", "read a <<< $x", "torchrun --nproc-per-node 8 t.py"),
        script("-N1 --gres=gpu:4", "read a <<< $x", "torchrun --nproc-per-node 4 t.py"),
    ),
    "no number of tasks": (
        [("RT331", E)],
        script("-N1 --ntasks-per-node=", "srun python t.py"),
        script("-N1 --ntasks-per-node=1", "srun python t.py"),
    ),
    "no tasks": (
        [("RT331", E)],
        script("--ntasks=0", "srun python t.py"),
        script("--ntasks=1 --time=0", "srun python t.py"),
    ),
    "a word that belongs to no option": (
        [("RT331", E)],
        "#!/bin/bash\n#SBATCH -N 2 --exclusive user\nsrun python t.py\n",
        (
            "#!/bin/bash\n#SBATCH --ignore-pbs -N 2 --exclusive=user # user\n"
            "#SBATCH -q debug --wait-all-nodes 1\n#SBATCH --time={{ time }}\n"
            "srun -q debug -N2 python t.py\n"
        ),
    ),
    "a service level before the size of a step": (
        [("RT322", E)],
        script(TWO, HEAD, f"srun -q debug -n1 -N1 torchrun --nnodes 2 {C10D} t.py"),
        script(TWO, HEAD, f"srun -q debug -n2 -N2 torchrun --nnodes 2 {C10D} t.py"),
    ),
    "a program as the script of accelerate": (
        [("RT336", E)],
        script("-N1", "accelerate launch --multi_gpu --config_file c python t.py"),
        script("-N1", "accelerate launch --multi_gpu --no_python python t.py"),
    ),
    "a program as the script of deepspeed": (
        [("RT336", E)],
        script("-N1", "deepspeed --no_ssh --hostfile=h python3 t.py"),
        script("-N1", "deepspeed --no_ssh --hostfile h t.py python"),
    ),
    "more processes than a list shows": (
        [("RT320", E), ("RT329", W)],
        script(
            "-N1 --gres=gpu:4",
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=4 t.py",
        ),
        script(
            "-N1 --gres=gpu:4",
            "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 t.py &",
            "CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 u.py &",
            "wait",
        ),
    ),
    "more processes of deepspeed than chips": (
        [("RT320", E)],
        script("-N2 --gres=gpu:4", "deepspeed --num_gpus=8 --num_nodes 2 t.py"),
        script("-N2 --gres=gpu:4", "deepspeed --num_gpus=4 --num_nodes 2 t.py"),
    ),
    "slots of deepspeed that do not exist": (
        [("RT320", E)],
        script("-N1 --gres=gpu:2", "deepspeed --include localhost:4,5 t.py"),
        script("-N1 --gres=gpu:2", "deepspeed --include localhost:0,1 t.py"),
    ),
    "the runner of deepspeed": (
        [("RT320", E)],
        script(
            "-N1 --gres=gpu:2", "python -m deepspeed.launcher.runner --num_gpus 4 t"
        ),
        script(
            "-N1 --gres=gpu:2", "python -m deepspeed.launcher.runner --num_gpus 2 t"
        ),
    ),
    "torchrun by its path": (
        [("RT320", E)],
        script("-N1 --gres=gpu:2", "python $(which torchrun) --nproc_per_node 4 t.py"),
        script("-N1 --gres=gpu:2", "python `which torchrun` --nproc_per_node 2 t.py"),
    ),
    "one chip for all tasks of a node": (
        [("RT329", E)],
        script(
            EIGHT.replace("=1", "=8"), "srun bash -c 'CUDA_VISIBLE_DEVICES=0 python t'"
        ),
        script(
            EIGHT.replace("=1", "=8"),
            "srun bash -c 'CUDA_VISIBLE_DEVICES=$SLURM_LOCALID python t.py'",
        ),
    ),
    "instances of MIG": (
        [("RT329", W)],
        script("-N1 --gres=gpu:a100_1g.5gb:4", "torchrun --nproc_per_node=4 t.py"),
        script("-N1 --gres=gpu:a100_1g.5gb:1", "torchrun --nproc_per_node=1 t.py"),
    ),
    "chips as other resources": (
        [("RT320", E)],
        script("-N1 --tres-per-node=gres/gpu=4", "torchrun --nproc_per_node=8 t.py"),
        script("-N1 --tres-per-node=gres/gpu:4", "torchrun --nproc_per_node=4 t.py"),
    ),
    "chips of tasks on an unknown number of nodes": (
        [("RT329", W)],
        script("--ntasks=8 --tres-per-task=gres/gpu:1", "srun python t.py"),
        script("--ntasks=1 --tres-per-task=gres/gpu:1", "srun python t.py"),
    ),
    "a binding of one chip to each task": (
        [("RT320", E)],
        script(
            "-N1 --gres=gpu:8",
            "srun --gpu-bind=single:1 torchrun --nproc_per_node=8 t.py",
        ),
        script(
            "-N1 --gres=gpu:8", "srun --gpu-bind=none torchrun --nproc_per_node=8 t"
        ),
    ),
    "tasks by chips": (
        [("RT329", W)],
        script("-N1 -n4 --gpus=4 --ntasks-per-gpu=1", "srun python t.py"),
        script("-N1 -n4 --gpus=4", "srun python t.py"),
    ),
    "a node rank of the batch script for any program": (
        [("RT324", E)],
        script(TWO, "NODE_RANK=$SLURM_NODEID srun swift sft --model m", "srun -N2 a"),
        script(TWO, "srun bash -c 'NODE_RANK=$SLURM_NODEID swift sft'", "srun -N2 a"),
    ),
    "a node rank of one node that is not 0": (
        [("RT324", E)],
        script("-N1 --exclusive", "torchrun --nnodes=1 --node_rank=3 t.py"),
        script("-N1 --exclusive", "torchrun --nnodes=1 --node_rank=0 t.py"),
    ),
    "node ranks from 1": (
        [("RT324", E)],
        script(
            "-N2 --ntasks-per-node=1",
            *(f"srun -N1 -n1 {STEP.format(n)} &" for n in (1, 2)),
            "wait",
        ),
        script(
            "-N2 --ntasks-per-node=1",
            *(f"srun -N1 -n1 {STEP.format(n)} &" for n in (1, 0)),
            "wait",
        ),
    ),
    "a node rank that is a name": (
        [("RT324", E)],
        script(TWO, f"srun bash -c '{STEP.format('$SLURMD_NODENAME')}'"),
        script(TWO, f"srun bash -c '{STEP.format('$SLURM_NODEID')}'"),
    ),
    "a list that the batch script expands": (
        [("RT329", E)],
        script("-N1 -n4 --gres=gpu:4", f'srun bash -c "{LIST}$SLURM_LOCALID python t"'),
        script("-N1 -n4 --gres=gpu:4", f"srun bash -c '{LIST}$SLURM_LOCALID python t'"),
    ),
    "the torchrun of a site as a module": (
        [("RT320", E)],
        script("-N1 --gres=gpu:4", "python -m torchrun_jsc --nproc_per_node=8 t.py"),
        script("-N1 --gres=gpu:4", "python -m torchrun_jsc --nproc_per_node=gpu t.py"),
    ),
    "a list of one chip, without a binding": (
        [("RT329", E)],
        script("-N1 -n4 --gres=gpu:4", f"srun {ONE_CHIP}"),
        script("-N1 -n4 --gres=gpu:4", f"srun --gpu-bind=single:1 {ONE_CHIP}"),
    ),
    "steps one after the other": (
        [("RT322", E)],
        script("-N2 --ntasks-per-node=1", f"srun -N1 -n1 {STEP.format(0)}"),
        script("-N2 --ntasks-per-node=1", f"srun -N2 -n2 {STEP.format('')}")
        .replace("--node_rank=", "--rdzv_backend c10d --rdzv_endpoint n1")
        .replace("--master_addr=n1", ""),
    ),
    "steps beside each other with one node rank": (
        [("RT324", E)],
        script(
            "-N2 --ntasks-per-node=1",
            *(f"srun -N1 -n1 {STEP.format(0)} &" for _ in "ab"),
            "wait",
        ),
        script(
            "-N2 --ntasks-per-node=1",
            *(f"srun -N1 -n1 {STEP.format(n)} &" for n in range(2)),
            "wait",
        ),
    ),
    "agents without a script": (
        [("RT336", E)],
        script(TWO, HEAD, f"srun torchrun --nnodes 2 --shutdown-timeout 9 {C10D}"),
        script(TWO, HEAD, f"srun torchrun --nnodes 2 --shutdown-timeout 9 {C10D} t.py"),
    ),
    "an agent that may have a script": (
        [("RT336", E)],
        script("-N1", "srun torchrun -m"),
        script(
            "-N1 --gpus-per-node=4",
            "pkill -f torchrun",
            "command -v torchrun || exit 1",
            "srun which python torchrun",
            "srun ./run.sh torchrun",
            "srun torchrun $ARGUMENTS",
            "srun torchrun -h",
        ),
    ),
    "torchrun as a file of the working folder": (
        [("RT336", E)],
        script("-N1", "srun python -u torchrun --nproc-per-node 2 t.py"),
        script(
            "-N1",
            "srun python launch.py torchrun t.py",
            "srun uv run --python .venv/bin/python torchrun t.py",
        ),
    ),
    "a rendezvous that torch does not have": (
        [("RT331", W)],
        script(
            TWO, HEAD, f"srun torchrun --nnodes 2 {C10D} t.py".replace("c10d", "c10")
        ),
        script(
            TWO, HEAD, f"srun torchrun --nnodes 2 {C10D} t.py".replace("c10d", "etcd")
        ),
    ),
    "an option that torchrun does not have": (
        [("RT331", W)],
        script("-N1", "torchrun --nporc-per-node 4 t.py"),
        script("-N1", "torchrun --$OPTION --nproc_per 4 t.py"),
    ),
    "agents whose options are in variables": (
        [("RT320", E)],
        script(EIGHT, HEAD, *PET, "export PET_NPROC_PER_NODE=9", "srun torchrun t.py"),
        script(EIGHT, HEAD, *PET, "PET_NPROC_PER_NODE=8 srun torchrun t.py"),
    ),
    "numbers that torchrun does not take": (
        [("RT331", W), ("RT331", W), ("RT331", W), ("RT331", W)],
        script(
            "-N1",
            *(f"torchrun --nproc-per-node={text} t.py" for text in ("all", "-1")),
            *(f"torchrun --nnodes {text} t.py" for text in ("two", "1:1:1")),
        ),
        script(
            "-N1",
            *(f"torchrun --nproc-per-node={text} t.py" for text in ("auto", "npu")),
            *(f"torchrun --nnodes {text} t.py" for text in ("NODES", "1:2")),
        ),
    ),
    "the address of another rendezvous": (
        [("RT323", E)],
        script(
            TWO, HEAD, f"srun {IN_TASKS}".replace("--node_rank=$SLURM_NODEID", DYNAMIC)
        ),
        script(TWO, HEAD, f"srun torchrun --nnodes 2 --master-addr n1 {C10D} t.py"),
    ),
    "agents of no process": (
        [("RT331", E)],
        script("-N1 --gpus-per-node=4", "srun torchrun --nproc-per-node 0 t.py"),
        script("-N1 --gpus-per-node=4", "srun torchrun --nproc-per-node 4 t.py"),
    ),
    "chips of a task without a number of tasks": (
        [("RT331", E)],
        script("-N1-2 --gpus-per-task=1", "srun python t.py"),
        script("-N2 --gpus-per-task=1", "srun python t.py"),
    ),
    "other chips than those of all tasks": (
        [("RT331", E)],
        script("-n2 --gpus=4 --gpus-per-task=1", "srun -n1 python t.py"),
        script("-n2 --gpus=4 --gpus-per-task=2", "srun -n1 python t.py"),
    ),
    "fewer chips of a type for each task": (
        [("RT320", E)],
        script("-n1 --gpus-per-task=a100:1", "srun torchrun --nproc-per-node 2 t.py"),
        script("-n1 --gpus-per-task=a100:2", "srun torchrun --nproc-per-node 2 t.py"),
    ),
    "chips of the job that are not those of its nodes": (
        [("RT331", E)],
        script("-N2 --gpus=4 --gpus-per-node=4", "srun torchrun $OPTIONS"),
        script("-N2 --gpus=8 --gpus-per-node=4", "srun torchrun $OPTIONS"),
    ),
    "chips of a node that are not those of its tasks": (
        [("RT331", E)],
        script(f"{OF_TASKS} --ntasks-per-node=2", "srun -n1 python t.py"),
        script(f"{OF_TASKS} --ntasks-per-node=4", "srun -n1 python t.py"),
    ),
    "chips of sockets without their number": (
        [("RT331", E)],
        script("-N1 --gpus-per-socket=2", "srun python t.py"),
        script("-N1 --gpus-per-socket=2 --sockets-per-node=2", "srun python t.py"),
    ),
    "accelerate without the rank of its machine": (
        [("RT324", W)],
        script(EIGHT, HEAD, f"srun {EACH} --main_process_ip $head t.py"),
        script(
            EIGHT,
            f"export {HEAD}",
            f"srun bash -c '{TOLD} t.py'",
            f"srun {EACH} --main_process_ip $head --rdzv_backend c10d t.py",
            "srun accelerate launch $OPTIONS --num_machines 2 t.py",
            f"srun {EACH} --cpu --main_process_ip $head t.py",
        ),
    ),
    "accelerate without the address of a machine": (
        [("RT326", W)],
        script(EIGHT, f"srun bash -c '{EACH} --machine_rank $SLURM_NODEID t.py'"),
        script(
            EIGHT,
            f"{EACH} --use_deepspeed --deepspeed_hostfile h --machine_rank 0 t.py",
        ),
    ),
    "accelerate without the number of processes": (
        [("RT321", W)],
        script(
            TWO,
            f"export {HEAD}",
            f"srun bash -c '{TOLD.replace(' --num_processes 16', '')} t.py'",
        ),
        script(TWO, f"export {HEAD}", f"srun bash -c '{TOLD} t.py'"),
    ),
    "deepspeed of accelerate on every machine": (
        [("RT323", W)],
        script(TWO, f"export {HEAD}", f"srun bash -c '{TOLD} --use_deepspeed t.py'"),
        script(
            TWO,
            f"export {HEAD}",
            f"srun bash -c '{TOLD} --use_deepspeed "
            "--deepspeed_multinode_launcher standard t.py'",
        ),
    ),
    "fewer chips of accelerate than processes": (
        [("RT320", E)],
        script(EIGHT, f"export {HEAD}", f"srun bash -c '{TOLD} --gpu_ids 0,1 t.py'"),
        script(EIGHT, f"export {HEAD}", f"srun bash -c '{TOLD} --gpu_ids all t.py'"),
    ),
    "a chip of accelerate that does not exist": (
        [("RT320", E)],
        script("-N1 --gres=gpu:2", "accelerate launch --gpu_ids=1,2 t.py"),
        script("-N1 --gres=gpu:2", "accelerate launch --gpu_ids=0,1 t.py"),
    ),
    "deepspeed with an address for each node": (
        [("RT326", E)],
        script("-N2", "deepspeed --hostfile h --num_nodes 2 --master_addr 127.0.0.1 t"),
        script(
            "-N2",
            "deepspeed --hostfile h --num_nodes 2 --master_addr $(hostname) t",
            "deepspeed --hostfile h --num_nodes 1 --master_addr localhost t",
        ),
    ),
    "chips asked for twice": (
        [("RT331", W)],
        script("-N1 -n1 --gres=gpu:1 --gpus-per-node=1", "python t.py"),
        script("-N1 -n1 --gres=lustre --gpus-per-node=1", "python t.py"),
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_wrong_script_has_the_defect(name: str) -> None:
    codes, wrong, _ = SCRIPTS[name]

    assert found(wrong) == codes


@pytest.mark.parametrize("name", SCRIPTS)
def test_right_script_is_silent(name: str) -> None:
    right = SCRIPTS[name][2]

    assert found(right) == []


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


def of_gang(pods: int) -> str:
    return f"runPolicy: {{schedulingPolicy: {{minAvailable: {pods}}}}}"


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


def of_label(index: str) -> str:
    """Return a variable R that has the value of a label of the pod."""
    path = f"metadata.labels['{index}']"
    return f'{{name: R, valueFrom: {{fieldRef: {{fieldPath: "{path}"}}}}}}'


def leaderworkerset(size: int, command: str, leader: int | None = None) -> str:
    first = "" if leader is None else f"    leaderTemplate: {pod(command, leader)}\n"
    return (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n"
        "metadata: {name: l}\nspec:\n  replicas: 3\n  leaderWorkerTemplate:\n"
        f"    size: {size}\n{first}    workerTemplate: {pod(command)}\n"
    )


def led(size: int, leader: str, worker: str) -> str:
    """Return a LeaderWorkerSet whose leader runs another torchrun than its workers."""
    options = f"--nnodes {size} --nproc-per-node 4"
    first, others = (
        pod(json.dumps(f"torchrun {options} {more} t.py".split()))
        for more in (leader, worker)
    )
    return (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n"
        "metadata: {name: l}\nspec:\n  leaderWorkerTemplate:\n"
        f"    size: {size}\n    leaderTemplate: {first}\n"
        f"    workerTemplate: {others}\n"
    )


LEADER = "--master-addr $(LWS_LEADER_ADDRESS)"
COUNTED = "--node-rank $(LWS_WORKER_INDEX)"


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


def two_jobs(nodes: int, rank: str) -> str:
    """Return a Job for the first node, and one for the second."""
    lines = (agent(nodes, "0", "head-0.t"), agent(nodes, rank, "head-0.t"))
    return "---\n".join(
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n"
        f"  completionMode: Indexed\n  template: {pod(line)}\n"
        for name, line in zip(("head", "work"), lines, strict=True)
    ).replace("{spec: {", "{spec: {subdomain: t, ")


def service(selector: str = "job-name: j", address: str = "None") -> str:
    return (
        "apiVersion: v1\nkind: Service\nmetadata: {name: j}\nspec:\n"
        f"  clusterIP: {address}\n  selector: {{{selector}}}\n---\n"
    )


LWS_AGENT = (
    '["sh", "-c", "torchrun --nnodes=%s --node-rank=$LWS_WORKER_INDEX '
    '--nproc-per-node=4 --master-addr=$LWS_LEADER_ADDRESS --master-port=29500 t.py"]'
)
NPU = "limits: {huawei.com/Ascend910: 8, cpu: 64}"
NPUS = f"{NPU}, requests: {{huawei.com/Ascend910: 8, cpu: 64}}"
GPUS = "limits: {nvidia.com/gpu: 8}, requests: {nvidia.com/gpu: 8}"
RENDEZVOUS = (
    "[torchrun, --nnodes=3, --rdzv-backend=c10d, --rdzv-endpoint=train-worker-0:29400, "
    "t.py]"
)


def statefulset(replicas: int, command: str, head: str = service("app: a")) -> str:
    template = pod(command).replace(
        "{spec: {", "{metadata: {labels: {app: a}}, spec: {"
    )
    index = of_label("apps.kubernetes.io/pod-index")
    template = template.replace("image: i,", f"image: i, env: [{index}],")
    return (
        f"{head}apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: j}}\nspec:\n"
        f"  replicas: {replicas}\n  serviceName: j\n  template: {template}\n"
    )


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


def of_resource(name: str, count: int, each: int, more: str = "") -> str:
    limits = f"{{{name}: {count}{more}}}"
    text = pytorchjob(each=f'"{each}"')
    return text.replace("{nvidia.com/gpu: 4}", limits)


def runtime_of(container: str) -> str:
    return (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\n"
        "metadata: {name: r}\nspec:\n  mlPolicy: {torch: {}}\n  template: {spec: "
        "{replicatedJobs: [{name: node, template: {spec: {template: "
        f"{pod('', None, name=container)}}}}}}}]}}}}\n---\n"
    )


ONE_GPU = (
    "numProcPerNode: 1, resourcesPerNode: {limits: {nvidia.com/gpu: 1}, "
    "requests: {nvidia.com/gpu: 1}}"
)


def volcano_tasks(rank: str) -> str:
    """Return a job without the plugin pytorch, with a master and a worker."""
    text = volcano(("master", 1), ("worker", 1), command="AGENT", chips=4)
    text = text.replace(", pytorch: []", ", env: []")
    for each in ("0", rank):
        text = text.replace("AGENT", agent(2, each, "v-master-0.v"), 1)
    return text


def one_task(options: str, before: str = "") -> str:
    """Return a job of one task, whose four pods start torchrun in a shell."""
    agent = f"{before}torchrun --nnodes=4 --nproc-per-node=4 {options} t.py"
    text = volcano(("w", 4), command=json.dumps(["sh", "-c", agent]), chips=4)
    return text.replace("svc: [], pytorch: []", "env: [], svc: []")


def of_shell(nodes: int, master: str) -> str:
    """Return an agent with the index of its pod, in a shell."""
    options = f"--nnodes={nodes} --nproc-per-node=4 --master-addr={master}"
    rank = "--node-rank=$JOB_COMPLETION_INDEX"
    return json.dumps(["sh", "-c", f"torchrun {options} {rank} t.py"])


VC_RANK = "--node-rank=$VC_TASK_INDEX"
ADDRESS = "--master_addr="
RDZV = "--rdzv_backend=c10d, --rdzv_endpoint="


def driver_and_workers(nodes: int, more: str = "") -> str:
    """Return a JobSet with a Job of one pod and one of four."""
    more = more or "--rdzv-backend=c10d --rdzv-endpoint=s-v-0-0.s:29500"
    words = f"torchrun --nnodes={nodes} --nproc-per-node=4 {more} t.py".split()
    command, env = json.dumps(words), of_label("jobset.sigs.k8s.io/job-global-index")
    text = jobset(1, 4, command) + jobset(1, 1, command).split("Jobs:\n")[1].replace(
        "name: w", "name: v"
    )
    return text.replace("name: pytorch,", f"name: c, env: [{env}],")


def served(size: int, leader: str, worker: str) -> str:
    """Return a LeaderWorkerSet that serves a model, with four chips a pod."""
    first, others = (pod(json.dumps(["sh", "-c", line])) for line in (leader, worker))
    return (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n"
        "metadata: {name: l}\nspec:\n  leaderWorkerTemplate:\n"
        f"    size: {size}\n    leaderTemplate: {first}\n"
        f"    workerTemplate: {others}\n"
    )


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


ALONE = compose("", "").replace("--nnodes=2", "").replace("--node-rank=1", "")
SGLANG = (
    "python3 -m sglang.launch_server --model-path m --tp 8 --dist-init-addr "
    "$(LWS_LEADER_ADDRESS):20000 --nnodes {} --node-rank {}"
)
VLLM = "vllm serve m --tensor-parallel-size=8 --nnodes 2 --master-addr l-0.l"


def leader_first(address: str, nodes: int) -> str:
    """Return a JobSet with a leader and a worker, of one pod each."""
    lines = (agent(nodes, "0", address), agent(nodes, "1", "s-v-0-0.s"))
    first, second = (jobset(1, 1, line) for line in lines)
    return first.replace("name: w", "name: v") + second.split("Jobs:\n")[1]


COUNTING, GLOBAL = "--node-rank=$(JOB_COMPLETION_INDEX)", "--node-rank=$(R)"
MASK = "export CUDA_VISIBLE_DEVICES="
HAMI = ", nvidia.com/gpumem: 8000, nvidia.com/gpucores: 30"

MANIFESTS = {
    "instances of MIG in pods": (
        [("RT329", W), ("RT329", W)],
        of_resource("nvidia.com/mig-3g.40gb", 2, 2),
        of_resource("nvidia.com/mig-3g.40gb", 1, 1),
    ),
    "a TrainJob with python": (
        [("RT333", W)],
        trainjob(f"{{numNodes: 2, command: [python, t.py], {ONE_GPU}}}"),
        trainjob(f"{{numNodes: 1, command: [python, t.py], {ONE_GPU}}}"),
    ),
    "a runtime without a container of the trainer": (
        [("RT333", W)],
        runtime_of("trainer") + trainjob(f"{{numNodes: 2, {ONE_GPU}}}", "r"),
        runtime_of("node") + trainjob(f"{{numNodes: 2, {ONE_GPU}}}", "r"),
    ),
    "a variable that no shell reads": (
        [("RT328", E), ("RT328", E)],
        pytorchjob('[torchrun, "--master_addr=${MASTER_ADDR}", t.py]'),
        pytorchjob(
            '[torchrun, "--master_addr=$(MASTER_ADDR)", t.py, "a=${oc.env:B}", "$C"]'
        ),
    ),
    "a variable that the container does not have": (
        [("RT328", E)],
        job().replace("j-0.j", "$(MASTER)"),
        job(env="[{name: MASTER, value: j-0.j}]").replace("=j-0.j", "=$(MASTER)"),
    ),
    "a variable in the value of a variable": (
        [("RT328", E)],
        job(env="[{name: M, value: j-0.j}, {name: A, value: $M}]").replace(
            "=j-0.j", "=$(A)"
        ),
        job(env="[{name: M, value: j-0.j}, {name: A, value: $(M)}]").replace(
            "=j-0.j", "=$(A)"
        ),
    ),
    "a variable that is set below": (
        [("RT328", E)],
        job(env="[{name: A, value: $(M)}, {name: M, value: j-0.j}]").replace(
            "=j-0.j", "=$(A)"
        ),
        job(env="[{name: A, value: $(M)}], envFrom: [{secretRef: {name: s}}]").replace(
            "=j-0.j", "=$(A)"
        ),
    ),
    "a value that is no option": (
        [("RT328", W)],
        job(env="[{name: OUT, value: /data/$(RUN)}]"),
        job(env="[{name: OUT, value: /data/$(A_SERVICE_HOST)/$RUN/$$(RUN)}]"),
    ),
    "a text that is meant to stay": (
        [("RT328", W)],
        job(env="[{name: OUT, value: $(RUN)/$$(RUNS)}]"),
        job(env="[{name: OUT, value: $$(RUN)}]"),
    ),
    "a rank in a variable for torchrun": (
        [("RT328", E)],
        job(env="[{name: PET_LOG_DIR, value: $X}]"),
        job(env="[{name: LOG_DIR, value: $X}]"),
    ),
    "an argument that no shell reads": (
        [("RT328", W), ("RT328", W)],
        pytorchjob("[python, t.py, --rank=$RANK]", each='"1"', chips=(1, 1)),
        pytorchjob("[python, t.py, --rank=$(RANK), $A]", each='"1"', chips=(1, 1)),
    ),
    "a master that a PyTorchJob does not have": (
        [("RT334", E), ("RT334", E)],
        pytorchjob(f"[torchrun, {ADDRESS}train-master-1, t.py]"),
        pytorchjob(f"[torchrun, {ADDRESS}train-master-0.default.svc, t.py]"),
    ),
    "the master of another PyTorchJob": (
        [("RT334", E), ("RT334", E)],
        pytorchjob(f"[torchrun, {ADDRESS}other-master-0, t.py]"),
        pytorchjob(f"[torchrun, {ADDRESS}other, t.py]"),
    ),
    "a store beside node 0": (
        [("RT326", E), ("RT326", E)],
        pytorchjob(f"[torchrun, {ADDRESS}train-worker-0, t.py]"),
        pytorchjob(f"[torchrun, {RDZV}train-worker-0:29400, t.py]"),
    ),
    "a store beside node 0 of a Job": (
        [("RT326", E)],
        job().replace("=j-0.j", "=j-1.j"),
        job().replace("=j-0.j", "=j-0.j.default.svc.cluster.local"),
    ),
    "a pod above the last one": (
        [("RT334", E)],
        job().replace("=j-0.j", "=j-2.j"),
        job().replace("=j-0.j", "=gpu-2"),
    ),
    "two Jobs of one job": (
        [("RT322", E), ("RT322", E)],
        two_jobs(3, "1"),
        two_jobs(2, "1"),
    ),
    "two Jobs with one node rank": (
        [("RT324", E)],
        two_jobs(2, "0"),
        two_jobs(2, "1").replace("head-0.t", "head-0.t.svc"),
    ),
    "a pod of another cluster": (
        [("RT334", E)],
        job().replace("=j-0.j", "=gpu-2.k"),
        job().replace("=j-0.j", "=gpu-2.example.com"),
    ),
    "a name inside of a pod": (
        [("RT334", W)],
        job().replace("=j-0.j", "=j-0"),
        job(service=service().replace("{name: j}", "{name: j-0}")).replace(
            "=j-0.j", "=j-0"
        ),
    ),
    "the master of a program in a JobSet": (
        [("RT334", E)],
        jobset(1, 2, "[python, t.py]").replace(
            "name: pytorch,", "name: x, env: [{name: MASTER_ADDR, value: s-v-0-0.s}],"
        ),
        jobset(1, 2, "[python, t.py]").replace(
            "name: pytorch,", "name: x, env: [{name: MASTER_ADDR, value: s-w-0-0.s}],"
        ),
    ),
    "an index of Volcano without its plugin": (
        [("RT333", E)],
        one_task(f"{VC_RANK} --master-addr=v-w-0.v").replace("env: [], ", ""),
        one_task(f"{VC_RANK} --master-addr=v-w-0.v"),
    ),
    "an index of Volcano in a variable": (
        [("RT333", E)],
        one_task("--node-rank $R --master-addr=v-w-0.v", "R=$VC_TASK_INDEX; ").replace(
            "env: [], ", ""
        ),
        one_task(
            "--node-rank $R --master-addr=v-w-0.v", "R=${VC_TASK_INDEX:-$RANK}; "
        ).replace("env: [], ", ""),
    ),
    "an index of Volcano that Kubernetes does not know": (
        [("RT328", E), ("RT328", E)],
        volcano_tasks("$(VC_TASK_INDEX)")
        .replace(", env: []", "")
        .replace("rank=0", "rank=$(VK_TASK_INDEX)"),
        volcano_tasks("1").replace(", env: []", ""),
    ),
    "a name of Volcano without its plugin": (
        [("RT334", E)],
        one_task(f"{VC_RANK} --master-addr=v-w-0.v").replace(", svc: []", ""),
        one_task(f"{VC_RANK} --master-addr=x-0.x").replace(", svc: []", ""),
    ),
    "the hosts of a task that Volcano does not have": (
        [("RT333", E)],
        one_task(f"{VC_RANK} --master-addr=${{VC_WORKER_HOSTS%%,*}}"),
        one_task(f"{VC_RANK} --master-addr=${{VC_W_HOSTS%%,*}}"),
    ),
    "the number of hosts of a task of Volcano": (
        [("RT322", E)],
        one_task(f"{VC_RANK} --master-addr=v-w-0.v --nnodes=$((VC_W_NUM + 1))"),
        one_task(f"{VC_RANK} --master-addr=v-w-0.v --nnodes=$VC_W_NUM"),
    ),
    "an index of Jobs that are not Indexed": (
        [("RT333", E)],
        jobset(1, 2, of_shell(2, "s-w-0-0.s")).replace("Indexed", "NonIndexed"),
        jobset(1, 2, of_shell(2, "s-w-0-0.s")).replace("completionMode: Indexed, ", ""),
    ),
    "an index of a Job that is not Indexed": (
        [("RT328", E)],
        job().replace("  completionMode: Indexed\n", ""),
        job(),
    ),
    "the index of a LeaderWorkerSet elsewhere": (
        [("RT333", E), ("RT333", E)],
        pytorchjob('[sh, -c, "torchrun --node-rank $LWS_WORKER_INDEX t.py"]'),
        pytorchjob('[sh, -c, "echo $LWS_WORKER_INDEX; torchrun t.py"]'),
    ),
    "the master of another task of Volcano": (
        [("RT334", E), ("RT334", E)],
        volcano_tasks("1").replace("v-master-0.v", "v-main-0.v"),
        volcano_tasks("1").replace("svc: [], ", "").replace("v-master", "v-main"),
    ),
    "a driver and workers that meet at one address": (
        [("RT322", E)],
        driver_and_workers(nodes=4),
        driver_and_workers(nodes=5),
    ),
    "a leader that calls itself localhost": (
        [("RT322", E), ("RT322", E)],
        leader_first("localhost", 3),
        leader_first("localhost", 2),
    ),
    "a driver with the index of its workers": (
        [("RT324", E), ("RT324", E)],
        driver_and_workers(nodes=5, more=f"{COUNTING} --master-addr=s-v-0-0.s"),
        driver_and_workers(nodes=5, more=f"{GLOBAL} --master-addr=s-v-0-0.s"),
    ),
    "more pods than nodes of SGLang": (
        [("RT322", E), ("RT322", E), ("RT324", E)],
        served(3, SGLANG.format(2, 0), SGLANG.format(2, 1)),
        served(2, SGLANG.format(2, 0), SGLANG.format(2, 1)),
    ),
    "workers of SGLang with one node rank": (
        [("RT324", E)],
        served(4, SGLANG.format(4, 0), SGLANG.format(4, 1)),
        served(4, SGLANG.format(4, 0), SGLANG.format(4, "$(LWS_WORKER_INDEX)")),
    ),
    "sizes of SGLang that its nodes do not share": (
        [("RT325", W), ("RT325", W)],
        served(3, SGLANG.format(3, 0), SGLANG.format(3, "$(LWS_WORKER_INDEX)")),
        served(3, "vllm serve m -tp 4 -pp 3", "ray start --address=a:1 --block"),
    ),
    "services with more processes than chips": (
        [("RT320", E), ("RT320", E)],
        compose("", "", each=4),
        compose("", "", each=2),
    ),
    "services that expect others": (
        [("RT322", E), ("RT322", E)],
        compose("", "").replace("--nnodes=2", "--nnodes=3"),
        compose("", "").replace("--nnodes=2", "--nnodes=${NODES:-2}"),
    ),
    "services of a job each": (
        [("RT320", E)],
        ALONE.replace("node=2", "node=4", 1),
        ALONE,
    ),
    "services with one node rank": (
        [("RT324", E)],
        compose("", "").replace("--node-rank=1", "--node-rank=0"),
        compose("", "").replace("--node-rank=1", "--node-rank=$RANK"),
    ),
    "services that meet themselves": (
        [("RT326", E)],
        compose("", "--master-addr=127.0.0.1"),
        compose("--master-addr=127.0.0.1", ""),
    ),
    "mpirun in every pod": (
        [("RT320", E), ("RT323", W)],
        pytorchjob('[mpirun, -np, "8", python, t.py]', each='"1"'),
        pytorchjob('[mpirun, -np, "4", python, t.py]', each='"1"', worker=None),
    ),
    "mpirun in every pod, with hosts": (
        [("RT323", W)],
        pytorchjob('[mpirun, -np, "4", python, t.py]', each='"4"'),
        pytorchjob('[mpirun, -np, "8", -H, "a,b", python, t.py]', each='"4"'),
    ),
    "deepspeed in every pod": (
        [("RT323", W)],
        pytorchjob("[deepspeed, --num_gpus=4, t.py]", each='"4"'),
        pytorchjob("[deepspeed, --num_gpus=4, --hostfile=/h, t.py]", each='"4"'),
    ),
    "deepspeed in a launcher": (
        [("RT320", E)],
        mpijob("[deepspeed, t.py]", chips=4),
        mpijob("[deepspeed, t.py]"),
    ),
    "more chips of SGLang than a pod has": (
        [("RT320", E)],
        served(1, SGLANG.format(1, 0), ""),
        served(1, SGLANG.format(1, 0).replace("8", "4"), ""),
    ),
    "a server in every pod": (
        [("RT320", W)],
        statefulset(4, "[vllm, serve, m, -tp=8]"),
        statefulset(4, "[vllm, serve, m, -tp=4]"),
    ),
    "nodes of vLLM": (
        [("RT324", E)],
        served(2, f"{VLLM} --node-rank 0", f"{VLLM} --node-rank 2"),
        served(2, VLLM, f"{VLLM} --node-rank 1 --headless"),
    ),
    "a list in the shell of a pod": (
        [("RT320", E), ("RT320", E)],
        pytorchjob(f'[sh, -c, "{MASK}0,1; torchrun t.py"]'),
        pytorchjob(f'[sh, -c, "{MASK}0,1,2,3; torchrun --master_addr=$MASTER_ADDR t"]'),
    ),
    "indexes of tasks of Volcano": (
        [("RT324", E)],
        volcano_tasks("$(VC_TASK_INDEX)"),
        volcano_tasks("1"),
    ),
    "shares of a chip": (
        [("RT320", E), ("RT320", E)],
        of_resource("nvidia.com/gpu", 1, 8, HAMI),
        of_resource("nvidia.com/gpu", 8, 8, HAMI),
    ),
    "the memory of a chip": (
        [("RT320", E), ("RT320", E)],
        of_resource("huawei.com/Ascend910B4", 1, 8, ", huawei.com/A-memory: 8192"),
        of_resource("aliyun.com/gpu-mem", 8, 1),
    ),
    "chips with several cores": (
        [("RT320", E), ("RT320", E)],
        of_resource("aws.amazon.com/neuroncore", 16, 32),
        of_resource("aws.amazon.com/neuron", 16, 32),
    ),
    "agents of a StatefulSet": (
        [("RT322", E)],
        statefulset(3, agent(2, "$(R)", "j-0.j")),
        statefulset(2, agent(2, "$(R)", "j-0.j")),
    ),
    "one node rank for a StatefulSet": (
        [("RT324", E)],
        statefulset(2, agent(2, "0", "j-0.j")),
        statefulset(2, agent(2, "$(R)", "j-0.j.default.svc")),
    ),
    "a name that no pod of a StatefulSet has": (
        [("RT334", E)],
        statefulset(2, agent(2, "$(R)", "j-0.k")),
        statefulset(2, agent(2, "$(R)", "j-0.j"), ""),
    ),
    "a Service with an address before a StatefulSet": (
        [("RT334", E)],
        statefulset(2, agent(2, "$(R)", "j-0.j"), service("app: a", "10.0.0.1")),
        statefulset(2, "[postgres]", service("app: a", "10.0.0.1"))
        + "---\n"
        + pytorchjob(),
    ),
    "more chips for Ray than the pod has": (
        [("RT320", E)],
        ray('{num-gpus: "8"}', chips=4),
        ray('{num-gpus: "4"}', chips=4),
    ),
    "fewer chips for Ray than the pod has": (
        [("RT321", W)],
        ray('{num-gpus: "4"}', kind="RayJob"),
        ray('{num-gpus: "0", num-cpus: "4"}', kind="RayJob"),
    ),
    "a number for Ray": ([("RT331", E)], ray("{num-cpus: 4}"), ray("{}")),
    "python with several processes a pod": (
        [("RT325", E)],
        pytorchjob("[python, t.py]"),
        pytorchjob("[torchrun, t.py]"),
    ),
    "more processes than the limits": (
        [("RT320", E), ("RT320", E)],
        pytorchjob(each='"8"'),
        pytorchjob(each='"4"'),
    ),
    "fewer processes than the limits": (
        [("RT321", W), ("RT321", W)],
        pytorchjob(each='"2"'),
        pytorchjob(each="auto"),
    ),
    "workers only": (
        [("RT333", E)],
        pytorchjob(master=None, worker=3),
        pytorchjob(master=1, worker=2),
    ),
    "workers only, with python": (
        [("RT333", W)],
        pytorchjob("[python, t.py]", each='"1"', master=None, worker=3, chips=(1, 1)),
        pytorchjob("[python, t.py]", each='"1"', master=1, worker=2, chips=(1, 1)),
    ),
    "workers only, with a rendezvous of their own": (
        [("RT322", E)],
        pytorchjob(RENDEZVOUS, master=None, worker=2),
        pytorchjob(RENDEZVOUS, master=None, worker=3),
    ),
    "elastic workers beside a master": (
        [("RT322", E)],
        pytorchjob(worker=2, more="elasticPolicy: {minReplicas: 2, maxReplicas: 2}"),
        pytorchjob(
            master=None,
            worker=2,
            more="elasticPolicy: {minReplicas: 2, maxReplicas: 2}",
        ),
    ),
    "another number of nodes": (
        [("RT322", E)],
        pytorchjob("[torchrun, --nnodes=3, t.py]"),
        pytorchjob("[torchrun, --nnodes=2, t.py]"),
    ),
    "roles with different chips": (
        [("RT321", W)],
        pytorchjob("", each=None, worker=2, chips=(1, 2)),
        pytorchjob("", each=None, worker=2, chips=(2, 2)),
    ),
    "one process for all chips of a pod": (
        [("RT321", W), ("RT321", W)],
        pytorchjob("[python, t.py]", each="auto"),
        pytorchjob("[python, t.py]", each="auto", chips=(1, 1)),
    ),
    "a container with another name": (
        [("RT331", E), ("RT331", E)],
        pytorchjob().replace("name: pytorch,", "name: main,"),
        pytorchjob(),
    ),
    "a text where a number is expected": (
        [("RT331", E)],
        pytorchjob().replace("Worker: {replicas: 1", "Worker: {replicas: '1'"),
        pytorchjob(),
    ),
    "workers that are fewer than none": (
        [("RT331", E)],
        pytorchjob().replace("Worker: {replicas: 1", "Worker: {replicas: -1"),
        pytorchjob().replace("Worker: {replicas: 1", "Worker: {replicas: 0x1"),
    ),
    "no nodes of a TrainJob": (
        [("RT331", E)],
        trainjob(f"{{numNodes: 0, command: [torchrun, t.py], {ONE_GPU}}}"),
        trainjob(f"{{numNodes: 1, command: [torchrun, t.py], {ONE_GPU}}}"),
    ),
    "a text for the slots": (
        [("RT331", E)],
        mpijob("[mpirun, python, t.py]", slots='slotsPerWorker: "8"'),
        mpijob("[mpirun, python, t.py]", slots="slotsPerWorker: 8"),
    ),
    "a word for an MPI that does not exist": (
        [("RT331", E)],
        mpijob("[mpirun, python, t.py]", more="  mpiImplementation: OpenMpi\n"),
        mpijob("[mpirun, python, t.py]", more="  mpiImplementation: OpenMPI\n"),
    ),
    "fewer chips than none": (
        [("RT330", E)],
        job(resources="limits: {nvidia.com/gpu: -4}"),
        job(resources='limits: {nvidia.com/gpu: "4.0", memory: 8.5Gi, cpu: 500m}'),
    ),
    "no container": (
        [("RT331", E)],
        pytorchjob(worker=None).replace("containers: [{", "containers: [], x: [{"),
        pytorchjob(worker=None),
    ),
    "a command that is no list": (
        [("RT331", E)],
        job(pod_more="initContainers: [{name: i, command: sleep 5}], "),
        job(pod_more="initContainers: [{name: i, command: [sleep, '5']}], "),
    ),
    "a number in a command": (
        [("RT331", E)],
        job(pod_more="initContainers: [{name: i, command: [sleep, 5]}], "),
        job(pod_more="initContainers: [{name: i, command: [sleep, $(N)]}], "),
    ),
    "a number for a variable": (
        [("RT331", E)],
        job(pod_more="initContainers: [{name: i, env: [{name: N, value: 5}]}], "),
        job(pod_more="initContainers: [{name: i, env: [{name: N, value: '5'}]}], "),
    ),
    "an Indexed Job without an end": (
        [("RT331", E)],
        job().replace("  completions: 2\n", ""),
        job(),
    ),
    "two tasks of one name": (
        [("RT331", E)],
        volcano(("master", 1), ("worker", 1), ("worker", 2)),
        volcano(("master", 1), ("worker", 3)),
    ),
    "two containers of one name": (
        [("RT331", E)],
        pytorchjob(worker=None).replace("[{name", "[{name: pytorch, image: i}, {name"),
        pytorchjob(worker=None).replace("[{name", "[{name: log, image: i}, {name"),
    ),
    "a text that YAML takes for true": (
        [("RT331", E)],
        job(pod_more="initContainers: [{name: i, env: [{name: N, value: yes}]}], "),
        job(pod_more="initContainers: [{name: i, env: [{name: N, value: 'no'}]}], "),
    ),
    "a text that YAML takes for a number": (
        [("RT331", E)],
        job(pod_more="initContainers: [{name: i, command: [x, 010]}], "),
        job(pod_more="initContainers: [{name: i, command: [x, '010', 10s]}], "),
    ),
    "a number in a ConfigMap": (
        [("RT331", E)],
        config_map("{replicas: 3}") + job(),
        config_map("{replicas: '3', path: '${HOME}'}") + job(),
    ),
    "a long name of a PyTorchJob": (
        [("RT331", E)],
        pytorchjob(name="t" * 55),
        pytorchjob(name="t" * 54),
    ),
    "a long name of an MPIJob": (
        [("RT331", E)],
        mpijob("[mpirun, python, t.py]").replace("name: m}", f"name: {'m' * 55}}}"),
        mpijob("[mpirun, python, t.py]").replace("name: m}", f"name: {'m' * 54}}}"),
    ),
    "a long name of a Job": (
        [("RT331", E)],
        job().replace("{name: j}", f"{{name: {'j' * 62}}}").replace("j-0.j", "x"),
        job().replace("{name: j}", f"{{name: {'j' * 61}}}").replace("j-0.j", "x"),
    ),
    "a long name of a JobSet": (
        [("RT331", E)],
        jobset(1, 2, "[python, t.py]").replace("name: s}", f"name: {'s' * 52}}}"),
        jobset(1, 2, "[python, t.py]").replace("name: s}", f"name: {'s' * 51}}}"),
    ),
    "a long name of a Job of Volcano": (
        [("RT331", E)],
        volcano(("master", 1)).replace("name: v}", f"name: {'v' * 55}}}"),
        volcano(("master", 1)).replace("name: v}", f"name: {'v' * 54}}}"),
    ),
    "a Job that starts again for ever": (
        [("RT331", E)],
        job(pod_more="restartPolicy: Always, "),
        job(pod_more="restartPolicy: Never, "),
    ),
    "a text for true": (
        [("RT331", E)],
        job(pod_more="hostNetwork: 'false', "),
        job(pod_more="hostNetwork: no, "),
    ),
    "tasks of Volcano with a large letter": (
        [("RT331", E)],
        volcano(("Master", 1), flags='["--master=Master"]'),
        volcano(("master", 1), flags='["--master=master"]'),
    ),
    "a number where a text is expected": (
        [("RT331", E)],
        pytorchjob(each="4"),
        pytorchjob(each="'4'"),
    ),
    "a name that begins with a digit": (
        [("RT331", E)],
        pytorchjob(name="7b"),
        pytorchjob(name="b7"),
    ),
    "two masters": ([("RT331", E)], pytorchjob(master=2), pytorchjob(master=1)),
    "a role that does not exist": (
        [("RT331", E)],
        pytorchjob().replace("Worker:", "PS:"),
        pytorchjob(),
    ),
    "elastic without workers": (
        [("RT331", E)],
        pytorchjob(
            "[python, t.py]",
            worker=None,
            each='"1"',
            chips=(1, 1),
            more="elasticPolicy: {}",
        ),
        pytorchjob("[python, t.py]", worker=None, each='"1"', chips=(1, 1)),
    ),
    "a variable of the operator by hand": (
        [("RT328", W), ("RT328", W)],
        pytorchjob().replace("image: i,", "image: i, env: [{name: RANK, value: '0'}],"),
        pytorchjob().replace("image: i,", "image: i, env: [{name: SEED, value: '0'}],"),
    ),
    "NPUs that Trainer does not count": (
        [("RT330", E)],
        trainjob(f"{{numNodes: 2, resourcesPerNode: {{{NPU}}}}}"),
        trainjob(f"{{numNodes: 2, numProcPerNode: 8, resourcesPerNode: {{{NPUS}}}}}"),
    ),
    "more processes than the chips of a node": (
        [("RT320", E)],
        trainjob(f"{{numNodes: 2, numProcPerNode: 16, resourcesPerNode: {{{GPUS}}}}}"),
        trainjob(f"{{numNodes: 2, resourcesPerNode: {{{GPUS}}}}}"),
    ),
    "a word for the number of processes": (
        [("RT331", W)],
        trainjob(
            f"{{numNodes: 2, numProcPerNode: auto, resourcesPerNode: {{{GPUS}}}}}"
        ),
        trainjob(f"{{numNodes: 2, numProcPerNode: 8, resourcesPerNode: {{{GPUS}}}}}"),
    ),
    "a variable that Trainer refuses": (
        [("RT331", E)],
        trainjob(
            "{numNodes: 2, numProcPerNode: 8, env: [{name: PET_NNODES, value: '2'}]}"
        ),
        trainjob("{numNodes: 2, numProcPerNode: 8, env: [{name: NNODES, value: '2'}]}"),
    ),
    "two kinds of GPUs": (
        [("RT330", W)],
        trainjob(
            "{numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 8, "
            "amd.com/gpu: 4}}}"
        ),
        trainjob(
            "{numNodes: 2, numProcPerNode: 8, resourcesPerNode: {limits: "
            "{nvidia.com/gpu: 8}}}"
        ),
    ),
    "size of a part of a JobSet": (
        [("RT325", E)],
        jobset(1, 2, "[python, t.py]").replace(
            "name: pytorch,", "name: x, env: [{name: WORLD_SIZE, value: '3'}],"
        ),
        jobset(1, 2, "[python, t.py]").replace(
            "name: pytorch,", "name: x, env: [{name: WORLD_SIZE, value: '3'}],"
        )
        + jobset(1, 1, "[python, t.py]")
        .partition("replicatedJobs:\n")[2]
        .replace("name: w", "name: lead"),
    ),
    "index of a pod in a variable of a JobSet": (
        [("RT324", E)],
        jobset(2, 1, agent(2, "$(R)", "s-w-0-0.s")).replace(
            "name: pytorch,", f"name: x, env: [{of_label('job-completion-index')}],"
        ),
        jobset(2, 1, agent(2, "$(R)", "s-w-0-0.s")).replace(
            "name: pytorch,", f"name: x, env: [{of_label('job-global-index')}],"
        ),
    ),
    "options that begin a command of a pod": (
        [("RT328", E)],
        pytorchjob('["sh", "-c", "torchrun t.py\\n--lr 3"]'),
        pytorchjob('["sh", "-c", "torchrun t.py\\\\\\n --lr 3"]'),
    ),
    "workers of one rank beside a leader": (
        [("RT324", E)],
        led(3, f"--node-rank 0 {LEADER}", f"--node-rank 1 {LEADER}"),
        led(3, f"--node-rank 0 {LEADER}", f"{COUNTED} {LEADER}"),
    ),
    "a worker with the rank of its leader": (
        [("RT324", E)],
        led(2, f"--node-rank 0 {LEADER}", f"--node-rank=0 {LEADER}"),
        led(2, f"--node-rank 0 {LEADER}", f"--node-rank=1 {LEADER}"),
    ),
    "a worker as the master of a group": (
        [("RT326", E)],
        leaderworkerset(4, LWS_AGENT % 4)
        .replace("$LWS_LEADER_ADDRESS", "l-0-1.l")
        .replace("replicas: 3", "replicas: 1"),
        leaderworkerset(4, LWS_AGENT % 4).replace("$LWS_LEADER_ADDRESS", "l-0.l.d.svc"),
    ),
    "a master that a group does not have": (
        [("RT334", E)],
        leaderworkerset(4, LWS_AGENT % 4).replace("$LWS_LEADER_ADDRESS", "l-3.l"),
        leaderworkerset(4, LWS_AGENT % 4).replace("$LWS_LEADER_ADDRESS", "l-0.l"),
    ),
    "workers that meet themselves": (
        [("RT326", E)],
        led(3, f"--node-rank 0 {LEADER}", f"{COUNTED} --master-addr localhost"),
        led(3, "--node-rank 0 --master-addr localhost", f"{COUNTED} {LEADER}"),
    ),
    "workers without an address": (
        [("RT323", E)],
        led(3, f"--node-rank 0 {LEADER}", COUNTED),
        led(3, "--node-rank 0", f"{COUNTED} {LEADER}"),
    ),
    "workers that expect others": (
        [("RT322", E)],
        led(3, f"--node-rank 0 {LEADER}", f"{COUNTED} {LEADER} --nnodes 2"),
        led(3, f"--node-rank 0 {LEADER} --nnodes 3", f"{COUNTED} {LEADER}"),
    ),
    "more processes than slots": (
        [("RT322", E)],
        mpijob('[mpirun, -np, "32", python, t.py]'),
        mpijob('[mpirun, -np, "16", python, t.py]'),
    ),
    "fewer processes than slots": (
        [("RT322", W)],
        mpijob('[mpirun, -n, "8", python, t.py]'),
        mpijob("[mpirun, python, t.py]"),
    ),
    "more processes of a node than chips": (
        [("RT320", E)],
        mpijob('[mpirun, -N, "16", python, t.py]', slots="slotsPerWorker: 8"),
        mpijob('[mpirun, -np, "16", -N, "8", python, t.py]'),
    ),
    "a worker that an MPIJob does not have": (
        [("RT334", E)],
        mpijob('[mpirun, -np, "16", -H, "m-worker-0:8,m-worker-2:8", t]'),
        mpijob('[mpirun, -np, "16", -H, "m-worker-0:8,m-worker-1.m:8,n1", t]'),
    ),
    "more slots than chips": (
        [("RT320", E)],
        mpijob("[mpirun, python, t.py]", chips=4),
        mpijob("[mpirun, python, t.py]"),
    ),
    "one slot for eight chips": (
        [("RT321", W)],
        mpijob("[mpirun, python, t.py]", slots="cleanPodPolicy: Running"),
        mpijob("[mpirun, python, t.py]"),
    ),
    "rank 0 in a pod without chips": (
        [("RT330", W)],
        mpijob("[mpirun, python, t.py]", more="  runLauncherAsWorker: true\n"),
        mpijob("[mpirun, python, t.py]", more="  runLauncherAsWorker: false\n"),
    ),
    "a plugin that finds no master": (
        [("RT333", E)],
        volcano(("ps", 1), ("trainer", 3)),
        volcano(("ps", 1), ("trainer", 3), flags='["--master=ps", "--worker=trainer"]'),
    ),
    "several masters": (
        [("RT324", E)],
        volcano(("master", 2), ("worker", 3)),
        volcano(("master", 1), ("worker", 3)),
    ),
    "a gang that is too large": (
        [("RT335", E)],
        volcano(("master", 1), ("worker", 3), least=5),
        volcano(("master", 1), ("worker", 3), least=4),
    ),
    "a gang that is too small": (
        [("RT335", W)],
        volcano(("master", 1), ("worker", 3), least=1),
        volcano(("master", 1), ("worker", 3)),
    ),
    "a gang that is larger than its task": (
        [("RT331", E)],
        volcano(("master", 1), ("worker", 3)).replace(
            "replicas: 3", "replicas: 3, minAvailable: 4"
        ),
        volcano(("master", 1), ("worker", 3)).replace(
            "replicas: 3", "replicas: 3, minAvailable: 2"
        ),
    ),
    "a gang that is larger than a PyTorchJob": (
        [("RT335", E)],
        pytorchjob(more=of_gang(3)),
        pytorchjob(more=of_gang(2)),
    ),
    "a gang that is smaller than a PyTorchJob": (
        [("RT335", W)],
        pytorchjob(worker=3, more=of_gang(2)),
        pytorchjob(master=None, worker=3, more=f"elasticPolicy: {{}}\n  {of_gang(2)}"),
    ),
    "a gang that is larger than an MPIJob": (
        [("RT335", E)],
        mpijob("[mpirun, python, t.py]", more=f"  {of_gang(4)}\n"),
        mpijob("[mpirun, python, t.py]", more=f"  {of_gang(3)}\n"),
    ),
    "a gang that is smaller than an MPIJob": (
        [("RT335", W)],
        mpijob("[mpirun, python, t.py]", more=f"  {of_gang(1)}\n"),
        mpijob("[mpirun, python, t.py]", more=f"  {of_gang(2)}\n"),
    ),
    "limits of a group of Ray": (
        [("RT331", W)],
        ray("{}").replace("replicas: 2", "replicas: 2\n    maxReplicas: 1"),
        ray("{}").replace("replicas: 2", "replicas: 2\n    maxReplicas: 2"),
    ),
    "a command in one word": (
        [("RT337", E), ("RT337", E)],
        pytorchjob('["torchrun --nproc_per_node=4 t.py"]'),
        pytorchjob('[sh, -c, "torchrun --nproc_per_node=4 t.py"]'),
    ),
    "a command of a TrainJob in one word": (
        [("RT337", E)],
        trainjob(f'{{numNodes: 1, command: ["torchrun t.py"], {ONE_GPU}}}'),
        trainjob(f'{{numNodes: 1, args: ["torchrun t.py"], {ONE_GPU}}}'),
    ),
    "options in one word": (
        [("RT337", E), ("RT337", E)],
        pytorchjob('[torchrun, "--nnodes 2 t.py"]'),
        pytorchjob('[torchrun, --nnodes, "2", t.py, "--prompt a b", "--nnodes x"]'),
    ),
    "a value and the script in one word": (
        [("RT336", E), ("RT337", E), ("RT337", E)],
        pytorchjob('[torchrun, "--nnodes=2 t.py"]'),
        pytorchjob('[torchrun, "--nnodes=2", "--rdzv-conf=a=1, b=2", t.py]'),
    ),
    "a script and its arguments in one word": (
        [("RT337", E), ("RT337", E)],
        pytorchjob('[torchrun, "t.py --lr 3"]'),
        pytorchjob('[torchrun, t.py, "x.py --lr 3"]'),
    ),
    "options of mpirun in one word": (
        [("RT337", E)],
        mpijob('[mpirun, "-np 16", python, t.py]'),
        mpijob('[mpirun, -np, "16", python, t.py]'),
    ),
    "a text for a shell without its option": (
        [("RT337", E), ("RT337", E)],
        pytorchjob('[bash, "torchrun t.py"]'),
        pytorchjob('[bash, "/opt/my job/train.sh"]'),
    ),
    "words for a shell that takes one": (
        [("RT336", E), ("RT337", E), ("RT337", E)],
        pytorchjob("[bash, -c, torchrun, --nnodes=2, t.py]"),
        pytorchjob('[bash, -c, \'exec "$0" "$@"\', torchrun, --nnodes=2, t.py]'),
    ),
    "tasks that do not train": (
        [("RT325", W)],
        volcano(("master", 1), ("worker", 3), ("tensorboard", 1)),
        volcano(("master", 1), ("worker", 3)),
    ),
    "pods as processes of several chips": (
        [("RT321", W), ("RT321", W)],
        volcano(("master", 1), ("worker", 3), chips=8),
        volcano(("master", 1), ("worker", 3), chips=1),
    ),
    "agents of Volcano": (
        [("RT322", E)],
        volcano(
            ("master", 1),
            ("worker", 1),
            command=agent(3, "$(RANK)", "$(MASTER_ADDR)"),
            chips=4,
        ),
        volcano(
            ("master", 1),
            ("worker", 1),
            command=agent(2, "$(RANK)", "$(MASTER_ADDR)"),
            chips=4,
        ),
    ),
    "an index of every Job": (
        [("RT324", E)],
        jobset(2, 1, agent(2, INDEX, "s-w-0-0.s")),
        jobset(1, 2, agent(2, INDEX, "s-w-0-0.s")),
    ),
    "pods one after the other": (
        [("RT322", E)],
        jobset(1, 2, agent(2, INDEX, "s-w-0-0.s"), ends=4),
        jobset(1, 2, agent(2, INDEX, "s-w-0-0.s")),
    ),
    "two Jobs of one world": (
        [("RT322", E), ("RT324", E), ("RT324", E)],
        jobset(1, 2, agent(3, INDEX, "s-w-0-0.s"))
        + jobset(1, 2, agent(3, INDEX, "s-w-0-0.s"))
        .split("replicatedJobs:\n")[1]
        .replace("name: w", "name: v"),
        jobset(1, 2, agent(2, INDEX, "s-w-0-0.s"))
        + jobset(1, 2, agent(2, INDEX, "s-v-0-0.s"))
        .split("replicatedJobs:\n")[1]
        .replace("name: w", "name: v"),
    ),
    "an Indexed Job that works off a list": (
        [("RT322", E)],
        job().replace("completions: 2", "completions: 9"),
        job().replace("completions: 2", "completions: 9").replace("torchrun", "work"),
    ),
    "the master of another set": (
        [("RT334", E)],
        jobset(1, 2, agent(2, INDEX, "old-w-0-0.old")),
        jobset(1, 2, agent(2, INDEX, "s-w-0-0.s")),
    ),
    "another number of pods": (
        [("RT322", E)],
        jobset(1, 4, agent(2, INDEX, "s-w-0-0.s")),
        jobset(1, 4, agent(4, INDEX, "s-w-0-0.s")),
    ),
    "one pod where nothing says how many": (
        [("RT322", W)],
        jobset(1, 1, agent(2, INDEX, "s-w-0-0.s")).replace("parallelism: 1, ", ""),
        jobset(1, 1, agent(1, INDEX, "s-w-0-0.s")).replace("parallelism: 1, ", ""),
    ),
    "a group of another size": (
        [("RT322", E)],
        leaderworkerset(4, LWS_AGENT % 3),
        leaderworkerset(4, LWS_AGENT % "$LWS_GROUP_SIZE"),
    ),
    "a leader with other chips": (
        [("RT320", E), ("RT321", W)],
        leaderworkerset(2, LWS_AGENT % 2, leader=2),
        leaderworkerset(2, LWS_AGENT % 2, leader=4),
    ),
    "more chips than a group has": (
        [("RT320", E)],
        leaderworkerset(2, "[vllm, serve, m, --tensor-parallel-size, '4', -pp=4]"),
        leaderworkerset(2, "[vllm, serve, m, --tensor-parallel-size, '4', -pp=2]"),
    ),
    "no subdomain": ([("RT334", E)], job(subdomain=""), job()),
    "a Service that selects other pods": (
        [("RT334", E)],
        job(service=service("app: other")),
        job(service=service()),
    ),
    "a Service with an address": (
        [("RT334", E)],
        job(service=service(address="10.0.0.1")),
        job(service=service(address='"None"')),
    ),
    "requests without limits": (
        [("RT330", E)],
        job(resources="requests: {nvidia.com/gpu: 4}"),
        job(resources="requests: {nvidia.com/gpu: 4}, limits: {nvidia.com/gpu: 4}"),
    ),
    "requests that are not the limits": (
        [("RT330", E)],
        job(resources="requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 4}"),
        job(resources="requests: {cpu: 2}, limits: {nvidia.com/gpu: 4, cpu: 4}"),
    ),
    "a part of a chip": (
        [("RT330", E)],
        job(resources="limits: {nvidia.com/gpu: 0.5}"),
        job(resources="limits: {nvidia.com/gpu: 4000m, cpu: 0.5}"),
    ),
    "the network of the host": (
        [("RT334", W)],
        job(pod_more="hostNetwork: true, "),
        job(pod_more="hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, "),
    ),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_wrong_manifest_has_the_defect(name: str) -> None:
    codes, wrong, _ = MANIFESTS[name]

    assert found(wrong) == codes


@pytest.mark.parametrize("name", MANIFESTS)
def test_right_manifest_is_silent(name: str) -> None:
    right = MANIFESTS[name][2]

    assert found(right) == []


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
