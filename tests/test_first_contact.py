"""What a newcomer meets: streams, errors, and messages that name the user's things."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable import _error
from ranktable.cluster import ArgumentError, read_hostfile, read_spec
from tests.commands import BIN, run_in_shell, run_python
from tests.ranks import run_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.commands import Commands
    from tests.conftest import Run


TABLE = ("gen", "--device-id", "[[0..7]]", "--ring", "sophgo-8", "--output")


# Streams


@pytest.mark.parametrize("command", ["validate", "show", "show --digest"])
def test_what_a_shell_pipes_in_is_read(command: str, run: Run, tmp_path: Path) -> None:
    run("ranktable", *TABLE, "t.json")
    line = f"{BIN}/ranktable {command} <(cat t.json)"
    done = run_in_shell(line, tmp_path)

    assert (done.status, done.err) == (0, "")


# Files that cannot be written


def test_a_full_disk_names_the_file_of_the_user(tmp_path: Path) -> None:
    # Files of this process may have one byte: writing more fails as on a full disk.
    code = (
        "import resource, signal, ranktable\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))\n"
        "from ranktable.cluster.generate import make_table\n"
        "try:\n"
        "    ranktable.dump(make_table([[0]]), 'mine.json')\n"
        "except OSError as error:\n"
        "    print(error.filename)\n"
    )
    done = run_python("-c", code, cwd=tmp_path)

    assert (done.out, done.err) == ("mine.json\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_names_the_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "mine.json"

    with pytest.raises(FileNotFoundError) as caught:
        ranktable.dump(ranktable.loads(_table()), path)

    assert caught.value.filename == path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_standard_output_is_said(commands: Commands, tmp_path: Path) -> None:
    line = f"{shlex.join(['ranktable', *TABLE])} - >/dev/full"
    done = run_in_shell(line, tmp_path, programs=commands.folder)

    assert done.status == 2
    assert done.err.startswith("ranktable: <stdout>: no space left on device")


def _table() -> bytes:
    device = {"device_id": "0", "rank": "0", "local_rank": "0"}
    document = {"version": "1.0", "node_list": [{"device_list": [device]}]}
    return json.dumps(document).encode()


# A key for editors


def test_a_spec_may_name_its_schema() -> None:
    reading = read_spec(
        '{"$schema": "cluster-spec.schema.json", "nodes": 1, "chips": 2}'
    )

    assert reading.report.diagnostics == ()


# Errors


def test_every_public_error_is_one_of_ours() -> None:
    from ranktable import layout, runtime
    from ranktable.layout import change

    dist = pytest.importorskip("ranktable.dist")
    found = {
        value
        for package in (ranktable, ranktable.cluster, dist, layout, change, runtime)
        for name in package.__all__
        if name.endswith("Error") and isinstance(value := getattr(package, name), type)
    }

    assert len(found) > 10
    for error in found:
        assert issubclass(error, ranktable.Error), error
        assert error is ranktable.Error or issubclass(error, (ValueError, RuntimeError))
    assert ranktable.Error is _error.Error


def test_one_clause_catches_a_refusal_of_any_package() -> None:
    with pytest.raises(ranktable.Error):
        ranktable.loads(b"{")
    with pytest.raises(ranktable.Error):
        ranktable.cluster.read_hostfile("?")
    assert issubclass(ArgumentError, ValueError)


def test_collectives_without_torch_say_what_to_install(tmp_path: Path) -> None:
    # A finder without torch simulates an environment without it.
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(name, name='torch')\n"
        "sys.meta_path.insert(0, Without())\n"
        "try:\n"
        "    from ranktable.dist import all_reduce\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = run_python("-c", code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})

    assert done.out == (
        "ranktable.dist needs torch; install the build that fits your machine, "
        "such as: pip install torch\n"
    )


# ranktable run


@pytest.mark.torch
def test_a_rank_that_dies_at_once_shows_its_own_error_first(
    run: Run, tmp_path: Path
) -> None:
    run("ranktable", "gen", "--device-id", "[[0,1]]", "-o", "t.json")
    (tmp_path / "die.py").write_text(
        "import os\n"
        "if os.environ['RANK'] == '1':\n"
        "    raise ValueError('mine')\n"
        "from ranktable.runtime import init_process_group\n"
        "init_process_group(timeout_s=30)\n"
    )
    table, script = tmp_path / "t.json", tmp_path / "die.py"
    done = run_program("ranktable", "run", "--rank-table", table, script)

    assert done.status != 0
    first, _, torchrun = done.err.partition("ValueError: mine\n")
    assert first.startswith("Traceback (most recent call last):\n")
    assert "torch/" not in first
    assert "Traceback" not in torchrun
    assert "Root Cause (first observed failure):" in torchrun


@pytest.mark.parametrize("read", [ranktable.loads, read_spec, read_hostfile])
def test_what_is_neither_bytes_nor_text_is_a_type_error(
    read: Callable[[object], object],
) -> None:
    with pytest.raises(TypeError, match="text of a file, not NoneType"):
        read(None)


@pytest.mark.parametrize(
    ("read", "text"), [(read_spec, "nodes: 1\n"), (read_hostfile, "n1 slots=2\n")]
)
def test_a_bytearray_is_read_as_bytes(
    read: Callable[[bytes | bytearray], object], text: str
) -> None:
    data = text.encode()

    assert read(bytearray(data)) == read(data)
