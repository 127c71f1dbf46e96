"""The vendors' modules in a simulated run: scripts as vendors and users write them."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable.simulate.simulated_run import Run, findings
from tests.conftest import CORPUS
from tests.ranks import (
    SCRIPTS,
    TRAINING,
    chip_environment,
    free_port,
    job_variables,
    run_program,
    simulate,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.torch

SEED = CORPUS / "seed_000_all_reduce.py"
BOX = (0, 2, 6, 7, 3, 1, 5, 4)


def python(
    folder: Path,
    run: Run,
    table: str | None,
    *arguments: str,
    env: Mapping[str, str] | None = None,
) -> str:
    """Return what a script prints that torchrun has not started."""
    of_chips = chip_environment(folder, run, table)
    done = run_program("python", *arguments, env={**of_chips, **(env or {})})
    assert done.status == 0, done.err
    return done.out


@pytest.mark.parametrize(
    "chips", [((3, 1, 0, 2, 7, 6, 5, 4),), ((3, 1), (0, 2))], ids=["8", "2 x 2"]
)
def test_script_of_the_manual_adds_up_on_every_rank(
    chips: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    ended = simulate(tmp_path, SEED, Run(chips=chips))
    num_ranks = sum(map(len, chips))
    total = ", ".join([f"{num_ranks}."] * 4)

    assert ended.status == 0, ended.err
    # Python writes the end of a line by itself, so that lines may share one.
    assert sorted(re.findall(r"rank: \d+, results: tensor\(.*?\)", ended.out)) == [
        f"rank: {rank}, results: tensor([{total}])" for rank in range(num_ranks)
    ]
    assert ended.errors == []


def test_manuals_other_way_takes_the_local_rank(tmp_path: Path) -> None:
    ended = simulate(tmp_path, SCRIPTS / "sccl_set_chip_map.py", Run(chips=((1, 0),)))

    assert ended.status == 0, ended.err
    assert ended.said == [[0, "tpu:0", [2.0, 2.0]], [1, "tpu:1", [2.0, 2.0]]]


def test_tables_and_chip_maps_are_as_the_vendor_has_them(tmp_path: Path) -> None:
    folder, run = tmp_path, Run(chips=(BOX, BOX))
    own = write_table(folder, [[0, 1, 2, 3], [7, 6, 5, 4]])
    vendors = folder / "vendors.json"
    vendors.write_text(Path(own).read_text().replace("world_rank", "unknown"))
    out = python(folder, run, own, str(SCRIPTS / "chip_maps.py"), own, str(vendors))

    # On node 1 of two.
    assert json.loads(out.splitlines()[-1]) == CHIP_MAPS


TABLE = [0, 1, 2, 3, 7, 6, 5, 4]
CHIP_MAPS = {
    "valid": True,
    "set 1": [[0, 1], "0,1"],
    "set 2": [[0, 1], "0,1"],
    "set 3": "RuntimeError:  TPUGetC2CRing failed! Error Code : #1",
    "set 4": [[0, 1, 3, 2], "0,1,3,2"],
    "set 8": [[0, 2, 6, 7, 3, 1, 5, 4], "0,2,6,7,3,1,5,4"],
    "set ring": [[7, 6, 2, 3], "7,6,2,3"],
    "set no ring": [[0, 1, 3, 2], "0,1,3,2"],
    "set short": "ValueError: Size mismatch: got 2, expected 4",
    "set long": [[4, 5, 1], "4,5,1"],
    "set both": [[2, 6], "2,6"],
    "select 1": 4,
    "select 2": 0,
    "select -1": "ValueError: Invalid local_rank_idx: -1",
    "select 5": "IndexError: list index out of range",
    "select None": "TypeError: '>=' not supported between instances of 'NoneType' and "
    "'int'",
    "select without a map": 6,
    "device name": "tpu:4",
    "device number": "tpu:4",
    "device other": "cpu:1",
    "device without a map": "tpu:1",
    "not set": False,
    "missing": False,
    "read own": TABLE,
    "read vendor": TABLE,
    "read without RANK": TABLE,
    "set table": [TABLE, "7,6,5,4"],
    "select tpu:1": 4,
    "select tpu:6": 6,
    "device beyond": "tpu:5",
    "device pair": "tpu:4",
    "device cpu": "cpu:5",
}


NONE = "does, and this chip is simulated: there is none"
INTERFACE = """
    import json, sys
    import torch, torch_tpu
    assert torch_tpu.__simulated__ is True
    assert torch.tpu is torch_tpu.tpu
    assert torch_tpu.arch == "sg2260"
    tpu = torch.tpu
    tpu.set_device(3)
    tensor = torch.ones(2).tpu()
    with tpu.device(1):
        other = torch.ones(2, device="tpu")
    tpu.synchronize(); tpu.current_stream().synchronize(); tpu.empty_cache()
    tpu.manual_seed(1)
    matrix = [[0] * 8 for _ in range(8)]
    tpu.get_topology(matrix)
    options = torch_tpu.ProcessGroupSCCLOptions()
    options.chip_map.append(1)
    errors = []
    for call in (
        lambda: tpu.set_device(9),
        lambda: tpu.TPUGraph(),
        lambda: setattr(options, "chip_map", ["1"]),
        lambda: tpu.get_device_properties(9),
    ):
        try:
            call()
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    print(json.dumps([
        tpu.device_count(), tpu.is_available(), str(tensor.device), str(other.device),
        tpu.current_device(), tpu.get_device_name(), tpu.can_device_access_peer(0, 4),
        tpu.can_device_access_peer(4, 6),
        [chip for chip in range(8) if matrix[0][chip] >= 0],
        options.chip_map, errors,
    ]))
