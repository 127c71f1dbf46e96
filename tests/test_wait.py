"""``ranktable wait``: files that real writers in other processes are busy with."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.cluster.waiting import UNCONFIRMED, Clock, wait_for_table
from ranktable.schema.files import UnreadableError
from tests.commands import BIN, on_terminal, run_measured, start_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ranktable.cluster.waiting import WaitResult as Waited
    from tests.commands import Commands
    from tests.conftest import Run

TABLE = ranktable.dumps(make_table([[0, 1], [0, 1]], hosts=["n1", "n2"]))
OTHER = ranktable.dumps(make_table([[1, 0], [0, 1]], hosts=["n1", "n2"]))
TEXT = TABLE.decode()
TIMEOUT_S = 30


# With a clock that a test turns


class Readings:
    """A file that has another content at every reading, and a clock of its own."""

    def __init__(self, *contents: bytes | str) -> None:
        self.contents = list(contents)
        self.now_s = 0.0
        self.count = 0
        self.said: list[tuple[str, float]] = []

    def read(self) -> bytes:
        content = self.contents[min(self.count, len(self.contents) - 1)]
        self.count += 1
        if isinstance(content, str):
            raise UnreadableError("RT001", content)
        return content

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def wait(self, timeout_s: float = 100, interval_s: float = 1) -> Waited:
        return wait_for_table(
            self.read,
            file="t.json",
            timeout_s=timeout_s,
            interval_s=interval_s,
            clock=Clock(now=lambda: self.now_s, sleep=self.sleep),
            on_reason=lambda reason, s: self.said.append((reason.kind, s)),
        )


def test_sound_table_is_taken_when_it_is_read_twice() -> None:
    file = Readings(TABLE)
    done = file.wait()

    assert (done.reason, file.count, file.now_s) == (None, 2, 1)
    assert done.report.table is not None


def test_everything_that_is_no_table_yet_is_waited_out() -> None:
    file = Readings("the file does not exist", b"", TABLE[:100], TABLE)
    done = file.wait()

    assert done.reason is None
    assert file.said == [
        ("RT001", 0),
        ("RT102", 1),
        ("RT103", 2),
        (UNCONFIRMED.kind, 3),
    ]


def test_table_that_changes_between_two_readings_is_read_again() -> None:
    file = Readings(TABLE, OTHER, TABLE[:50], OTHER, "gone", OTHER, OTHER)
    done = file.wait()

    assert done.reason is None
    assert file.count == 7
    assert done.report.data == OTHER


def test_table_that_its_controller_has_not_filled_in_is_waited_for() -> None:
    old = {
        "status": "initializing",
        "version": "1.0",
        "server_count": "1",
        "server_list": [
            {"server_id": "10.0.0.5", "device": [{"device_id": "0", "rank_id": "0"}]}
        ],
    }
    ready = json.dumps({**old, "status": "completed"}).encode()
    file = Readings(b'{"status":"initializing"}', json.dumps(old).encode(), ready)
    done = file.wait()

    assert done.reason is None
    assert [kind for kind, _ in file.said] == ["status", "RT213", UNCONFIRMED.kind]


def test_time_is_up_after_a_last_look() -> None:
    file = Readings(TABLE[:100])
    done = file.wait(timeout_s=2.5)

    assert file.now_s == 2.5
    assert file.count == 4
    assert done.reason is not None
    assert (done.reason.kind, done.reason.text[-7:]) == ("RT103", "(RT103)")


def test_unchanged_content_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    original = ranktable.cluster.waiting.check_bytes  # type: ignore[attr-defined]

    def counting(*arguments: Any, **options: Any) -> object:
        judged.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr("ranktable.cluster.waiting.check_bytes", counting)
    Readings(TABLE[:100]).wait(timeout_s=50)

    assert len(judged) == 2  # the first one is of nothing


# With writers in processes of their own


@contextmanager
def writer(code: str, folder: Path) -> Iterator[Callable[[], None]]:
    """Run a program beside the test, and yield a function for its next step.

    The program knows TABLE and OTHER, and waits for its turn where it says ``turn()``.
    """
    head = f"""
import os, shutil, sys, time
TABLE = {TABLE!r}
OTHER = {OTHER!r}
def turn():
    print(flush=True)
    sys.stdin.readline()
