"""The simulated SCCL: groups of real processes, started by torchrun."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ranktable.simulate.simulated_run import Fault, Run, RunFinding
from tests.ranks import (
    SCRIPTS,
    TRAINING,
    SimulatedJob,
    simulate,
)

pytestmark = pytest.mark.torch

EXAMPLE = Path(__file__).parent.parent / "examples" / "all_reduce.py"
RING = (3, 1, 0, 2)
STEPS = SCRIPTS / "sccl_steps.py"
GROUP = "the default group"
STEP = "all_reduce of 4 float32 (SUM)"
FEW_FILES = 29
"""Besides those that read the table."""
SHORT_S = 4.0
"""Time after which a rank is missed; all the others start within it of each other."""


def succeeded(ended: SimulatedJob) -> SimulatedJob:
    assert ended.status == 0, ended.err + ended.out
    assert "terminate called" not in ended.err
    return ended


def test_collectives_and_refusals_are_those_of_the_vendors_code(
    tmp_path: Path,
) -> None:
    run = Run(chips=(RING[:3],))
    ended = succeeded(simulate(tmp_path, SCRIPTS / "sccl_collectives.py", run))

    def expected(rank: int) -> dict[str, str]:
        ours = f"SimulationError: rank {rank} gives"
        return {
            "avg": "RuntimeError: Cannot use ReduceOp.AVG with SCCL",
            "band": "RuntimeError: Cannot use ReduceOp.BAND with SCCL",
            "reduce bxor": "RuntimeError: Cannot use ReduceOp.BXOR with SCCL",
            "float64": "RuntimeError: Invalid scalar type",
            "int16": "RuntimeError: Invalid scalar type",
            "cpu": "RuntimeError: "
            "ProcessGroupSCCL::allreduce: unsupported device type cpu",
            "cpu broadcast": "RuntimeError: "
            "ProcessGroupSCCL::broadcast: unsupported device type cpu",
            "reduce_scatter": "RuntimeError: "
            "ProcessGroupSCCL does not support reduce_scatter",
            "reduce_scatter_tensor": "RuntimeError: "
            "Backend SCCL does not support _reduce_scatter_base",
            "all_to_all": "RuntimeError: Backend SCCL does not support alltoall",
            "recv from any": "RuntimeError: "
            "Backend SCCL does not support recvAnysource",
            "list length": "RuntimeError: ProcessGroupSCCL::allgather: invalid output "
            "tensor list at index 0 (expected length 3, got 1)",
            "not contiguous": f"{ours} all_reduce a tensor that is not contiguous; "
            "SCCL reads its memory as if it were contiguous, so it would take "
            "wrong values; pass tensor.contiguous()",
            "short output": f"{ours} all_gather_into_tensor an output of 1 elements, "
            "but SCCL writes 6, past its end if it is too small",
            "output type": f"{ours} all_gather_into_tensor an output of "
            "torch.float16, but SCCL writes torch.float32",
            "undivided": "RuntimeError: all_to_all_single: the 4 rows of a tensor are "
            "not divided into 3 equal parts for 3 ranks",
            "uneven parts": f"{ours} all_to_all_single parts of [2, 0, 1] elements; "
            "SCCL ignores this and makes all parts equal",
        }

    assert ended.said == [[rank, "sccl", expected(rank)] for rank in range(3)]


@pytest.mark.xdist_group("training")
def test_what_stands_on_collectives_works_as_on_the_cpu(tmp_path: Path) -> None:
    run, script = Run(chips=((3, 1),)), SCRIPTS / "sccl_libraries.py"
    ended = succeeded(simulate(tmp_path, script, run, env=TRAINING))

    assert ended.said == [[0, "done"], [1, "done"]]
    assert ended.errors == []
    missing = "Backend SCCL does not support allgather_into_tensor_coalesced"
    assert any(missing in message for message in ended.warnings)


@pytest.mark.xdist_group("training")
@pytest.mark.parametrize("chips", [(3, 1), pytest.param(RING, marks=pytest.mark.slow)])
def test_training_on_several_chips_gives_what_one_process_does(
    tmp_path: Path, chips: tuple[int, ...]
) -> None:
    run, script = Run(chips=(chips,)), SCRIPTS / "sccl_training.py"
    folder = str(tmp_path / "checkpoint")
    ended = succeeded(simulate(tmp_path, script, run, folder, env=TRAINING))

    data_parallel = ["accumulation", "AMP", "checkpointing", "all three"]
    tensor_parallel = ["tensor parallel", "tensor parallel by hand"]
    pipelines = ["GPipe", "1F1B", "interleaved 1F1B"]
    passed = [*data_parallel, *tensor_parallel, *pipelines, "DCP"]
    assert ended.said == [[rank, passed] for rank in range(len(chips))]
    assert ended.errors == []


@pytest.mark.xdist_group("training")
def test_compiled_code_and_barrier_use_the_chip_and_not_the_local_rank(
    tmp_path: Path,
) -> None:
    run, script = Run(chips=((3, 1),)), SCRIPTS / "sccl_compiled.py"
    ended = succeeded(simulate(tmp_path, script, run, env=TRAINING))

    assert ended.said == [
        [rank, {"compiled": [f"tpu:{chip}", [2.0, 2.0]], "our files": []}]
        for rank, chip in enumerate((3, 1))
    ]
    assert ended.errors == []


def test_rank_that_never_called_set_device_is_told_so(tmp_path: Path) -> None:
    run = Run(chips=((3, 1),), timeout_s=SHORT_S)
    ended = simulate(tmp_path, SCRIPTS / "sccl_unselected.py", run)

    sentence = (
        "rank 1 gives all_reduce a tensor on chip 3 because it has never called "
        "set_device, but the chip map of the group gives it chip 1"
    )
    assert sentence in ended.errors


def test_folder_of_a_run_does_not_grow_with_transfers_and_groups(
    tmp_path: Path,
) -> None:
    run = Run(chips=((3, 1),))
    ended = succeeded(simulate(tmp_path, SCRIPTS / "sccl_transfers.py", run))

    of_ranks: list[list[int]] = ended.said  # type: ignore[assignment]
    _, before, after = of_ranks[0]

    assert 0 < before == after


def test_start_of_a_rank_until_its_first_collective_passes_few_files(
    tmp_path: Path,
) -> None:
    ended = simulate(tmp_path, SCRIPTS / "sccl_passed_files.py", Run(chips=((3, 1),)))
    said: list[list[list[str]]] = ended.said  # type: ignore[assignment]

    assert [each[:2] for each in said] == [[0, [2.0] * 4], [1, [2.0] * 4]]
    for _, _, files in said:
        own = [file for file in files if not file.startswith("schema/")]
        assert len(own) < FEW_FILES, own


def test_mistakes_that_real_chips_do_not_report_are_reported_by_rank(
    tmp_path: Path,
) -> None:
    run = Run(chips=((3, 1, 0),), timeout_s=30)
    ended = succeeded(simulate(tmp_path, SCRIPTS / "sccl_mistakes.py", run))

    ours = {
        "maps differ": "the chip maps differ: rank 1 holds [0, 1, 3], ranks 0 and 2 "
        "hold [3, 1, 0]",
        "shared chip": "ranks 1 and 2 use the same chip, 1 of node 0",
        "absent chip": "rank 2 uses chip 9, which node 0 does not have; it has 3, 1, 0",
        "other chip selected": "rank 2 selected chip 1, but the chip map gives it "
        "chip 0",
        "other size": "in collective 1 of the default group rank 2 calls all_reduce of "
        "5 float32 (SUM), ranks 0 and 1 call all_reduce of 4 float32 (SUM)",
        "other operation": "in collective 2 of the default group rank 0 calls barrier, "
        "ranks 1 and 2 call all_reduce of 4 float32 (SUM)",
        "other root": "in collective 3 of the default group rank 0 calls broadcast of "
        "4 float32 from rank 0, ranks 1 and 2 call broadcast of 4 float32 from rank 1",
        "gone": "rank 2 left the group before barrier, collective 5 of the "
        "default group",
    }
    of_members = {
        "sub-group": "the group of ranks 1 and 2 has the chip map [3, 1], so SCCL "
        "would use the wrong chips; theirs are [1, 0]: pass options with "
        "this map to new_group()",
        "barrier": "rank 1 gives barrier chip 3, but the chip map of the group gives "
        "it chip 1",
    }
    of_pair = {
        "other tensor": "rank 0 sends 5 float32 to rank 1, which receives 4 float32"
    }
    of_rank_2 = (
        "rank 2 gives all_reduce a tensor on chip 3, but the chip map of the group "
        "gives it chip 0"
    )
    vendors = {
        "short map": "RuntimeError: chip map size must be same with the nranks\n"
    }

    def told(sentences: dict[str, str]) -> dict[str, str]:
        errors = {name: f"SimulationError: {text}" for name, text in sentences.items()}
        return {**errors, **vendors}

    assert ended.said == [
        [0, told(ours)],
        [1, told({**ours, **of_pair, **of_members})],
    ]
    several = {**ours, **of_pair, **of_members}
    assert set(ended.errors) == {*several.values(), of_rank_2}
    no_ring = (
        "the chips 3, 1, 0 of node 0 are not in the order of a ring, which SCCL needs: "
        "on the published box there is no link between 0 and 3"
    )
    no_options = (
        "new_group without pg_options: torch_tpu raises TypeError: (): incompatible "
        "function arguments; here it is repaired"
    )
    assert sorted(ended.warnings) == [no_options, no_ring]


def faulty(folder: Path, *faults: Fault) -> SimulatedJob:
    run = Run(chips=(RING[:2],), timeout_s=SHORT_S, faults=faults)
    ended = simulate(folder, STEPS, run)
    assert "terminate called" not in ended.err
    return ended


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (
            Fault(kind="hang", rank=0, collective=2),
            f"rank 0 did not reach {STEP}, collective 2 of {GROUP}, within 4 s",
        ),
        (
            Fault(kind="die", rank=1, collective=3),
            f"rank 1 ended before {STEP}, collective 3 of {GROUP}",
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else None,
)
def test_fault_ends_the_run_with_one_sentence_that_names_the_rank(
    fault: Fault, sentence: str, tmp_path: Path
) -> None:
    ended = faulty(tmp_path, fault)

    assert ended.status == 1
    assert ended.out == ""
    errors = [found for found in ended.findings if found.severity == "error"]
    assert errors == [RunFinding(severity="error", rank=fault.rank, message=sentence)]
    assert f"SimulationError: {sentence}" in ended.err


def test_rank_that_ends_while_others_send_and_receive_is_named_at_once(
    tmp_path: Path,
) -> None:
    script, run = SCRIPTS / "sccl_lost_peer.py", Run(chips=(RING[:3],))
    folder, noted = tmp_path / "run", tmp_path / "noted"
    folder.mkdir()
    noted.mkdir()
    ended = simulate(folder, script, run, str(noted))

    assert [found.rank for found in ended.findings if found.severity == "error"] == [2]
    (sentence,) = ended.errors
    assert re.fullmatch(
        "rank 2 ended during the recv of 4 float32 by rank [01] from rank 2",
        sentence,
    )
    said = [line for line in ended.said if isinstance(line, list)]
    assert [line[:2] for line in said] == [[0, sentence], [1, sentence]]
    assert all(line[2] < 40 for line in said)  # it is waited for a minute


def test_group_of_ranktable_itself_waits_for_a_late_rank(tmp_path: Path) -> None:
    late = Fault(kind="late", rank=1, delay_s=1.5)
    ended = succeeded(simulate(tmp_path, EXAMPLE, Run(chips=((3, 1),), faults=(late,))))

    assert sorted(ended.out.splitlines()) == [
        "rank 0: chip 3: [2., 2., 2., 2.]",
        "rank 1: chip 1: [2., 2., 2., 2.]",
    ]
    assert ended.findings == []