"""


def test_rest_of_the_interface_answers_or_says_why_not(tmp_path: Path) -> None:
    code = textwrap.dedent(INTERFACE)
    out = python(tmp_path, Run(chips=(BOX,)), None, "-c", code)

    assert json.loads(out) == [
        *(8, True, "tpu:3", "tpu:1", 3, "SG2260", True, False, [1, 2, 4], []),
        [
            "RuntimeError: tpu:9 does not exist; there are tpu:0, 2, 6, 7, 3, 1, 5, 4",
            f"NotImplementedError: torch_tpu.tpu.TPUGraph records what a chip {NONE}",
            "TypeError: chip_map must be a list of int, not ['1']",
            "AssertionError: Invalid device id",
        ],
    ]


def test_package_cannot_be_imported_outside_of_a_run(tmp_path: Path) -> None:
    env = chip_environment(tmp_path, Run(chips=((0,),)), None)
    env.pop("RANKTABLE_SIMULATE")
    done = run_program("python", "-c", "import torch_tpu", env=env)

    assert done.status == 1
    assert "NotSimulatedError: simulated chips exist only in a run of" in done.err


FORMS_CHIPS = (3, 1, 0, 2)


def test_job_says_which_device_ids_data_parallel_takes(tmp_path: Path) -> None:
    run = Run(chips=((3, 1),))
    ended = simulate(tmp_path, SCRIPTS / "sccl_own_join.py", run)

    assert ended.status == 0, ended.err
    assert ended.said == [
        [0, [0], "tpu:3", [1.0, 1.0, 1.0]],
        [1, [1], "tpu:1", [1.0, 1.0, 1.0]],
    ]


@pytest.mark.xdist_group("training")
def test_indices_are_mapped_as_by_the_vendor_with_a_warning(tmp_path: Path) -> None:
    run, script = Run(chips=(FORMS_CHIPS,)), SCRIPTS / "sccl_forms.py"
    ended = simulate(tmp_path, script, run, env=TRAINING)
    said: dict[int, dict[str, object]] = dict(ended.said)  # type: ignore[arg-type]

    assert ended.status == 0, ended.err
    assert sorted(said) == [0, 1, 2, 3]
    random = said[0].pop("random")
    for rank, chip in enumerate(FORMS_CHIPS):
        assert said[rank].pop("random", random) == random
        assert said[rank] == {
            "chips": [f"tpu:{chip}"],
            "twice": [f"tpu:{FORMS_CHIPS[chip]}"],
            "other": "cpu:3",
            "errors": ["mine", "again"],
            "seen": [chip, f"tpu:{chip}"],
            "grad": [f"tpu:{chip}", [3.0, 3.0, 3.0]],
            "same": True,
            "synchronised": "SyncBatchNorm needs batch_norm_stats, which neither a "
            "simulated tpu nor the vendor has; use BatchNorm",
        }
    assert isinstance(random, list)
    assert random[0] == 16  # no part is the same as another
    told = "as with torch_tpu, which, with CHIP_MAP=3,1,0,2,"
    assert sorted(each for each in ended.warnings if told in each) == [
        f"torch.device('cpu:0') is cpu:3, {told} maps the index of every kind",
        *(
            f"torch.device('tpu:{chip}') is tpu:{FORMS_CHIPS[chip]}, {told} takes "
            f"{chip} for a local rank; chip {chip} is tpu:{rank}"
            for chip, rank in ((0, 2), (2, 3), (3, 0))
        ),
    ]


MISSING = (
    "get_arch_list get_device_capability get_gencode_flags ipc_collect memory_usage "
    "utilization temperature power_draw clock_rate"
)
"""Of the vendor's names, those that only warn there."""


