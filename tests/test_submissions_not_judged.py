"""What cannot be judged in scripts and manifests is said, and makes no finding."""

from __future__ import annotations

import pytest

from ranktable.cluster.submissions.detect import is_sbatch
from ranktable.cluster.submissions.read_submissions import read_submissions
from tests.submission_cases import (
    C10D,
    EIGHT,
    HEAD,
    TWO,
    found,
    notes,
    plain,
    read_lines,
    running,
    script,
)

PYTORCHJOB = plain("pytorchjob")
E, W = "error", "warning"


@pytest.mark.parametrize(("text", "reason"), read_lines("not_judged"))
def test_line_that_is_not_judged_is_said(text: str, reason: str) -> None:
    assert notes(text) == [(6, f"not judged: {reason}")]


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
        *("mpicc -O2 a.c", "virtualenv $TMPDIR/env", "hf download a/b", "sinfo"),
        *('python -c "import a; print(a.b)"', "deactivate"),
        *(r"echo $'it\'s'", "echo it\\'s", "echo '\"' \"'\"", "# it's", "echo a#'b'"),
    ],
)
def test_usual_lines_are_not_mentioned(line: str) -> None:
    assert notes(script("-N2 --ntasks-per-node=1", line, "srun python t.py")) == []


@pytest.mark.parametrize(
    "line", ["bash run.sh 4", "$LAUNCH t.py", "msrun t.py", '"${command[@]}"']
)
def test_line_that_may_start_the_nodes_keeps_silent_about_helpers(line: str) -> None:
    text = script("-N2 --ntasks-per-node=1", "python prepare.py", line)

    assert found(text) == [("RT008", E)]
    assert found(text.replace("-N2", "-N1")) == []


def test_what_a_loop_does_not_say_is_told_once() -> None:
    agent = "torchrun --nnodes 2 --nproc-per-node $GPUS --rdzv-backend c10d"
    text = script(
        "-N2 --ntasks-per-node=1",
        HEAD,
        "nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))",
        "for i in 0 1; do",
        f'srun -N1 -n1 -w "${{nodes[$i]}}" {agent} --rdzv-endpoint $head:29500 t.py &',
        "done; wait",
    )

    assert len(notes(text)) == 1


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
    text = '{{- define "job" -}}\n' + PYTORCHJOB + "{{- end }}\n"

    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    assert {each.code for each in report.diagnostics} == {"RT008", "RT332"}


@pytest.mark.parametrize("line", ["srun ./train.sh", "srun $COMMAND train.py"])
def test_script_that_srun_starts_is_not_judged(line: str) -> None:
    text = script("-N2 --ntasks-per-node=2 --gres=gpu:1", line)

    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    assert [each.code for each in report.diagnostics] == ["RT008", "RT332"]


def test_program_in_a_loop_is_named_if_nothing_else_is_judged() -> None:
    alone = notes(script("-N1", "while read s; do python t.py $s; done < seeds"))
    beside = notes(
        script("-N1", "while read s; do python t.py; done < seeds", "srun python t.py")
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


def test_line_that_eval_runs_is_not_judged_and_said() -> None:
    text = script("-N2", 'c="torchrun --nnodes 3 t.py"', 'eval "srun $c"', "eval $(x)")

    assert notes(text) == [(5, "not judged: what eval runs is not judged")]


def test_expression_of_helm_is_not_judged_and_said() -> None:
    text = PYTORCHJOB.replace('nprocPerNode: "4"', "nprocPerNode: {{ .Values.n }}")

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
        ("Worker:\n      replicas: 1", 'Worker:\n      replicas: "${WORKERS:-1}"'),
        ("Worker:\n      replicas: 1", "Worker:\n      replicas: ${WORKERS}"),
        ("nvidia.com/gpu: 4", "nvidia.com/gpu: ${GPUS}"),
        ("name: train", "name: ${JOB}-train"),
    ],
)
def test_value_that_another_tool_puts_in_is_not_judged_and_said(
    old: str, new: str
) -> None:
    text = PYTORCHJOB.replace(old, new)

    assert found(text) == []
    assert notes(text)
    assert all("another tool puts a value" in reason for _, reason in notes(text))


@pytest.mark.parametrize(
    ("kind", "spec", "is_said"),
    [
        ("Deployment", "{containers: [{command: [torchrun, t.py]}]}", True),
        ("Workflow", "{containers: [{command: [sh, -c, 'mpirun ./t']}]}", True),
        ("Deployment", "{containers: [{command: [redis-server]}]}", False),
        ("RayService", "{rayClusterConfig: {}}", True),
    ],
)
def test_other_object_that_starts_processes_is_said(
    kind: str, spec: str, is_said: bool
) -> None:
    head = f"apiVersion: x.io/v1\nkind: {kind}\nmetadata: {{name: x}}\n"
    text = f"{head}spec: {spec}\n---\n{PYTORCHJOB}"

    reason = f'not judged: what the {kind} "x" starts'
    assert notes(text) == ([(2, reason)] if is_said else [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kubeflow.org/v2beta1", "kubeflow.org/v1alpha1"),
        ("kubeflow.org/v2beta1", "mpi.example/v2beta1"),
    ],
)
def test_job_of_another_version_is_not_judged(old: str, new: str) -> None:
    text = plain("mpijob").replace(old, new)

    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    assert [(each.code, each.message) for each in report.diagnostics] == [
        ("RT008", "nothing in the manifest could be judged"),
        ("RT332", f'not judged: a MPIJob of "{new}" is not known'),
    ]


def test_job_set_of_another_group_is_not_judged() -> None:
    text = plain("jobset").replace("x-k8s.io", "sigs.k8s.io")

    assert [text for _, text in notes(text)] == [
        'not judged: a JobSet of "jobset.sigs.k8s.io/v1alpha2" is not known'
    ]


def test_variable_in_the_words_of_a_script_of_a_pod_is_said() -> None:
    script_first = plain("job").replace(
        "- torchrun", "- /opt/entry.sh\n        - torchrun"
    )
    text = script_first.replace("$(JOB_COMPLETION_INDEX)", "$JOB_COMPLETION_INDEX")

    said = "not judged: entry.sh gets the text $JOB_COMPLETION_INDEX"
    assert (found(text), [reason for _, reason in notes(text)]) == ([], [said])
    assert notes(script_first) == []


def test_variables_that_double_each_other_are_not_known() -> None:
    doubled = (f"{{name: A{at}, value: $(A{at - 1})$(A{at - 1})}}" for at in range(60))
    env = f"[{', '.join(['{name: A-1, value: xx}', *doubled])}]"
    text = plain("job").replace("[]", env).replace("=j-0.j", "=$(A59)")

    assert notes(text) == [
        (16, "not judged: the file does not say the value of --master-addr=...")
    ]


def test_loop_in_the_command_of_a_pod_is_said() -> None:
    text = running("[bash, -c, 'while true; do torchrun t.py; done']")

    assert [reason for _, reason in notes(text)] == ["not judged: it is in a loop"] * 2


def test_document_with_control_lines_is_not_judged() -> None:
    text = (
        PYTORCHJOB.replace('"4"', '"8"')
        + "{{- if .Values.more }}\nmore: 1\n{{- end }}\n"
    )

    assert [code for code, _ in found(text)] == ["RT008"]
