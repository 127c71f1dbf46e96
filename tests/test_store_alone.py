"""Torch's store without the rest of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.commands import clean_environment, run_python, torch_environment

if TYPE_CHECKING:
    from pathlib import Path

LOAD = """
import sys
from ranktable.runtime.store_alone import load_store
try:
    load_store()
except ImportError as error:
    print("no", error)
"""


@pytest.mark.torch
def test_store_works_and_torch_is_not_imported() -> None:
    ended = run_python(
        "-c",
        LOAD
        + """
import torch
from datetime import timedelta
from torch._C._distributed_c10d import PrefixStore, TCPStore
store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
part = PrefixStore("part", store)
part.set("key", "value")
try:
    part.wait(["never"], timedelta(milliseconds=50))
except RuntimeError:
    print(part.get("key"), hasattr(torch, "Tensor"))
""",
        env={**torch_environment(), "TORCH_CPP_LOG_LEVEL": "ERROR"},
    )

    assert ended.out == "b'value' False\n"


@pytest.mark.torch
def test_torch_that_is_imported_already_stays() -> None:
    code = "import torch" + LOAD + "print(torch.ones(2).sum().item())"

    assert run_python("-c", code, env=torch_environment()).out == "2.0\n"


def test_torch_whose_extension_does_not_load_alone_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("has_libraries = True\n")
    (package / "_C.py").write_text("from torch import has_libraries\n")
    (package / "distributed.py").write_text("import torch._C\n")
    code = LOAD + "import torch; print(torch.has_libraries, torch._C)"
    ended = run_python(
        "-c", code, env={**clean_environment(), "PYTHONPATH": str(tmp_path)}
    )

    assert ended.out.startswith("True <module 'torch._C'")


def test_torch_that_was_built_without_a_store_has_none(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_C.py").write_text("")
    ended = run_python(
        "-c", LOAD, env={**clean_environment(), "PYTHONPATH": str(tmp_path)}
    )

    assert ended.out == "no torch._C._distributed_c10d\n"


def test_python_without_torch_has_no_store() -> None:
    code = "import sys; sys.meta_path.insert(0, type('No', (), {'find_spec': " + (
        "staticmethod(lambda name, *_: (_ for _ in ()).throw(ImportError(name)) "
        "if name == 'torch' else None)}))" + LOAD
    )

    assert run_python("-c", code, env=clean_environment()).out == "no torch\n"
