"""The SCCL backend through its interface: a recorder replaces the chips.

The library is closed and needs a SOPHGO machine, so what can be held here is what our
code asks of it; the two generations of torch_tpu are told apart as in the field.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ranktable.runtime import BootstrapError, ConflictingVariablesError
from ranktable.runtime.backends.backend import SCCL
from ranktable.runtime.backends.sccl import package_owner
from tests.commands import run_python, torch_environment
from tests.file_cases import write_files
from tests.ranks import run_program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands import Outcome

# A torch_tpu that writes down what it is asked, as SOPHGO's since July 2025 (with
# map_local_rank_to_device_idx) or before. The tensor device is the CPU.
RECORDER = """
class ProcessGroupSCCLOptions:
    def __init__(self):
        self.chip_map = []

class tpu:
    calls = []
    {mapper}
    @staticmethod
    def set_device(index):
        tpu.calls.append(index)
"""
SCRIPT = """
import os, sys
sys.path.insert(0, {folder!r})
import torch
made = []
real = torch.device
torch.device = lambda text: made.append(text) or real("cpu")
from ranktable.runtime.backends.backend import choose_backend
from ranktable.runtime.backends.backend import Placement
backend = choose_backend({name!r})
chips = {{'device_id': 6, 'local_chip_map': (2, 6)}}
place = Placement(rank=5, world_size=8, local_rank=1, **chips)
backend.select_device(place)
import torch_tpu
options = backend.group_options([2, 6, 7])
print(backend.name, torch_tpu.tpu.calls, made, options.chip_map,
      os.environ.get("CHIP_MAP"))
"""


def sophgo(folder: Path, *, is_new: bool) -> None:
    mapper = "map_local_rank_to_device_idx = None" if is_new else "pass"
    write_files(
        folder,
        {
            "torch_tpu/__init__.py": RECORDER.replace("{mapper}", mapper),
            "torch_tpu/lib/libsccl.so": "",
        },
    )


def google(folder: Path) -> None:
    write_files(
        folder,
        {
            "torch_tpu/__init__.py": "raise SystemExit('it must not be imported')",
            "torch_tpu/_loader.py": "",
            "torch_tpu-0.2.0.dist-info/METADATA": "Metadata-Version: 2.1\n"
            "Name: torch_tpu\nVersion: 0.2.0\nRequires-Dist: libtpu\n",
        },
    )


def run_script(folder: Path, name: str | None, **env: str) -> Outcome:
    script = SCRIPT.format(folder=str(folder), name=name)
    return run_program("python", "-c", script, env={**torch_environment(), **env})


@pytest.mark.torch
def test_since_july_2025_it_wants_the_local_rank_and_the_chip_map(
    tmp_path: Path,
) -> None:
    sophgo(tmp_path, is_new=True)
    done = run_script(tmp_path, None)

    assert done.out == "sccl [1] ['tpu:1'] [2, 6, 7] 2,6\n", done.err


@pytest.mark.torch
def test_before_it_wants_the_chip(tmp_path: Path) -> None:
    sophgo(tmp_path, is_new=False)
    done = run_script(tmp_path, "sccl")

    assert done.out == "sccl [6] ['tpu:6'] [2, 6, 7] None\n", done.err


@pytest.mark.torch
def test_chip_map_that_contradicts_the_table_stops_it(tmp_path: Path) -> None:
    sophgo(tmp_path, is_new=True)
    done = run_script(tmp_path, "sccl", CHIP_MAP="0,1")

    assert done.out == ""
    assert ConflictingVariablesError.__name__ in done.err
    assert "RT305 CHIP_MAP is '0,1'" in done.err


@pytest.mark.torch
def test_googles_package_is_refused_in_a_sentence_and_never_imported(
    tmp_path: Path,
) -> None:
    google(tmp_path)
    done = run_script(tmp_path, "sccl")

    assert "it must not be imported" not in done.err
    assert (
        f"{BootstrapError.__name__}: RT402 the torch_tpu installed here is Google's, "
        "not SOPHGO's; uninstall it" in done.err
    )


# Says whether the choice has imported torch.
CHOOSE = """
import sys
sys.path.insert(0, {folder!r})
from ranktable.runtime.backends.backend import choose_backend
try:
    print(choose_backend({name!r}).name)
finally:
    print("torch" in sys.modules)
"""


def choose(folder: Path, name: str | None, **env: str) -> Outcome:
    code = CHOOSE.format(folder=str(folder), name=name)
    return run_python("-c", code, env={**os.environ, **env})


@pytest.mark.parametrize("name", [None, "gloo", "nccl", "sccl"])
def test_googles_package_is_refused_before_torch_imports_it(
    name: str | None, tmp_path: Path
) -> None:
    google(tmp_path)
    done = choose(tmp_path, name)

    assert done.out == "False\n"
    assert "RT402 the torch_tpu installed here is Google's" in done.err
    assert "export TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.err


@pytest.mark.torch
def test_other_backends_work_when_torch_does_not_import_googles(
    tmp_path: Path,
) -> None:
    google(tmp_path)
    done = choose(tmp_path, None, TORCH_DEVICE_BACKEND_AUTOLOAD="0")

    assert done.out in ("gloo\nTrue\n", "nccl\nTrue\n"), done.err


@pytest.mark.parametrize("error", [ImportError, OSError])
def test_package_that_cannot_be_imported_is_explained(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sophgo(tmp_path, is_new=True)
    init = tmp_path / "torch_tpu" / "__init__.py"
    init.write_text(f"raise {error.__name__}('libtpurt.so: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(BootstrapError, match=r"RT401 .* libtpurt.so: cannot open"):
        SCCL.group_options([0])


@pytest.mark.parametrize("make", [None, google, sophgo])
def test_owner_is_told_from_files(
    make: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if make is google:
        google(tmp_path)
    elif make is sophgo:
        sophgo(tmp_path, is_new=True)
    monkeypatch.syspath_prepend(tmp_path)
    expected = None if make is None else getattr(make, "__name__", None)

    assert package_owner() == expected


def test_owner_is_told_from_metadata_when_the_files_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    google(tmp_path)
    (tmp_path / "torch_tpu" / "_loader.py").unlink()
    monkeypatch.syspath_prepend(tmp_path)

    assert package_owner() == "google"
