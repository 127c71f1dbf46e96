"""What is submitted, judged as files: wrong ones and their nearest right neighbours."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml

from ranktable.cluster.submissions.read_submissions import read_submissions
from tests.submission_cases import (
    C10D,
    HEAD,
    TWO,
    found,
    notes,
    plain,
    read_cases,
    read_lines,
    running,
    script,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

MANIFESTS = read_cases("manifests")
PYTORCHJOB = plain("pytorchjob")
CASES = read_cases("scripts") | MANIFESTS
E, W = "error", "warning"


@pytest.mark.parametrize("name", CASES)
def test_wrong_one_has_the_defect(name: str) -> None:
    codes, wrong, _ = CASES[name]

    assert found(wrong) == codes


@pytest.mark.parametrize("name", CASES)
def test_right_one_is_silent(name: str) -> None:
    assert found(CASES[name].right) == []


@pytest.mark.parametrize(("text", "codes"), read_lines("lines"))
def test_value_in_a_text(text: str, codes: str) -> None:
    assert found(text) == ([] if codes == "silent" else [tuple(codes.split())])


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


SLOTS = "-N2 --ntasks-per-node=4 --exclusive"


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
    ("text", "name", "longest"),
    [
        (PYTORCHJOB, "train", 54),
        (plain("mpijob"), "m", 54),
        (plain("job").replace("j-0.j", "x"), "j", 61),
        (plain("jobset"), "s", 51),
        (plain("volcano"), "v", 54),
    ],
)
def test_long_names_of_jobs_leave_no_room_for_those_of_pods(
    text: str, name: str, longest: int
) -> None:
    def named(length: int) -> str:
        return text.replace(f"{{name: {name}}}", f"{{name: {name[0] * length}}}")

    assert found(named(longest)) == []
    assert found(named(longest + 1)) == [("RT331", E)]


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


def test_one_assignment_before_two_lines_is_reported_once() -> None:
    lines = ("export CUDA_VISIBLE_DEVICES=$X", "python a.py", "python b.py")

    assert found(script("-N1 --gres=gpu:2", *lines)) == [("RT329", W)]


@pytest.mark.parametrize("options", ["-c, --", "-l, -c", "-euo, pipefail, -c"])
def test_options_of_a_shell_stand_before_its_text(options: str) -> None:
    text = running(f'[bash, {options}, "torchrun --nproc-per-node=8 t.py"]')

    assert found(text) == [("RT320", E), ("RT320", E)]
    assert found(text.replace("node=8", "node=4")) == []
    assert notes(text) == []


def test_index_of_a_pod_is_not_called_a_variable_of_slurm() -> None:
    text = plain("job").replace("master-addr=j-0.j", "rdzv-backend=c10d")
    text = text.replace("master-port=29500", "rdzv-endpoint=j-0.j:29500")
    report = read_submissions(text.encode(), file="job").report

    (warning,) = report.diagnostics if report is not None else ()
    assert warning.message == (
        "--node-rank=(index of the pod) has no effect with --rdzv-backend=c10d: the "
        "agents are numbered as they join"
    )


def test_variable_whose_name_is_no_text_ends_in_findings() -> None:
    env = "[{name: [x], value: $(X)}, 3, {name: {a: b}}]"
    text = plain("job").replace("[]", env)

    assert {code for code, _ in found(text)} <= {"RT331", "RT328"}


def test_many_services_of_one_job_are_judged_in_a_pass() -> None:
    lines = (f"  s{at}: {{command: {line(at)}}}" for at in range(2000))
    report = read_submissions("\n".join(("services:", *lines)).encode(), file="job")

    assert report.report is not None
    assert {each.code for each in report.report.diagnostics} == {"RT322", "RT323"}


def line(at: int) -> str:
    return f"torchrun --nnodes=3000 --node-rank={at} t.py"


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


def test_help_for_a_list_before_a_command_keeps_the_command() -> None:
    line = "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=2 a.py"
    report = read_submissions(
        script("-N1 --gres=gpu:2", line).encode(), file="job"
    ).report

    assert report is not None
    assert [each.hint for each in report.diagnostics] == [
        "drop CUDA_VISIBLE_DEVICES from it"
    ]


def test_each_joined_word_of_an_mpirun_is_said() -> None:
    words = "[mpirun, -np 8, -bind-to none, python t.py]"
    text = re.sub(r"command: \[.*?\]", f"command: {words}", plain("mpijob"))

    assert found(text) == [("RT337", E)] * 3


@pytest.mark.parametrize(
    ("given", "told"), [("$MASTER_ADDR", "..."), ("n1", "PATH,MASTER_ADDR=n1")]
)
def test_list_of_export_is_told_as_it_is_written(given: str, told: str) -> None:
    line = f"srun --export=PATH,MASTER_ADDR={given} python t.py"
    text = script(
        TWO, HEAD, "export MASTER_ADDR=$head", "export MASTER_PORT=29500", line
    )
    report = read_submissions(text.encode(), file="job").report

    assert report is not None
    hints = [each.hint for each in report.diagnostics if each.code == "RT328"]
    assert hints == [f"srun --export=ALL,{told}"]
