"""Commands on HCCL tables: split, merge, subset, wait."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.schema.formats import by_name, names
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Run


VALID = CORPUS / "hccl" / "valid"


def server(name: str, chips: list[int], subnet: int) -> str:
    """Return the table of one server, whose ranks are in the order of its chips."""
    devices = [
        {
            "device_id": str(chip),
            "device_ip": f"10.0.{subnet}.{chip}",
            "rank_id": str(r),
        }
        for r, chip in enumerate(chips)
    ]
    document = {
        "status": "completed",
        "version": "1.0",
        "server_count": "1",
        "server_list": [{"server_id": name, "device": devices}],
    }
    return json.dumps(document, indent=1)


@pytest.mark.parametrize("name", names())
def test_every_command_takes_every_format_or_says_what_to_do(
    run: Run, name: str, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text(json.dumps(by_name(name).example))
    changing = [
        *("split t.json -o parts", "split t.json --ranks 0"),
        "fit t.json",
    ]
    looking = ("diff t.json t.json", "mesh t.json --dp -1", "plan t.json --dp -1")
    always = (
        "show t.json",
        "show t.json --digest",
        f"schema {name}",
        "validate t.json",
    )

    for command in (*changing, *looking, *always):
        done = run("ranktable", *command.split())
        is_refused = command not in always and name == "kubernetes"
        if command in changing and name == "hccl-cloud":
            is_refused = True
        assert done.status == (2 if is_refused else 0), (command, done.err)
        if is_refused:
            assert "\nhelp: " in done.err or "ranktable convert --to" in done.err


def test_list_of_config_maps_is_validated_as_a_table(run: Run, tmp_path: Path) -> None:
    inner = (VALID / "hccl10_1s1p.json").read_text()
    one = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"hccl.json": inner}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [one]}
    (tmp_path / "t.json").write_text(json.dumps(listed))

    assert run("ranktable", "validate", "t.json").out == "t.json#hccl.json: sound\n"


def test_servers_without_any_address_are_one_finding() -> None:
    document = json.loads((VALID / "hccl10_a2_uneven_8_6.json").read_text())
    for server in document["server_list"]:
        for device in server["device"]:
            device.pop("device_ip")
    found = ranktable.check(json.dumps(document).encode()).diagnostics

    assert [(one.code, one.location.pointer) for one in found] == [
        ("RT271", "/server_list/0/device")
    ]
    assert "the devices of the nodes 0, 1 have no device_ip" in found[0].message
