"""Every command is given every kind of file, and never has an internal error."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

import ranktable
from ranktable.schema.formats import by_name, names
from tests.test_file_kinds import SOUND, config_map

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


WAITING = '{"status": "initializing"}'


def files() -> dict[str, bytes]:
    """Return a file of each kind, and damaged ones, by a name for them."""
    tables = {name: json.dumps(by_name(name).example) for name in names()}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": []}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    packed = base64.b64encode(gzip.compress(tables["hccl-cloud"].encode())).decode()
    texts = {
        **tables,
        **SOUND,
        "placeholder": WAITING,
        "misspelt": '{"status": "initialising"}',
        "waiting map": yaml.safe_dump(config_map(**{"hccl.json": WAITING})),
        "map": yaml.safe_dump(config_map(t=tables["hccl-1.0"])),
        "two": yaml.safe_dump(config_map(a=tables["sccl-1.0"], b=WAITING)),
        "packed": yaml.safe_dump(config_map(t=packed)),
        "other map": yaml.safe_dump(config_map(hostfile=SOUND["host-file"])),
        "pods": json.dumps(pods),
        "job": yaml.safe_dump(job),
        "script": "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n",
        "no nodes": '{"version": "1.0", "node_list": []}',
        "list": "[]",
        "number": "1",
        "empty": "",
        "text": "hello\n",
        "cut": tables["hccl-1.2"][:-9],
    }
    return {
        **{name: text.encode() for name, text in texts.items()},
        "wide": tables["sccl-1.0"].encode("utf-16"),
        "binary": bytes(range(256)),
    }


COMMANDS = (
    *("validate F", "validate F --format json", "validate F --format sarif"),
    *("validate F --for hccl --tp 2 --chip A2", "validate F --diff", "validate ."),
    *("validate F --from kubernetes", "validate F --from hccl-1.0"),
    *("show F", "show F --tree", "show F --links sophgo-8", "show F --rank 0"),
    *("show F --format json", "show F --node 0", "explain RT262"),
    *(
        "convert F --to kubernetes",
        "convert F --to sccl-1.0",
        "convert F --to torchrun",
    ),
    *("convert F --to hccl-1.2 --pods 0", "convert F --to openmpi-rankfile --hosts n1"),
    *("convert F --from kubernetes --to sccl-1.0", "convert F --to hccl-2.0"),
    *("merge F", "merge F F", "merge .", "merge F --renumber", "split F -o parts"),
    *("split F --renumber -o parts", "split F --ranks 0", "fit F"),
    *("fit F --lost 0 -o out", "fit F --hosts-from F -o out", "fit F --with F --grow"),
    *("plan F --tp 1", "plan F --dp -1 -o out"),
    *("mesh F --dp -1", "diff F F", "diff F F --dp -1", "report F -o out"),
    *("report F --markdown", "check F", "check F --pods F", "doctor F"),
    *("doctor F --rank-table F", "wait F --timeout 0", "gen --spec F"),
    *("run --table F true", "show F --tree --racks F", "validate F --topology F"),
    *("validate F --schema F", "plan F --tp 1 --racks F", "env F"),
)


@pytest.mark.parametrize("name", files())
def test_no_command_has_an_internal_error(name: str, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    for command in COMMANDS:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "F").write_bytes(files()[name])
        done = run(  # the fixture refuses an internal error
            *("ranktable", *command.split()), cwd=folder, env={"RANK_TABLE_FILE": "F"}
        )

        assert done.status in (0, 1, 2, 3), (command, done.err)


@pytest.mark.parametrize("name", files())
def test_no_function_of_python_has_another_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "F").write_bytes(files()[name])
    try:
        table = ranktable.load(tmp_path / "F")
    except ranktable.RankTableError as error:
        assert error.diagnostics  # noqa: PT017 - either is right
        return
    assert table.rank_end == table.world_size == len(table.chip_map)
    assert ranktable.loads(ranktable.dumps(table)).digest() == table.digest()


@pytest.mark.parametrize("command", ["merge F", "split F -o out"])
def test_a_cloud_table_is_not_changed_and_the_message_says_what_to_do(
    command: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "F").write_bytes(files()["hccl-cloud"])
    done = run("ranktable", *command.split())

    assert done.status == 2
    assert "ranktable convert --to hccl-1.0 makes a table" in done.err


@pytest.mark.parametrize("name", ["placeholder", "waiting map"])
@pytest.mark.parametrize(
    "command",
    ["convert F --to kubernetes", "show F --links sophgo-8", "mesh F --dp -1"],
)
def test_a_placeholder_is_refused_where_a_table_is_needed(
    command: str, name: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "F").write_bytes(files()[name])
    done = run("ranktable", *command.split())

    assert (done.status, done.out) == (2, "")
    assert "a placeholder does not give ranks" in done.err
    assert "ranktable wait FILE waits until it is" in done.err
