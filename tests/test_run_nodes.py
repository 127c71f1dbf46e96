"""``ranktable run`` on several nodes, one of which fails, stops or does not come."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.schema.writing import dump
from tests.commands import BIN, start_process, torch_environment
from tests.ranks import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.commands import Started

pytestmark = pytest.mark.torch

HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
SLEEPS = (
    "import os, sys, time\n"
    "path = os.path.join(sys.argv[1], os.environ['RANK'])\n"
    "open(path + '.new', 'w').write(str(os.getpid()))\n"
    "os.rename(path + '.new', path)\n"
    "time.sleep(float(sys.argv[2 + int(os.environ['GROUP_RANK'])]))\n"
)


class Job:
    """Agents of some nodes, and the ranks that they have started."""

    def __init__(self, folder: Path, num_nodes: int) -> None:
        self.folder, self.port = folder, str(free_port())
        self.agents: list[Started] = []
        table = make_table([[0, 1]] * num_nodes, hosts=HOSTS[:num_nodes])
        dump(table, folder / "t.json")
        (folder / "s.py").write_text(SLEEPS)

    def run(
        self,
        node: int,
        *options: str,
        sleeps: tuple[float, ...],
        before: Sequence[str] = (),
    ) -> None:
        given = ["--node", str(node), "--master-port", self.port, *options]
        command: list[str | Path] = [
            *before,
            BIN / "ranktable",
            "run",
            "--rank-table",
            "t.json",
            *given,
        ]
        self.start([*command, "s.py", ".", *map(str, sleeps)])

    def start(self, command: list[str | Path]) -> None:
        # Not a pipe: ranks without their agent would keep it open.
        with (self.folder / f"said{len(self.agents)}").open("wb") as said:
            env = torch_environment()
            started = start_process(
                command, cwd=self.folder, env=env, err=said.fileno()
            )
        self.agents.append(started)

    def pid(self, rank: int) -> int:
        end = time.monotonic() + 100
        while not (self.folder / str(rank)).exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        return int((self.folder / str(rank)).read_text())

    def ends(self) -> list[tuple[int, list[str]]]:
        """Return the status of each agent, and what ``ranktable run`` has said of it.

        That a node waits for another one is said or not, as the machine is busy.
        """
        found = []
        for at, agent in enumerate(self.agents):
            status = agent.wait(timeout=100)
            said = (self.folder / f"said{at}").read_text().splitlines()
            own = [one for one in said if one.startswith("ranktable: ")]
            waiting = "ranktable: waiting for "
            found.append((status, [one for one in own if not one.startswith(waiting)]))
        return found

    def living(self) -> list[int]:
        """Return the ranks that still run."""
        ranks = [
            int(path.name) for path in self.folder.iterdir() if path.name.isdigit()
        ]
        return [rank for rank in sorted(ranks) if _is_alive(self.pid(rank))]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def job(folder: Path, num_nodes: int = 2) -> Iterator[Job]:
    made = Job(folder, num_nodes)
    try:
        yield made
    finally:
        for agent in made.agents:
            agent.kill()
            agent.wait()
        for rank in made.living():
            os.kill(made.pid(rank), signal.SIGKILL)


def test_children_of_the_shell_before_are_no_ranks(tmp_path: Path) -> None:
    with job(tmp_path) as made:
        # The shell itself ends; what it has started is a child of the run.
        shell = 'sleep 40 & setsid sleep 40 & exec "$0" "$@"'
        made.run(0, "--timeout", "8", before=["sh", "-c", shell], sleeps=(60, 60))

        text = "ranktable: gave up after 8 s: node 1 (127.0.0.2) did not come"
        assert made.ends() == [(1, [text])]


def test_nodes_that_come_give_up_and_name_the_one_that_does_not(tmp_path: Path) -> None:
    with job(tmp_path, 3) as made:
        for node in (0, 2):
            made.run(node, "--timeout", "8", sleeps=(60, 60, 60))

        text = "ranktable: gave up after 8 s: node 1 (127.0.0.2) did not come"
        assert made.ends() == [(1, [text])] * 2
        assert made.living() == []


def test_node_gives_up_if_node_0_does_not_come(tmp_path: Path) -> None:
    with job(tmp_path) as made:
        made.run(1, "--timeout", "2", sleeps=(60, 60))
        ((status, (said,)),) = made.ends()

        assert status == 1
        assert said == (
            f"ranktable: gave up after 2 s: node 0: 127.0.0.1, port {made.port}, does "
            "not answer: connection refused"
        )


@pytest.mark.parametrize("node", [0, 1])
def test_no_agent_is_left_if_a_rank_of_another_node_fails(
    tmp_path: Path, node: int
) -> None:
    with job(tmp_path) as made:
        made.run(0, sleeps=(600, 600))
        made.run(1, sleeps=(600, 600))
        pids = [made.pid(rank) for rank in range(4)]
        os.kill(pids[2 * node], signal.SIGKILL)
        ended = made.ends()

        name = f"node {node} ({HOSTS[node]})"
        assert [status for status, _ in ended] == [1, 1]
        assert ended[node][1] == []
        (said,) = ended[1 - node][1]
        assert said.startswith(f"ranktable: {name} has ")
        assert said.endswith("; the ranks of this node are ended")
        assert made.living() == []


def test_no_agent_is_left_if_another_is_ended_by_a_signal(tmp_path: Path) -> None:
    with job(tmp_path) as made:
        made.run(0, sleeps=(600, 600))
        made.run(1, sleeps=(600, 600))
        for rank in range(4):
            made.pid(rank)
        made.agents[1].send_signal(signal.SIGTERM)
        (first, said), (second, nothing) = made.ends()

        assert (first, second, nothing) == (1, 128 + signal.SIGTERM, [])
        assert said[0].startswith("ranktable: node 1 (127.0.0.2) was ended by SIGTERM")
        assert made.living() == []


@pytest.mark.parametrize("again", [None, signal.SIGTERM, signal.SIGINT])
def test_no_rank_is_left_by_a_signal_while_they_are_started(
    tmp_path: Path, again: signal.Signals | None
) -> None:
    with job(tmp_path, 1) as made:
        ignores = "trap '' TERM INT" if again else ":"
        (tmp_path / "s.sh").write_text(
            f"#!/bin/sh\n{ignores}\necho $$ > $RANK.new; mv $RANK.new $RANK\n"
            "kill -TERM $PPID\nexec sleep 600\n"
        )
        (tmp_path / "s.sh").chmod(0o755)
        table = make_table([[*range(8)]], hosts=HOSTS[:1])
        dump(table, tmp_path / "eight.json")
        run: list[str | Path] = [BIN / "ranktable", "run", "--rank-table", "eight.json"]
        made.start([*run, "--no-python", "./s.sh"])
        if again:
            made.pid(0)
            time.sleep(1)  # it waits for the end of the ranks, which ignore the first
            made.agents[0].send_signal(again)

        assert made.ends() == [(128 + signal.SIGTERM, [])]
        assert made.living() == []


@pytest.mark.slow
def test_stopped_rank_does_not_keep_its_agent(tmp_path: Path) -> None:
    with job(tmp_path) as made:
        made.run(0, sleeps=(600, 600))
        made.run(1, sleeps=(600, 600))
        pids = [made.pid(rank) for rank in range(4)]
        os.kill(pids[0], signal.SIGSTOP)
        os.kill(pids[3], signal.SIGKILL)

        assert [status for status, _ in made.ends()] == [1, 1]
        assert made.living() == []


@pytest.mark.parametrize("sleeps", [(0.1, 6.0), (6.0, 0.1)])
def test_nodes_that_finish_at_other_times_are_left_alone(
    tmp_path: Path, sleeps: tuple[float, ...]
) -> None:
    with job(tmp_path) as made:
        made.run(0, "--timeout", "60", sleeps=sleeps)
        made.run(1, "--timeout", "60", sleeps=sleeps)

        assert made.ends() == [(0, []), (0, [])]


@pytest.mark.parametrize("node", [0, 1])
def test_node_that_plain_torchrun_has_started_is_not_missing(
    tmp_path: Path, node: int
) -> None:
    with job(tmp_path) as made:
        made.run(node, "--timeout", "15", sleeps=(18, 18))
        where = ["--nnodes=2", f"--node-rank={1 - node}", "--nproc-per-node=2"]
        where += ["--master-addr=127.0.0.1", f"--master-port={made.port}"]
        made.start([BIN / "torchrun", *where, "s.py", ".", "18", "18"])

        assert [status for status, _ in made.ends()] == [0, 0]


def test_ranks_do_not_see_the_limit(tmp_path: Path) -> None:
    with job(tmp_path) as made:
        seen = "import os, sys\nsys.exit('RANKTABLE_TIMEOUT_S' in os.environ)\n"
        (tmp_path / "s.py").write_text(seen)
        for node in (0, 1):
            made.run(node, "--timeout", "60", sleeps=())

        assert made.ends() == [(0, []), (0, [])]