def test_what_cannot_run_says_so_in_a_sentence(tmp_path: Path) -> None:
    run = Run(chips=((3, 1, 0, 2),), timeout_s=3)
    out = python(
        tmp_path,
        run,
        write_table(tmp_path, [[3]]),
        str(SCRIPTS / "sccl_refused.py"),
        str(free_port()),
        env=job_variables(0, 1, free_port()),
    )
    told = json.loads(out)
    none = "and this chip is simulated: there is none"
    assert "DistNetworkError" in told.pop("unserved")

    assert told == {
        "ring": "RuntimeError:  TPUGetC2CRing failed! Error Code : #1",
        "operator": "NotImplementedError: torch.ops.my_ops.llama_mlp_forward is an "
        f"operator of torch_tpu's own, {none}",
        "scaler": "256.0 0.5",
        "options": "ProcessGroupSCCLOptions",
        "compiled": "NotImplementedError: torch_tpu._C.CallCppDynLib is compiled for a "
        f"chip, {none}",
        "versions": "NotImplementedError: torch_tpu.tpu.versions.driver_version says "
        f"how the driver of a chip was built, {none}",
        "timer": "NotImplementedError: torch_tpu.tpu.OpTimer_dump shows what its "
        f"operators took, {none}",
        "custom": "NotImplementedError: torch_tpu.tpu.custom_op.llama_mlp.LLamaMlp has "
        f"operators of a chip, {none}",
        "custom function": "NotImplementedError: "
        "torch_tpu.tpu.custom_op.llama_mlp.LLamaMlpFunc has operators of a chip, "
        f"{none}",
        "jit": "NotImplementedError: torch_tpu.jit.compile compiles for a chip, and "
        "this chip is simulated: there is none",
        "table": "NotImplementedError: torch_tpu.tpu.gen_sccl_rank_table.gen_sccl_json "
        f"is tpu_gen_sccl_rank_table, a command, {none}",
        "format": "NotImplementedError: torch_tpu.tpu_format_cast lays tensors out for "
        f"a chip, {none}",
        "parallel": "RuntimeError: DataParallel gives one process several chips, and "
        "on a simulated tpu a process has one; use DistributedDataParallel",
        "names": "sophgo",
        "version": "None",
        "utils": "NotImplementedError: torch_tpu.utils.compare.cos_sim serves the "
        f"tests and tools of the vendor, {none}",
        "host": "SimulationError: scclHost is torch_tpu's own gloo for tensors on "
        'chips, which is not simulated; init_process_group("sccl") takes them, and a '
        "group with gloo those on the CPU",
        "autocast": "False",
        "module": "0",
        "missing": MISSING,
    }
    messages = [found.message for found in findings(tmp_path)]
    assert "no 3 of the chips form a ring, which SCCL needs" in messages
    assert (
        "init_process_group without pg_options: torch_tpu raises TypeError: (): "
        "incompatible function arguments; here it is repaired"
    ) in messages


def test_start_of_the_chips_starts_no_threads_that_read_the_environment(
    tmp_path: Path,
) -> None:
    code = "import os, torch_tpu; print(len(os.listdir('/proc/self/task')))"
    before = python(tmp_path, Run(chips=(BOX,)), None, "-c", code.replace("_tpu", ""))
    out = python(tmp_path, Run(chips=(BOX,)), None, "-c", code)

    assert out == before