"""
    command = [sys.executable, "-c", head + textwrap.dedent(code)]
    with start_process(command, pipes=["stdin", "stdout"], cwd=folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def go_on() -> None:
            stdout.readline()  # it has come to its turn
            stdin.write("\n")
            stdin.flush()

        yield go_on
        assert process.wait(TIMEOUT_S) == 0


@pytest.fixture
def program(commands: Commands) -> str:
    """Return ``ranktable``, as a fork."""
    return f"{commands.folder}/ranktable"


@contextmanager
def waiting(folder: Path, program: str) -> Iterator[Callable[[], str]]:
    """Run ``ranktable wait t.json``, and yield a function for its next line."""
    command = [program, "wait", "t.json", "--timeout", "60", "--interval", "0.05"]
    with start_process(command, pipes=["stderr"], cwd=folder) as process:
        assert process.stderr is not None
        yield process.stderr.readline
        assert process.stderr.read() == ""
        assert process.wait(TIMEOUT_S) == 0


def test_file_that_comes_late_and_in_pieces_is_waited_for(
    program: str, tmp_path: Path
) -> None:
    code = """
        turn()
        with open("t.json", "wb", buffering=0) as file:  # O_TRUNC, then write
            turn()
            file.write(TABLE[:100])
            turn()
            for start in range(100, len(TABLE), 50):
                file.write(TABLE[start : start + 50])
                time.sleep(0.01)
    """
    with writer(code, tmp_path) as go_on, waiting(tmp_path, program) as next_line:
        assert next_line() == "waiting for t.json: the file does not exist\n"
        go_on()
        assert next_line() == "waiting for t.json: the file is empty (RT102)\n"
        go_on()
        assert next_line().endswith("3 brackets not closed (RT103)\n")
        go_on()
        # Said once for its kind, however often the end of the file moves.
        assert next_line() == "t.json: sound, 2 nodes, 4 ranks\n"


def test_config_map_that_is_swapped_is_read_through_its_links(
    program: str, tmp_path: Path
) -> None:
    code = """
        def swap(name, content, old=None):
            os.mkdir(name)
            with open(f"{name}/hccl.json", "wb") as file:
                file.write(content)
            os.symlink(name, "..data_tmp")
            os.rename("..data_tmp", "..data")
            if old is not None:
                shutil.rmtree(old)
        swap("..2026_1", b'{"status":"initializing"}')
        os.symlink("..data/hccl.json", "t.json")
        turn()
        swap("..2026_2", TABLE[:90], old="..2026_1")
        turn()
        shutil.rmtree("..2026_2")  # the link leads nowhere for a moment
        turn()
        swap("..2026_3", TABLE)
    """
    with writer(code, tmp_path) as go_on:
        while not (tmp_path / "t.json").exists():
            time.sleep(0.01)
        with waiting(tmp_path, program) as next_line:
            assert next_line().endswith("not completed\n")
            go_on()
            assert next_line().endswith("(RT103)\n")
            go_on()
            assert next_line() == (
                "waiting for t.json: the file is a link to '..data/hccl.json', which "
                "does not exist\n"
            )
            go_on()
            assert next_line() == "t.json: sound, 2 nodes, 4 ranks\n"


def test_replaced_files_are_never_met_half(program: str, tmp_path: Path) -> None:
    code = """
        end = time.monotonic() + 1
        for number in range(200):
            with open("new", "wb") as file:
                file.write((TABLE, OTHER)[number % 2])
            os.rename("new", "t.json")
            time.sleep(0.002)
    """
    with writer(code, tmp_path):
        while not (tmp_path / "t.json").exists():
            time.sleep(0.01)
        with waiting(tmp_path, program) as next_line:
            said = [next_line()]
            while not said[-1].startswith("t.json: sound"):
                said.append(next_line())

    assert set(said[:-1]) <= {"waiting for t.json: it changed since the last reading\n"}


def test_writer_that_never_rests_is_given_up(run: Run, tmp_path: Path) -> None:
    code = """
        number = 0
        while not os.path.exists("stop"):
            with open("new", "wb") as file:
                file.write(TABLE + b" " * number)
            os.rename("new", "t.json")
            number += 1
            time.sleep(0.005)
    """
    with writer(code, tmp_path):
        while not (tmp_path / "t.json").exists():
            time.sleep(0.01)
        done = run("ranktable", "wait", "t.json", "--timeout", "2", "--interval", ".5")
        (tmp_path / "stop").touch()

    assert done.status == 2
    assert "gave up on t.json after 2 s" in done.err
    assert "it changed since the last reading" in done.err


# The command


def test_table_that_is_there_is_taken_without_a_word_of_waiting(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_bytes(TABLE)
    done = run("ranktable", "wait", "t.json")
    named = run("ranktable", "wait", env={"RANK_TABLE_FILE": "t.json"})

    assert (done.status, done.out) == (0, "")
    assert done.err == named.err == "t.json: sound, 2 nodes, 4 ranks\n"


def test_time_that_is_up_exits_2_and_says_why(run: Run) -> None:
    start = time.monotonic()
    done = run("ranktable", "wait", "no.json", "--timeout", "1")
    took_s = time.monotonic() - start

    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        "waiting for no.json: the file does not exist",
        "ranktable: gave up on no.json after 1 s: the file does not exist",
    ]
    assert 1 <= took_s < 30  # starting Python takes seconds on a busy machine


def test_unsound_table_is_shown_when_time_is_up(run: Run, tmp_path: Path) -> None:
    text = TEXT.replace('"rank":"3"', '"rank":"2"').replace('rank":"3"', 'rank":"2"')
    (tmp_path / "t.json").write_text(text)
    options = ("--timeout", "1.5", "--interval", "0.1")
    done = run("ranktable", "wait", "t.json", *options)
    data = run("ranktable", "wait", "t.json", *options, "--format", "json")

    assert done.status == data.status == 2
    assert "t.json:33:28: error[RT202]" in done.out
    assert 'gave up on t.json after 1.5 s: rank "2" is assigned' in done.err
    assert json.loads(data.out)["totals"]["by_code"]["RT202"] == 1


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "secret"])
def test_what_is_no_file_is_not_read_and_not_hung_on(
    kind: str, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "t.json"
    if kind == "folder":
        path.mkdir()  # what Kubernetes makes of a subPath that is missing
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to("t.json")
    else:
        path.symlink_to("gone")
    done = run("ranktable", "wait", "t.json", "--timeout", "0.3")

    said = {
        "folder": "this is a directory",
        "pipe": "nothing was written to this named pipe\n",
        "loop": "the file cannot be read: too many levels of symbolic links",
        "secret": "the file is a link to 'gone', which does not exist",
    }
    assert (done.status, said[kind] in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("t.json", "--timeout", "0"), "--timeout: the seconds are above 0"),
        (("t.json", "--timeout", "-1"), "--timeout: the seconds are above 0"),
        (("t.json", "--timeout", "nan"), "--timeout: the seconds are above 0"),
        (("t.json", "--timeout", "inf"), "--timeout: the seconds are above 0"),
        (("t.json", "--interval", "0"), "--interval: the seconds are 0.01 or more"),
        (("-",), "a pipe can be read only once; name a file to wait for"),
        (("/dev/stdin",), "a pipe can be read only once; name a file to wait for"),
        ((), "no FILE is given, and RANK_TABLE_FILE is not set"),
    ],
)
def test_wrong_usage_exits_2(
    arguments: tuple[str, ...], message: str, run: Run
) -> None:
    done = run("ranktable", "wait", *arguments)

    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_terminal_shows_the_time_and_says_every_reason_once(
    commands: Commands, tmp_path: Path
) -> None:
    options = ["--timeout", "2.5", "--interval", "0.1"]
    command = [f"{commands.folder}/ranktable", "wait", "no.json", *options]
    said = on_terminal(command, tmp_path, stream="stderr").err

    assert re.search("[12] s of 2.5 s", said)
    assert said.count("waiting for no.json") == 1
    assert said.rindex("\x1b[2K") < said.index("gave up on no.json")
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h")  # the cursor


def test_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    command = [f"{BIN}/ranktable", "wait", "no.json"]
    with start_process(command, pipes=["stderr"], cwd=tmp_path) as process:
        assert process.stderr is not None
        assert "does not exist" in process.stderr.readline()
        process.send_signal(2)
        _, rest = process.communicate(timeout=TIMEOUT_S)

    assert (process.returncode, rest) == (130, "")


@pytest.mark.slow
@pytest.mark.parametrize("content", [None, b" " * 4_000_000], ids=["missing", "blanks"])
def test_waiting_costs_next_to_nothing(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "t.json").write_bytes(content)
    costs = [waiting_cost_s(tmp_path, seconds) for seconds in (0.1, 3.1)]

    # Three seconds of waiting; a busy loop would take all of them.
    assert costs[1] - costs[0] < 1.5


def waiting_cost_s(folder: Path, timeout_s: float) -> float:
    """Return the CPU seconds of a wait that finds nothing."""
    command = [f"{BIN}/ranktable", "wait", "t.json", "--timeout", str(timeout_s)]
    status, cost_s = run_measured(command, folder)
    assert status == 2
    return cost_s
