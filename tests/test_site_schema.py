"""``ranktable validate --schema``: a site's own JSON Schema, which may be hostile."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Outcome, Run

TABLE = """{"version":"1.0","node_list":[{"host":"n1","device_list":[
  {"device_id":"0","rank":"0","world_rank":"0"},
  {"device_id":"1","rank":"1","world_rank":"1"}]}]}
"""
SPEC = "nodes: n[1-2]\nchips: [0, 1]\n"


def in_devices(device: object) -> dict[str, object]:
    """Return a schema of every device."""
    nodes = {"items": {"properties": {"device_list": {"items": device}}}}
    return {"properties": {"node_list": nodes}}


@pytest.fixture
def judge(run: Run, tmp_path: Path) -> Run:
    def judge_by(
        schema: object, *options: str, text: str = TABLE, name: str = "t.json"
    ) -> Outcome:
        content = schema if isinstance(schema, str) else json.dumps(schema)
        (tmp_path / "site.json").write_text(content)
        (tmp_path / name).write_text(text)
        return run("ranktable", "validate", "--schema", "site.json", *options, name)

    return judge_by


SAYS = "error[RT119] by the site's schema,"


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (
            {"properties": {"device_id": {"pattern": "^[02]$"}}},
            f't.json:3:16: {SAYS} "1" does not match "^[02]$"',
        ),
        (
            {"properties": {"device_id": {"enum": [["0"], "1"]}}},
            f't.json:2:16: {SAYS} "0" is not ["0"] or "1"',
        ),
        (
            {"enum": [["0"]]},
            f't.json:2:3: {SAYS} an object is not ["0"]',
        ),
        (
            {"required": ["rank", "device_ip"]},
            f't.json:2:3: {SAYS} the key "device_ip" is missing',
        ),
        (
            {"properties": {"device_id": {}, "rank": {}}, "additionalProperties": 0},
            'additionalProperties: 0 is not of type "object" or "boolean"; it is not a',
        ),
        (
            {
                "properties": {"device_id": {}, "rank": {}},
                "additionalProperties": False,
            },
            f't.json:2:31: {SAYS} the key "world_rank" is not allowed',
        ),
        (
            {"properties": {"rank": {"type": ["integer", "null"]}}},
            f't.json:2:27: {SAYS} "0" is not of type "integer" or "null"',
        ),
        (
            {"properties": {"rank": {"enum": ["1", "2"]}}},
            f't.json:2:27: {SAYS} "0" is not "1" or "2"',
        ),
        (
            {"properties": {"rank": {"anyOf": [{"maxLength": 0}, {"const": "1"}]}}},
            f't.json:2:27: {SAYS} "0" ',
        ),
        (
            {"propertyNames": {"pattern": "^(device_id|rank)$"}},
            f't.json:2:31: {SAYS} "world_rank" does not match',
        ),
        (
            {"properties": {"rank": {"enum": []}}},
            f't.json:2:27: {SAYS} "0" is not allowed',
        ),
        ({"minProperties": 4}, f"t.json:2:3: {SAYS} an object does not satisfy"),
        (False, f"t.json:1:58: {SAYS} a list does not satisfy items"),
    ],
)
def test_what_the_schema_asks_is_shown_with_its_place(
    device: object, expected: str, judge: Run
) -> None:
    done = judge(in_devices(device))

    assert expected in done.out + done.err
    assert done.status == (2 if expected.startswith("additional") else 1)


def test_our_rules_and_the_schema_judge_together(
    judge: Run,
) -> None:
    text = TABLE.replace('"rank":"1"', '"rank":"7"')
    done = judge(
        in_devices({"properties": {"rank": {"maxLength": 0}}}),
        *("--format", "json", "--max-errors", "1"),
        text=text,
    )
    data = json.loads(done.out)
    (report,) = data["files"]

    assert done.status == 1
    assert data["totals"]["by_code"]["RT119"] == 2
    assert [d["code"] for d in report["diagnostics"]].count("RT119") == 1
    assert {"RT201", "RT119"} <= {d["code"] for d in report["diagnostics"]}


def test_a_table_that_is_as_asked_is_sound(judge: Run) -> None:
    done = judge(in_devices({"required": ["rank"]}))

    assert (done.status, done.out) == (0, "t.json: sound\n")


DRAFT_3 = "http://json-schema.org/draft-03/schema#"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"zone": {"required": True}}, 'the key "zone" is missing'),
        (
            {"node_list": {"items": {"properties": {"rack": {"required": True}}}}},
            'the key "rack" is missing',
        ),
        ({"version": {"type": [{"type": "integer"}, "null"]}}, '"1.0" is not of type'),
        ({"version": {"disallow": [{"type": "string"}]}}, "does not satisfy disallow"),
    ],
)
def test_draft_3_says_what_is_required_in_its_own_way(
    schema: dict[str, object], message: str, judge: Run
) -> None:
    done = judge({"$schema": DRAFT_3, "properties": schema})

    assert done.status == 1, done.err
    assert message in done.out


@pytest.mark.parametrize("draft", ["draft-04", "draft-07", "2019-09", "2020-12"])
def test_the_schema_says_its_draft(draft: str, judge: Run) -> None:
    address = (
        f"https://json-schema.org/draft/{draft}/schema"
        if draft.startswith("20")
        else f"http://json-schema.org/{draft}/schema#"
    )
    device = in_devices({"$ref": "#/definitions/device"})
    asked = {"properties": {"rank": {"maxLength": 0}}}
    done = judge({"$schema": address, "definitions": {"device": asked}, **device})

    assert (done.status, done.out.count("RT119")) == (1, 2)


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.txt"])
def test_a_cluster_spec_is_judged_as_one(name: str, judge: Run) -> None:
    asked = {"properties": {"nodes": {"pattern": "^n[0-9]$"}}}
    done = judge(asked, text=SPEC, name=name)
    wrong = judge(asked, text="nodes: n2\n", name="wrong.yml")

    assert (done.status, done.out) == (
        1,
        f'{name}:1:8: {SAYS} "n[1-2]" does not match "^n[0-9]$"\nfound 1 error\n',
    )
    assert (wrong.status, "RT119" in wrong.out, "RT1" in wrong.out) == (1, False, True)


def test_references_lead_to_local_files(judge: Run, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/device.json").write_text('{"$ref": "../rank.json#/$defs/r"}')
    (tmp_path / "rank.json").write_text(
        '{"$defs": {"r": {"properties": {"rank": {"const": "0"}}}}}'
    )
    asked = in_devices({"$ref": "parts/device.json"})
    done = judge(asked)
    named = judge({"$id": "https://example.com/schemas/site.json", **asked})

    assert (done.status, done.out.count("RT119")) == (1, 1)
    assert named == done


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
        ("{", "Expecting property name"),
        ("[]", "a JSON Schema is an object, or true or false"),
        ({"type": "text"}, '#/type: "text" does not satisfy anyOf'),
        ({"$schema": "http://example.com/mine"}, "is not a draft of JSON Schema"),
        ({"$schema": ["x"]}, "is not a draft of JSON Schema"),
        ({"$id": "http://[::1"}, "Invalid IPv6 URL"),
        ({"$id": "//["}, "Invalid IPv6 URL"),
        (in_devices({"pattern": "a{99999999999}"}), "repetition number is too large"),
        (
            in_devices({"properties": {"rank": {"pattern": "["}}}),
            '"[" does not satisfy format "regex"',
        ),
        (in_devices({"$ref": "missing.json"}), "is not in a local file"),
        (in_devices({"$ref": "#/$defs/none"}), "is not in a local file"),
        (in_devices({"$ref": "file:///dev/zero"}), "is not in a local file"),
        ({"$ref": "#/x", "x": {"type": 5}}, "a reference leads to what is not a"),
        ({"$ref": "#/x", "x": {"type": "t"}}, "a reference leads to what is not a"),
        ({"$ref": "#/x", "x": {"required": True}}, "a reference leads to what is not"),
        ({"$ref": "#/x", "x": 5}, "a reference leads to what is not a JSON Schema"),
    ],
)
def test_a_wrong_schema_is_refused_with_its_reason(
    schema: object, reason: str, judge: Run
) -> None:
    done = judge(schema)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("ranktable: site.json: ")
    assert reason in done.err


def test_a_schema_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(TABLE)
    done = run("ranktable", "validate", "--schema", "none.json", "t.json")

    assert (done.status, done.err) == (
        2,
        "ranktable: none.json: RT001 the file does not exist\n",
    )


def test_what_no_schema_can_judge_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site.json").write_text('{"required": ["owner"]}')
    (tmp_path / "hostfile").write_text("n1 slots=8\n")
    done = run("ranktable", "validate", "--schema", "site.json", "hostfile")

    said = "hostfile: not judged by the site's schema: it is not JSON\n"
    assert (done.status, done.err) == (0, said)


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
    started_s = time.perf_counter()
    done = judge(schema)

    assert time.perf_counter() - started_s < 55
    if reason:
        assert (done.status, done.out) == (2, "")
        assert reason in done.err


def test_a_repair_is_judged_by_the_schema_too(judge: Run, tmp_path: Path) -> None:
    text = TABLE.replace('"device_id":"1"', '"device_id":"01"')
    done = judge(
        in_devices({"properties": {"device_id": {"pattern": "^[0-9]$"}}}),
        *("--fix",),
        text=text,
    )
    before = (tmp_path / "t.json").read_text()
    refused = judge({"$ref": "none.json"}, "--fix", text=text)

    assert (done.status, done.out) == (0, "t.json: sound\n")
    assert before == TABLE
    assert refused.status == 2
    assert (tmp_path / "t.json").read_text() == text
