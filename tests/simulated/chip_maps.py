"""What ``torch_tpu.tpu`` and ``torch.device`` make of tables and ``CHIP_MAP``."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial

import torch
import torch_tpu

tpu = torch_tpu.tpu
outcomes: dict[str, object] = {}


def outcome(call: Callable[[], object]) -> object:
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - any of the vendor's
        return f"{type(error).__name__}: {error}"
    return str(result) if isinstance(result, torch.device) else result


def note(name: str, call: Callable[[], object], **env: str | None) -> None:
    """Note what comes of a call, in an environment of its own."""
    before = dict(os.environ)
    for variable, value in env.items():
        os.environ.pop(variable, None)
        if value is not None:
            os.environ[variable] = value
    outcomes[name] = outcome(call)
    os.environ.clear()
    os.environ.update(before)


def chip_map_set(
    *, use_rank_table: bool = False, chip_map: list[int] | None = None
) -> object:
    options = torch_tpu.ProcessGroupSCCLOptions()
    tpu.set_chip_map(options, use_rank_table, chip_map)
    return [options.chip_map, os.environ["CHIP_MAP"]]


def selected(index: object) -> int:
    tpu.set_device(index)
    return int(tpu.current_device())


own, other = sys.argv[1:]  # a table with world_rank, and the vendor's own
note("valid", tpu.is_rank_table_valid, RANK_TABLE_FILE=own)
note("not set", tpu.is_rank_table_valid, RANK_TABLE_FILE=None)
note("missing", tpu.is_rank_table_valid, RANK_TABLE_FILE="/nowhere")
for name, table in (("own", own), ("vendor", other)):
    note(f"read {name}", tpu.read_rank_table, RANK_TABLE_FILE=table, RANK="5")
note("read without RANK", tpu.read_rank_table, RANK_TABLE_FILE=own, RANK=None)

for size in ("1", "2", "3", "4", "8"):
    note(f"set {size}", chip_map_set, LOCAL_WORLD_SIZE=size)
note("set ring", lambda: chip_map_set(chip_map=[7, 6, 2, 3]), LOCAL_WORLD_SIZE="4")
note("set no ring", lambda: chip_map_set(chip_map=[0, 1, 2, 3]), LOCAL_WORLD_SIZE="4")
note("set short", lambda: chip_map_set(chip_map=[0, 1]), LOCAL_WORLD_SIZE="4")
note("set long", lambda: chip_map_set(chip_map=[4, 5, 1]), LOCAL_WORLD_SIZE="2")
note(
    "set both",
    lambda: chip_map_set(chip_map=[4, 5]),
    LOCAL_WORLD_SIZE="2",
    CHIP_MAP="2, 6",
)
note(
    "set table",
    lambda: chip_map_set(use_rank_table=True),
    RANK_TABLE_FILE=own,
    RANK="5",
    LOCAL_RANK="1",
    LOCAL_WORLD_SIZE="4",
)

for index in (1, "2", -1, 5, None, "tpu:1", torch.device("tpu:6")):
    note(f"select {index}", partial(selected, index), CHIP_MAP="5,4,0")
note("select without a map", lambda: selected(6), CHIP_MAP=None)
for name, arguments in (
    ("name", ("tpu:1",)),
    ("number", (1,)),
    ("beyond", ("tpu:3",)),
    ("pair", ("tpu", 1)),
    ("cpu", ("cpu", 0)),
    ("other", ("cpu:1",)),
):
    note(f"device {name}", partial(torch.device, *arguments), CHIP_MAP="5,4,0")
note("device without a map", lambda: torch.device("tpu:1"), CHIP_MAP=None)
sys.stdout.write(json.dumps(outcomes) + "\n")
