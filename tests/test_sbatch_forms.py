"""Forms of batch scripts that are read, and what is said of the others."""

from __future__ import annotations

from tests.submission_cases import C10D, HEAD, found, notes, script


def test_number_of_nodes_that_chips_leave_open() -> None:
    line = f"srun torchrun --nnodes 2 --nproc-per-node 4 {C10D} t.py"
    text = script("--gpus=8 --ntasks-per-node=1", HEAD, line)
    one_more = script("--gpus=9 --gpus-per-node=4", "srun python t.py")

    assert found(text) == []
    assert notes(text) == [(6, "not judged: the file does not say the number of nodes")]
    assert found(one_more) == [("RT331", "error")]


def test_loop_and_function_that_the_file_does_not_say() -> None:
    two = "-N2 --ntasks-per-node=1"
    agent = "srun -N1 -n1 -w $n torchrun --nnodes 2 --node_rank 1 --master_addr a t.py"
    leaves = script(two, "for n in a b; do", "[ $n = a ] && continue", agent, "done")
    unknown = script(two, "for n in $N; do", f"{agent} &", "done", "wait")
    perhaps = script(two, "f() {", agent, "}", "[ -e x ] && f")

    assert [notes(each)[-1][0] for each in (leaves, unknown)] == [7, 6]
    assert notes(perhaps) == [(6, "not judged: it is in a condition")]


def test_what_ray_starts_is_not_judged() -> None:
    text = script(
        "-N2 --ntasks-per-node=1",
        "nodes=($(scontrol show hostnames))",
        "srun -N1 -n1 -w ${nodes[0]} ray start --head --block &",
        "for ((i = 1; i < SLURM_NNODES; i++)); do",
        "srun -N1 -n1 -w ${nodes[$i]} ray start --address ${nodes[0]}:6379 --block &",
        "done",
        "python t.py",
    )

    assert found(text) == []
    assert [line for line, _ in notes(text)] == [6, 8]


def test_loops_and_functions_that_repeat_without_end() -> None:
    calls = [f"f{i}() {{ f{i - 1}; f{i - 1}; }}" for i in range(1, 60)]
    called = script("-N1", "f0() { srun torchrun t.py; }", *calls, "f59")

    for text in (called, called.replace("f59\n", "\n"), called + "\n[ -e x ] && f59"):
        assert len(notes(text)) > 0


def test_arguments_of_a_shell_reach_its_text() -> None:
    text = script("-N2 -n2", "srun bash -c 'exec \"$@\"' - torchrun --nnodes 3 t.py")

    assert ("RT322", "error") in found(text)


def test_words_of_blocks_that_stand_alone() -> None:
    for word in ("function", "for", "for i", "let", "((", "for ((", "f() {"):
        assert notes(script("-N1 -n2", "srun torchrun t.py", word)) == []


def test_option_that_names_a_file_of_python_ends() -> None:
    text = script("-N1 --gpus-per-node=4", "deepspeed --num_gpus 4 --user=a.py t.py")

    assert found(text) == []
