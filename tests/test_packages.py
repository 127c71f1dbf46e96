"""The wheel and the source distribution: built, installed, and used."""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cli.app import COMMANDS
from tests.commands import run_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent
NAME = f"ranktable-{ranktable.__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    run_well([*command, str(ROOT)], timeout_s=300)
    return {
        "wheel": folder / f"{NAME}-py3-none-any.whl",
        "sdist": folder / f"{NAME}.tar.gz",
    }


def test_packages_hold_what_users_need(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        in_wheel = set(wheel.namelist())
    with tarfile.open(built["sdist"]) as sdist:
        in_sdist = set(sdist.getnames())

    assert "ranktable/templates/specs/one-box.yaml" in in_wheel
    assert "ranktable/py.typed" in in_wheel
    pages = {"ranktable.1", *(f"ranktable-{name}.1" for name in COMMANDS)}
    manual = f"{NAME}.data/data/share/man/man1/"
    assert pages == {n.removeprefix(manual) for n in in_wheel if n.startswith(manual)}
    assert {f"{NAME}/man/{page}" for page in pages} <= in_sdist
    assert not {name for name in in_wheel if name.startswith("tests/")}
    for name in ("CHANGELOG.md", "action.yml", ".pre-commit-hooks.yaml", "Makefile"):
        assert f"{NAME}/{name}" in in_sdist


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_package_runs_the_demo_in_a_fresh_environment(
    kind: str, built: dict[str, Path], tmp_path: Path
) -> None:
    home = tmp_path / "venv"
    run_well([sys.executable, "-m", "venv", home], timeout_s=120)
    # What it depends on comes from this environment, so that no network is needed; the
    # path file of an editable install is not read through another one.
    site = next((home / "lib").glob("python*")) / "site-packages"
    (site / "needs.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    python, package = str(home / "bin" / "python"), str(built[kind])
    install = [python, "-m", "pip", "install", "-q", *offline, package]
    run_well(install, timeout_s=120)

    def run(*arguments: str) -> str:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        command = [f"{home}/bin/ranktable", *arguments]
        return run_well(command, cwd=tmp_path, env=clean)

    run("gen", "--device-id", "[[0..7]]", "--ring", "sophgo-8", "--output", "t.json")

    assert run("--version") == f"{NAME.replace('-', ' ')}\n"
    assert run("validate", "t.json") == "t.json: sound\n"
    assert run("show", "t.json", "--rank", "3").startswith("rank 3: node 0")
    assert "one-box" in run("init")
    page = (home / "share" / "man" / "man1" / "ranktable-gen.1").read_text()
    assert page.startswith('.TH RANKTABLE-GEN 1 "" "ranktable ')
    assert r"\fB\-\-ring TOPOLOGY\fR" in page
    code = "import ranktable; print(ranktable.__file__)"
    where = run_well([home / "bin" / "python", "-c", code], cwd=tmp_path)
    assert where.startswith(str(home))


def run_well(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> str:
    done = run_process(command, cwd=cwd, env=env, timeout_s=timeout_s)
    assert done.status == 0, done.err
    return done.out
