"""A site's own JSON Schema that is hostile; ``sessions/site-schema.md`` has others."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Outcome, Run

TABLE = """{"version":"1.0","node_list":[{"host":"n1","device_list":[
  {"device_id":"0","rank":"0","world_rank":"0"},
  {"device_id":"1","rank":"1","world_rank":"1"}]}]}
"""


def in_devices(device: object) -> dict[str, object]:
    """Return a schema of every device."""
    nodes = {"items": {"properties": {"device_list": {"items": device}}}}
    return {"properties": {"node_list": nodes}}


@pytest.fixture
def judge(run: Run, tmp_path: Path) -> Run:
    def judge_by(schema: object) -> Outcome:
        content = schema if isinstance(schema, str) else json.dumps(schema)
        (tmp_path / "site.json").write_text(content)
        (tmp_path / "t.json").write_text(TABLE)
        return run("ranktable", "validate", "--schema", "site.json", "t.json")

    return judge_by


def test_nothing_is_fetched(judge: Run) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]

        def listen() -> None:
            try:
                asked.append(server.accept()[0].recv(100))
            except TimeoutError:
                listen() if not ended.is_set() else None

        ended = threading.Event()
        thread = threading.Thread(target=listen)
        thread.start()
        done = judge(in_devices({"$ref": f"http://127.0.0.1:{port}/x.json"}))
        ended.set()
        thread.join()

    assert done.status == 2
    assert "nothing is fetched" in done.err
    assert asked == []


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#"}, "nested without an end"),
        (
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
            | {"$ref": "#/$defs/a"},
            "nested without an end",
        ),
        (
            {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1500)}}
            | {"$ref": "#/$defs/d0"},
            "nested without an end",
        ),
        ("[" * 100_000, "nested too deep"),
        ('{"not":' * 5000 + "{}" + "}" * 5000, "nested"),
        ('{"title":"' + "x" * (5 << 20) + '"}', "RT004 the file is larger than"),
        ({"properties": {"x": {"pattern": "((a{9999}){9999}){9999}"}}}, ""),
    ],
    ids=["self", "circle", "chain", "lists", "deep", "large", "big"],
)
def test_a_hostile_schema_ends_in_an_error(
    schema: object, reason: str, judge: Run
) -> None:
    done = judge(schema)  # in the time that the runner gives

    if reason:
        assert (done.status, done.out) == (2, "")
        assert reason in done.err
