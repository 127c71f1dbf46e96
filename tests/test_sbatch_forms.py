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
