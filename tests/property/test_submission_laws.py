"""Laws of submissions: right ones are silent however they are written, and wrong ones
are found however they are written; any text ends in findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from ranktable.cluster.submissions.read_submissions import read_submissions
from ranktable.runtime.submitted import predict
from tests.effort import law, within_cpu
from tests.submission_cases import found, read_cases, script

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES = st.integers(2, 5)
CHIPS = st.integers(1, 8)
HEADS = (
    "head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
    "head=$(scontrol show hostname $SLURM_NODELIST | sed -n 1p)",
    "nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST)); head=${nodes[0]}",
    "head=$(hostname)",
    "head=`scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1`",
)
PORTS = ("$((20000 + SLURM_JOB_ID % 10000))", "$PORT", "29500")
HARMLESS = (
    "",
    "# srun torchrun --nnodes 99 t.py",
    "set -euo pipefail",
    "module load cuda/12.1",
    "source ~/venv/bin/activate",
    'echo "srun starts $SLURM_NNODES"',
    "export NCCL_DEBUG=INFO OMP_NUM_THREADS=4",
    "nvidia-smi -L",
    "srun hostname",
    "cat <<EOF > notes\nsrun torchrun --nnodes 99 t.py\nEOF",
    "cd $SLURM_SUBMIT_DIR || exit 1",
    "mkdir -p logs && date",
    "x='$(' y=\"a b\" ",
)


class Job(NamedTuple):
    """The sizes of a job."""

    nodes: int
    chips: int
    agents: int
    processes: int


@st.composite
def spelled(draw: st.DrawFn, name: str, value: object) -> str:
    """Return an option of torchrun in one of its spellings."""
    written = name if draw(st.booleans()) else name.replace("-", "_")
    return f"--{written}{draw(st.sampled_from((' ', '=')))}{value}"


@st.composite
def torchrun_scripts(draw: st.DrawFn, job: Job) -> str:
    """Return a script that starts one agent on every node."""
    short = draw(st.booleans())
    options = [
        f"-N{job.nodes}" if short else f"--nodes={job.nodes}",
        f"--gres=gpu:{job.chips}" if short else f"--gpus-per-node={job.chips}",
    ]
    options += draw(
        st.sampled_from(
            ([], ["--ntasks-per-node=1"], [f"-n{job.nodes}"], ["--cpus-per-task=8"])
        )
    )
    variables = draw(st.booleans())
    agents = "$AGENTS" if variables else str(job.agents)
    if job.agents == job.nodes and draw(st.booleans()):
        agents = draw(st.sampled_from(("$SLURM_NNODES", "${SLURM_JOB_NUM_NODES}")))
    words = [
        draw(spelled("nnodes", agents)),
        draw(spelled("nproc-per-node", "$EACH" if variables else job.processes)),
        draw(spelled("rdzv-backend", "c10d")),
        draw(spelled("rdzv-endpoint", f"$head:{draw(st.sampled_from(PORTS))}")),
        draw(spelled("rdzv-id", "$SLURM_JOB_ID")),
    ]
    agent = draw(
        st.sampled_from(
            ("torchrun", "python -m torch.distributed.run", "/opt/torchrun")
        )
    )
    line = f"{agent} {' '.join(draw(st.permutations(words)))} train.py --lr 1"
    if draw(st.booleans()):
        line = line.replace(" --", " \\\n    --")
    form = draw(st.sampled_from(("{}", 'bash -c "{}"', "-l --label {}", "ARRAY")))
    lines = [f"AGENTS={job.agents}; EACH={job.processes}", draw(st.sampled_from(HEADS))]
    if form == "ARRAY":
        lines.append(f"COMMAND=({line})")
        form, line = "{}", '"${COMMAND[@]}"'
    lines.append(f"srun {form.format(line)}")
    before = draw(st.lists(st.sampled_from(HARMLESS), max_size=3))
    return script(" ".join(draw(st.permutations(options))), *before, *lines)


@given(st.data(), NODES, CHIPS)
@law(200)
def test_right_agents_are_silent_however_they_are_written(
    data: st.DataObject, nodes: int, chips: int
) -> None:
    text = data.draw(torchrun_scripts(Job(nodes, chips, nodes, chips)))

    assert found(text) == []
    assert ranks_of(text) == list(range(nodes * chips))


@given(st.data(), NODES, CHIPS, st.integers(1, 4))
@law(100)
def test_more_processes_than_chips_are_found(
    data: st.DataObject, nodes: int, chips: int, more: int
) -> None:
    text = data.draw(torchrun_scripts(Job(nodes, chips, nodes, chips + more)))

    assert found(text) == [("RT320", "error")]


@given(st.data(), NODES, CHIPS, st.integers(-2, 3).filter(bool))
@law(100)
def test_another_number_of_agents_is_found(
    data: st.DataObject, nodes: int, chips: int, more: int
) -> None:
    agents = max(1, nodes + more)
    text = data.draw(torchrun_scripts(Job(nodes, chips, agents, chips)))

    assert ("RT322", "error") in found(text)


@given(NODES, CHIPS, st.lists(st.sampled_from(HARMLESS), max_size=4))
@law(100)
def test_one_task_for_each_chip_is_silent(
    nodes: int, chips: int, lines: Sequence[str]
) -> None:
    options = f"-N{nodes} --ntasks-per-node={chips} --gpus-per-node={chips}"
    text = script(options, *lines, "srun python train.py")

    assert found(text) == []
    assert ranks_of(text) == list(range(nodes * chips))


VALUES = {
    "MASTER_ADDR": {"localhost": "RT326", "127.0.0.1": "RT326", "n1:29500": "RT326"},
    "MASTER_PORT": {"auto": "RT327", "-1": "RT327", "70000": "RT327"},
    "WORLD_SIZE": {"3": "RT325", "1": "RT325"},
    "RANK": {"0": "RT324"},
}
RIGHT = {
    "MASTER_ADDR": ("$head", "n1", "fd00::1", "$UNKNOWN", "${E%:*}"),
    "MASTER_PORT": ("29500", "$((20000 + SLURM_JOB_ID % 10000))", "$UNKNOWN"),
    "WORLD_SIZE": ("8", "$SLURM_NTASKS", "$UNKNOWN"),
    "RANK": ("$UNKNOWN",),
}
GIVING = (
    "export {0}={1}\nsrun {2}",
    "{0}={1} srun {2}",
    "env A=1 {0}={1} srun {2}",
    "srun --export=ALL,{0}={1} {2}",
    "srun env {0}={1} {2}",
    "srun --label bash -c 'env {0}={1} {2}'",
    "mpirun -x A -x {0}={1} -np 8 {2}",
    "export {0}={1}\nmpirun -x {0} --map-by ppr:4:node {2}",
    "export {0}={1}\nmpiexec.hydra -n 8 -ppn 4 {2}",
    "export {0}={1}\nmpiexec -genvlist A,{0} -n 8 {2}",
    "mpiexec -genv {0} {1} -genvnone -n 8 {2}",
    "mpirun -np 8 env {0}={1} {2}",
)


@given(st.data(), st.sampled_from([*VALUES]), st.sampled_from(GIVING), st.booleans())
@law(200)
def test_variable_is_judged_alike_however_the_processes_get_it(
    data: st.DataObject, name: str, form: str, is_right: bool
) -> None:
    value = data.draw(st.sampled_from([*(RIGHT if is_right else VALUES)[name]]))
    before = data.draw(st.lists(st.sampled_from(HARMLESS), max_size=2))
    lines = [*before, f"export {HEADS[0]}", form.format(name, value, "python t.py")]
    text = script("-N2 --ntasks-per-node=4 --gpus-per-node=4 --exclusive", *lines)

    expected = [] if is_right else [(VALUES[name][value], "error")]
    assert found(text) == expected


def ranks_of(text: str) -> list[int | None]:
    """Return the ranks that the last line of a script would start."""
    one = read_submissions(text.encode(), file="job").submissions[-1]
    places = [each.environment for each in predict(one)]
    return [None if place is None else place.rank for place in places]


KNOWN = [
    text
    for folder in ("scripts", "manifests")
    for _, *both in read_cases(folder).values()
    for text in both
]
PIECES = (
    *("$(", "`", '"', "'", "${", "((", "))", "\\", "\n", "<<EOF\n", "for ", "done"),
    *("{", "}", "[", "null", "-1", "999999999999", "srun ", "torchrun ", "&&", "||"),
    *(
        "\ue000",
        "\0",
        "{{ .V }}",
        "{{- if x }}",
        "- ",
        ": ",
        "&a ",
        "*a",
        "!!x ",
        "\u00e9",
    ),
    *("0", "=0 ", " 0 ", ": 0,", "\u00a0", "\u2028", "\f", "\v", "\x1c", "\r"),
)


@given(
    st.sampled_from(KNOWN),
    st.lists(
        st.tuples(st.integers(0, 800), st.integers(0, 12), st.sampled_from(PIECES)),
        min_size=1,
        max_size=5,
    ),
)
@law(500)
def test_damaged_file_ends_in_findings(
    text: str, changes: Sequence[tuple[int, int, str]]
) -> None:
    for at, length, piece in changes:
        text = text[:at] + piece + text[at + length :]
    for is_script in (True, False):
        read = read_submissions(text.encode(), file="job", is_script=is_script)
        for one in read.submissions:
            list(predict(one))


def test_cost_is_linear() -> None:
    count = 20_000
    line = "srun torchrun --nnodes 2 --nproc-per-node 4 t.py"
    texts = [
        script("-N2", *(f'export V{n}="$V{n - 1} x"' for n in range(count)), line),
        script("-N2", *[line] * count),
        script("-N2", *(f"A+=( {n} )" for n in range(count)), 'srun python "${A[@]}"'),
        script("-N2", *(f"V{n}=1" for n in range(count)), *[f"X=1 {line}"] * count),
    ]

    for text in texts:
        within_cpu(60, lambda text=text: read_submissions(text.encode(), file="job"))  # type: ignore[misc]
