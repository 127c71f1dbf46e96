"""Collectives in functions that ``torch.compile`` compiles."""

from __future__ import annotations

import copy
import shutil
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from ranktable import dist
from tests.commands import run_python, torch_environment
from tests.rank_worker import tensor, told
from tests.ranks import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.ranks import Pool

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7),
        reason="torch traces all calls before 2.7",
    ),
]

BACKENDS = ["eager", "aot_eager"]


def in_the_middle(data: torch.Tensor) -> torch.Tensor:
    summed = data * 2
    dist.all_reduce(summed)
    return summed + 1


def begun_and_waited(data: torch.Tensor) -> torch.Tensor:
    summed = data * 2
    work = dist.all_reduce(summed, "mean", async_op=True)
    meanwhile = data + 5
    while not work.is_completed():
        pass
    return work.wait() + meanwhile


def refused(data: torch.Tensor) -> torch.Tensor:
    try:
        dist.all_reduce(data.long(), "mean")
    except dist.UnsupportedError:
        return data + 3
    return data


@dist.master_only
def note(notes: list[float], loss: torch.Tensor) -> None:
    notes.append(loss.item())


def noted(data: torch.Tensor) -> torch.Tensor:
    notes: list[float] = []
    note(notes, data.sum())
    return data + len(notes)


def several(data: torch.Tensor) -> torch.Tensor:
    """Use a function of each kind."""
    dist.barrier()
    parts = dist.all_gather(data.sum())
    scattered = dist.reduce_scatter([data] * dist.get_world_size())
    both = {"sum": data.sum(), "most": data.max()}
    dist.all_reduce_dict(both)
    objects = dist.all_gather_object({"rank": dist.get_rank()})
    moved = dist.shift(data + dist.get_rank())
    return torch.stack(parts).sum() + scattered + both["most"] + len(objects) + moved


FUNCTIONS = (in_the_middle, begun_and_waited, refused, noted, several)


def compiled_beside_eager(backend: str) -> list[object]:
    """Return what each function gives compiled, and as it is."""
    found: list[object] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the compiler
        for function in FUNCTIONS:
            torch.compiler.reset()
            compiled = torch.compile(function, backend=backend)
            for values in ([1.0, 2.0], [3.0, 4.0, 5.0]):
                both = [each(tensor(values)).tolist() for each in (compiled, function)]
                found.append([function.__name__, *both])
    return found


def check_compiled(pair: Pool, backend: str) -> None:
    for found in pair.returned(compiled_beside_eager, backend, timeout_s=120):
        for name, compiled, eager in found:
            assert (name, compiled) == (name, eager)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_function_gives_what_it_gives_as_it_is(
    pair: Pool, backend: str
) -> None:
    check_compiled(pair, backend)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++"), reason="there is no compiler of C++")
def test_code_that_inductor_makes_gives_the_same(fresh: Pool) -> None:
    check_compiled(fresh, "inductor")


class Scaled(torch.nn.Module):
    """A network that reduces what its first part gives."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.first(batch)
        scale = hidden.detach().abs().mean()
        dist.all_reduce(scale, "mean")
        output: torch.Tensor = self.last(torch.relu(hidden) / scale)
        return output


def train_compiled(backend: str) -> bool:
    """Return whether two steps of a compiled network give the eager gradients."""
    torch.manual_seed(1)
    compiled, eager = Scaled(), Scaled()
    eager.load_state_dict(copy.deepcopy(compiled.state_dict()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compiler.reset()
        first: Any = torch.compile(DistributedDataParallel(compiled), backend=backend)
        for network in (first, DistributedDataParallel(eager)):
            for step in range(2):
                batch = torch.arange(6.0).view(2, 3) + dist.get_rank() + step
                network(batch).sum().backward()
    pairs = zip(compiled.parameters(), eager.parameters(), strict=True)
    return all(torch.allclose(one.grad, two.grad) for one, two in pairs)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_network_that_reduces_has_the_same_gradients(
    fresh: Pool, backend: str
) -> None:
    assert fresh.returned(train_compiled, backend, timeout_s=120) == [True] * 2


def demand_one_graph(function: Callable[[torch.Tensor], object]) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        return told(compiled, torch.ones(2))


def test_one_graph_is_refused_by_the_compiler_with_the_name_of_the_call(
    fresh: Pool,
) -> None:
    for kind, said in fresh.returned(demand_one_graph, in_the_middle):
        assert kind == "Unsupported"
        assert "function all_reduce" in said
        assert "ranktable.dist is not traced" in said
        assert "test_dist_compiled.py" in said


WITHOUT_COMPILER = """
import os, sys
import torch
from ranktable import dist
dist.init_dist(backend="gloo")
dist.all_reduce(torch.ones(2))
work = dist.all_reduce(torch.ones(2), async_op=True)
work.wait()
# As one write, because two ranks write to one pipe.
os.write(1, f"{'torch._dynamo' in sys.modules}\\n".encode())
"""


def test_a_job_that_compiles_nothing_does_not_load_the_compiler(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_COMPILER)

    # Interpreters that have nothing imported; a fork may have the compiler already.
    done = run_python(
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script),
        env=torch_environment(),
        timeout_s=DEADLINE_S,
    )

    assert done.status == 0, done.err
    assert done.out == "False\n" * 2
