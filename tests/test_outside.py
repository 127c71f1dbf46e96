"""Nothing is read outside of the folder of the file that names it, nor of a root."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.cluster.discovery.machine import Machine
from tests.effort import law

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


SECRET = "root:x:0"  # noqa: S105 - a line that must not be shown


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file beside the folder of the test, of which nothing may be shown."""
    file = tmp_path.parent / f"secret-{tmp_path.name}"
    file.write_text(f"{SECRET}\n[[0,1]]\n")
    return file


@pytest.mark.parametrize(
    "how", ["relative", "absolute", "link", "linked folder", "impossible"]
)
def test_a_ring_outside_of_the_folder_of_the_spec_is_not_read(
    how: str, secret: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(secret)
    (tmp_path / "up").symlink_to(tmp_path.parent)
    ring = {
        "relative": f"../{secret.name}",
        "absolute": str(secret),
        "link": "link",
        "linked folder": f"up/{secret.name}",
        "impossible": '"a\\0b"',
    }[how]
    (tmp_path / "cluster.yaml").write_text(
        f"nodes: n[1-2]\nchips: [0, 1]\nring: {ring}\n"
    )

    for command in (["validate", "cluster.yaml"], ["gen", "--spec", "cluster.yaml"]):
        done = run("ranktable", *command)
        assert done.status == 1
        assert SECRET not in done.out + done.err
        assert "outside of the folder of the spec" in done.out + done.err


def test_a_ring_beside_the_spec_is_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "links.txt").write_text("0 1\n1 2\n2 0\n")
    (tmp_path / "site" / "cluster.yaml").write_text(
        "nodes: n[1-2]\nchips: [0, 1, 2]\nring: links.txt\n"
    )

    assert run("ranktable", "validate", "site/cluster.yaml").status == 0


def test_a_setting_and_a_schema_name_no_file_outside(
    secret: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text(
        '{"version":"1.0","node_list":[{"device_list":[{"device_id":"0","rank":"0"}]}]}'
    )
    (tmp_path / "s.json").write_text(json.dumps({"$ref": f"../{secret.name}"}))
    done = run("ranktable", "validate", "t.json", "--schema", "s.json")
    assert done.status == 2
    assert SECRET not in done.out + done.err

    (tmp_path / "pyproject.toml").write_text(
        f'[tool.ranktable]\ntopology = "../{secret.name}"\n'
    )
    done = run("ranktable", "validate", "t.json")
    assert done.status == 2
    assert SECRET not in done.out + done.err


def test_links_below_a_root_are_followed_as_they_would_be_there(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "data").mkdir()
    (root / "data" / "name").write_text("n7\n")
    (root / "etc" / "hostname").symlink_to("/data/name")
    (root / "etc" / "passwd").symlink_to("../../../../etc/passwd")

    machine = Machine(root=str(root))

    assert machine.host() == "n7"
    assert machine.path("/etc/passwd").startswith(str(root))  # it is a loop there
    assert not machine.exists("/etc/passwd")


PARTS = st.sampled_from(["a", "b", "c", "..", "."])
TARGETS = st.tuples(st.sampled_from(["", "/", "../../"]), st.lists(PARTS, max_size=3))


@law(200)
@given(
    links=st.lists(st.tuples(st.sampled_from("abc"), TARGETS), max_size=4),
    path=st.lists(PARTS, min_size=1, max_size=6),
)
def test_no_path_below_a_root_leaves_it(
    links: list[tuple[str, tuple[str, list[str]]]],
    path: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "a").mkdir()
    for at, (name, (start, parts)) in enumerate(links):
        where = (root if at % 2 else root / "a") / name
        if not os.path.lexists(where):
            where.symlink_to(start + "/".join(parts) or ".")

    found = os.path.realpath(Machine(root=str(root)).path("/".join(path)))

    assert os.path.commonpath([found, os.path.realpath(root)]) == os.path.realpath(root)
