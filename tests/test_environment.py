"""Who the process is, from literal environments."""

from __future__ import annotations

import pytest

from ranktable.runtime import (
    ConflictingVariablesError,
    Environment,
    InvalidVariableError,
    LaunchEnvironmentError,
    MissingVariableError,
    resolve_environment,
)
from ranktable.runtime.chip_map import read_chip_map, refuse_contradiction
from ranktable.runtime.process_group import place

# torchrun of torch 2.13.0: --nnodes 2 --nproc-per-node 4, rank 5.
from tests.environments import variables

TORCHRUN = variables(
    "GROUP_RANK=1 GROUP_WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "
    "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 RANK=5 ROLE_NAME=default ROLE_RANK=5 "
    "ROLE_WORLD_SIZE=8 TORCHELASTIC_MAX_RESTARTS=0 TORCHELASTIC_RESTART_COUNT=0 "
    "TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=True WORLD_SIZE=8"
)


def test_torchruns_variables_say_everything() -> None:
    env = {**TORCHRUN, "RANK_TABLE_FILE": "/t.json"}

    assert resolve_environment(env) == Environment(
        rank=5,
        world_size=8,
        local_rank=1,
        local_world_size=4,
        node_rank=1,
        num_nodes=2,
        master_addr="127.0.0.1",
        master_port=29500,
        launcher="torchrun",
        rank_table_file="/t.json",
        sources={
            "rank": "RANK",
            "world_size": "WORLD_SIZE",
            "local_rank": "LOCAL_RANK",
            "local_world_size": "LOCAL_WORLD_SIZE",
            "node_rank": "GROUP_RANK",
            "num_nodes": "GROUP_WORLD_SIZE",
            "master_port": "MASTER_PORT",
            "master_addr": "MASTER_ADDR",
            "rank_table_file": "RANK_TABLE_FILE",
        },
    )


def test_nothing_is_guessed() -> None:
    assert resolve_environment({}) == Environment()
    assert resolve_environment({"RANK": "", "WORLD_SIZE": ""}) == Environment()


def test_variables_set_by_hand_are_enough() -> None:
    found = resolve_environment({"RANK": "0", "WORLD_SIZE": "2"})

    assert (found.rank, found.world_size, found.launcher) == (0, 2, "environment")
    assert found.local_rank is None


@pytest.mark.parametrize(
    "value",
    ["abc", " 1", "1 ", "+1", "-1", "01", "1.0", "1_0", "0x1", "１", "9" * 20],  # noqa: RUF001
)
def test_rank_that_is_no_plain_number_is_refused(value: str) -> None:
    with pytest.raises(InvalidVariableError, match="RT302 RANK is") as raised:
        resolve_environment({**TORCHRUN, "RANK": value})

    assert raised.value.variables == {"RANK": value}


@pytest.mark.parametrize(
    ("name", "value"),
    [("WORLD_SIZE", "0"), ("MASTER_PORT", "0"), ("MASTER_PORT", "65536")],
)
def test_value_out_of_range_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidVariableError, match=f"{name} is '{value}'"):
        resolve_environment({**TORCHRUN, name: value})


@pytest.mark.parametrize(
    ("kept", "lost"), [("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")]
)
def test_half_of_a_pair_is_refused(kept: str, lost: str) -> None:
    with pytest.raises(MissingVariableError, match=f"{lost} is not set") as raised:
        resolve_environment({kept: "1"})

    assert raised.value.variables == {kept: "1", lost: None}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": "8"}, "RANK=8 is not below WORLD_SIZE=8"),
        ({"LOCAL_RANK": "4"}, "LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4"),
        ({"GROUP_RANK": "2"}, "GROUP_RANK=2 is not below GROUP_WORLD_SIZE=2"),
        ({"LOCAL_WORLD_SIZE": "9"}, "LOCAL_WORLD_SIZE=9 is more than WORLD_SIZE=8"),
        ({"GROUP_WORLD_SIZE": "9"}, "GROUP_WORLD_SIZE=9 is more than WORLD_SIZE=8"),
    ],
)
def test_contradiction_names_both_variables(
    changed: dict[str, str], message: str
) -> None:
    with pytest.raises(ConflictingVariablesError, match=message) as raised:
        resolve_environment({**TORCHRUN, **changed})

    assert len(raised.value.variables) == 2
    assert isinstance(raised.value, LaunchEnvironmentError)


def test_chip_map_is_a_list_of_distinct_chips() -> None:
    assert read_chip_map({"CHIP_MAP": "0,2,6,7"}) == [0, 2, 6, 7]
    assert read_chip_map({"CHIP_MAP": "0, 2, 6 ,7"}) == [0, 2, 6, 7]
    assert read_chip_map({"CHIP_MAP": ""}) is None
    assert read_chip_map({}) is None
    for value in ("0,,1", "a", "0,0", "1,01", "-1", "0;1", "[0,1]", "0 1", " ", "0\n"):
        with pytest.raises(InvalidVariableError, match="CHIP_MAP is"):
            read_chip_map({"CHIP_MAP": value})


def test_chip_map_that_contradicts_the_table_is_refused() -> None:
    refuse_contradiction(None, [0, 2])
    refuse_contradiction((0, 2), [0, 2])
    with pytest.raises(ConflictingVariablesError, match="RT305 CHIP_MAP is '2,0'"):
        refuse_contradiction((2, 0), [0, 2])


def test_place_that_nothing_says_stays_unknown() -> None:
    chips = Environment(rank=0, world_size=2, local_chip_map=(5, 7))
    placed = place(chips, None)

    assert (placed.local_rank, placed.device_id) == (None, None)
    with pytest.raises(MissingVariableError, match="LOCAL_RANK is not set"):
        place(chips, None, needs_device=True)


def test_chip_is_the_one_of_the_local_rank() -> None:
    placed = place(
        Environment(rank=3, world_size=4, local_rank=1, local_chip_map=(5, 7)), None
    )

    assert (placed.device_id, placed.local_chip_map) == (7, (5, 7))
