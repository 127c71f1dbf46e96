"""Small training programs: what they do with plain torch on gloo, they do with ours.

Every program is written once, for functions of the names of this package. ``Plain`` has
them as scripts write them with ``torch.distributed`` alone.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from itertools import chain, zip_longest
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed as plain
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from ranktable import dist
from ranktable.runtime.torch_versions import reduce_scatter_single
from tests.rank_worker import device, group_of
from tests.ranks import TRAINING, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.ranks import Pool

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("training")]

RANKS, STEPS = 4, 3


class _Plain:
    """Functions of ``ranktable.dist``, written with plain torch."""

    def all_reduce(
        self, data: Any, op: str = "sum", group: Any = None, *, async_op: bool = False
    ) -> Any:
        kind = plain.ReduceOp.MAX if op == "max" else plain.ReduceOp.SUM
        work = plain.all_reduce(data, kind, group, async_op)
        size = plain.get_world_size(group)

        def wait() -> None:
            if work is not None:
                work.wait()
            if op == "mean":
                data.div_(size)

        return SimpleNamespace(wait=wait) if async_op else wait()

    def all_reduce_params(self, params: Iterable[Any], *, op: str = "sum") -> None:
        several = list(params)
        flat = torch.cat([each.flatten() for each in several])
        self.all_reduce(flat, op)
        nn.utils.vector_to_parameters(flat, several)

    def all_reduce_dict(self, data: dict[str, Any]) -> None:
        self.all_reduce_params(data[name] for name in sorted(data))

    def all_gather(
        self, data: Any, group: Any = None, *, uneven: bool = False
    ) -> list[Any]:
        size = plain.get_world_size(group)
        if uneven:
            lengths: Any = [None] * size
            plain.all_gather_object(lengths, len(data), group)
            longest = functional.pad(data, (0, max(lengths) - len(data)))
            pairs = zip(self.all_gather(longest, group), lengths, strict=True)
            return [each[:length] for each, length in pairs]
        found = [torch.empty_like(data) for _ in range(size)]
        plain.all_gather(found, data, group)
        return found

    def all_to_all(self, data: list[Any]) -> list[Any]:
        counts = torch.tensor([len(each) for each in data])
        theirs = torch.empty_like(counts)
        plain.all_to_all_single(theirs, counts)
        output = data[0].new_empty((int(theirs.sum()), *data[0].shape[1:]))
        splits = theirs.tolist(), counts.tolist()
        plain.all_to_all_single(output, torch.cat(data), *splits)
        return list(output.split(splits[0]))

    def reduce_scatter(self, data: Any, op: str) -> Any:
        output = data.new_empty(len(data) // plain.get_world_size())
        reduce_scatter_single()(output, data)
        return output.div_(plain.get_world_size()) if op == "mean" else output

    def scatter(self, parts: list[Any] | None, src: int) -> Any:
        output = torch.empty(3)
        plain.scatter(output, parts, src)
        return output

    def shift(self, data: Any) -> Any:
        rank, size, found = plain.get_rank(), plain.get_world_size(), data.clone()
        to = plain.P2POp(plain.isend, data, (rank + 1) % size)
        source = plain.P2POp(plain.irecv, found, (rank - 1) % size)
        for work in plain.batch_isend_irecv([to, source]):
            work.wait()
        return found

    def collect_results(self, results: list[Any], size: int) -> list[Any] | None:
        is_first = plain.get_rank() == 0
        lists: Any = [None] * plain.get_world_size() if is_first else None
        plain.gather_object(results, lists)
        if not is_first:
            return None
        return [
            each
            for each in chain.from_iterable(zip_longest(*lists))
            if each is not None
        ][:size]

    def __getattr__(self, name: str) -> Any:
        return getattr(plain, name)


WHOSE: dict[str, Any] = {"torch": _Plain(), "ours": dist}
Found = dict[str, list[float]]


def batch(*shape: int, step: int, of: int | None = None) -> torch.Tensor:
    """Return the random numbers of a rank and a step."""
    rank = plain.get_rank() if of is None else of
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(*shape, generator=generator).to(device())


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """Return a model with the same parameters on every rank."""
    torch.manual_seed(7)
    return make().to(device())


def descend(params: Iterable[torch.Tensor], rate: float) -> None:
    """Take a step, and forget the gradients."""
    with torch.no_grad():
        for each in params:
            assert each.grad is not None
            each.sub_(each.grad, alpha=rate)
            each.grad = None


def values(model: nn.Module) -> list[float]:
    flat = [each.detach().cpu().flatten() for each in model.parameters()]
    found: list[float] = torch.cat(flat).tolist()
    return found


class Summed(torch.autograd.Function):
    """The sum over the ranks of a group, forward and backward."""

    @staticmethod
    def forward(ctx: Any, data: torch.Tensor, whose: str, group: Any) -> torch.Tensor:
        ctx.whose, ctx.group = whose, group
        return Summed.of(data, whose, group)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return Summed.of(gradients[0], ctx.whose, ctx.group), None, None

    @staticmethod
    def of(data: torch.Tensor, whose: str, group: Any) -> torch.Tensor:
        total = data.clone(memory_format=torch.contiguous_format)
        WHOSE[whose].all_reduce(total, group=group)
        return total


def convolutions_with_ddp(whose: str) -> Found:
    """DDP, which accumulates gradients of two batches; the loss is averaged."""
    of, losses = WHOSE[whose], list[float]()
    model = seeded(
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2)
        )
    )
    parallel = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        with parallel.no_sync():
            parallel(batch(2, 2, 6, 6, step=step)).square().mean().backward()
        loss = parallel(batch(2, 2, 6, 6, step=step + 50)).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        shown = loss.detach().clone()
        of.all_reduce(shown, "mean")
        losses.append(shown.item())
    return {"losses": losses, "weights": values(model)}


class Words(nn.Module):
    """An embedding, a recurrent network and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.network = nn.Embedding(9, 4), nn.GRU(4, 5, batch_first=True)
        self.head = nn.Linear(5, 9)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.network(self.words(words))[0])
        return found


def words_with_averaged_gradients(whose: str) -> Found:
    """Average all gradients by one call, then clip them."""
    of, losses = WHOSE[whose], list[float]()
    model = seeded(Words)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        words = (batch(2, 6, step=step) * 4).abs().long() % 9
        loss = functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
        loss.backward()
        of.all_reduce_params((each.grad for each in model.parameters()), op="mean")
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    return {"losses": losses, "weights": values(model)}


def sharded_optimiser(whose: str) -> Found:
    """ZeRO: scatter averaged gradients, step on an own part, gather the parameters."""
    of, model = WHOSE[whose], seeded(lambda: nn.Linear(7, 4))
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    own = flat.chunk(RANKS)[plain.get_rank()].clone().requires_grad_()
    optimiser = torch.optim.Adam([own], lr=0.1)
    for step in range(STEPS):
        model(batch(5, 7, step=step)).square().sum().backward()
        gradients = torch.cat([p.grad.flatten() for p in model.parameters()])  # type: ignore[union-attr]
        own.grad = of.reduce_scatter(gradients, "mean")
        optimiser.step()
        model.zero_grad()
        flat = torch.cat(of.all_gather(own.detach()))
        nn.utils.vector_to_parameters(flat, model.parameters())
    return {"weights": values(model)}


def tensor_and_data_parallel(whose: str) -> Found:
    """A perceptron in two parts on each row of a 2 x 2 mesh; data on its columns."""
    of, rank = WHOSE[whose], plain.get_rank()
    rows, columns = ([0, 1], [2, 3]), ([0, 2], [1, 3])
    row, column = (
        next(group for ranks, group in made if rank in ranks)
        for made in [[(r, group_of(*r)) for r in axis] for axis in (rows, columns)]
    )
    torch.manual_seed(3)
    first = torch.randn(2, 4, 6)[rank % 2].to(device()).requires_grad_()
    last = torch.randn(2, 2, 4)[rank % 2].to(device()).requires_grad_()
    losses = []
    for step in range(STEPS):
        data = batch(3, 6, step=step, of=rank // 2)
        hidden = functional.gelu(functional.linear(data, first))
        output = Summed.apply(functional.linear(hidden, last), whose, row)
        loss = (output.square().mean() + 1).log()
        loss.backward()
        for each in (first, last):
            of.all_reduce(each.grad, "mean", group=column)
        descend([first, last], 0.1)
        losses.append(loss.item())
    return {"losses": losses, "weights": [*numbers(first), *numbers(last)]}


def numbers(data: torch.Tensor) -> list[float]:
    found: list[float] = data.detach().cpu().flatten().tolist()
    return found


def pipeline(whose: str) -> Found:
    """A stage on each rank; micro batches go forward, and their gradients back."""
    of, rank = WHOSE[whose], plain.get_rank()
    stage = seeded(lambda: nn.ModuleList(nn.Linear(3, 3) for _ in range(RANKS)))[rank]  # type: ignore[index]
    optimiser, losses = torch.optim.SGD(stage.parameters(), lr=0.1), list[float]()
    for step in range(STEPS):
        kept = []
        for micro in range(2):
            data = batch(2, 3, step=10 * step + micro, of=0)
            if rank:
                of.recv(data, rank - 1)
            data.requires_grad_()
            output = torch.tanh(stage(data))
            if rank < RANKS - 1:
                of.send(output.detach(), rank + 1)
            kept.append((data, output))
        for data, output in kept:
            gradient = torch.empty_like(output)
            if rank < RANKS - 1:
                of.recv(gradient, rank + 1)
                output.backward(gradient)
            else:
                loss = output.square().sum()
                loss.backward()
                losses.append(loss.item())
            if rank:
                assert data.grad is not None
                of.send(data.grad, rank - 1)
        optimiser.step()
        optimiser.zero_grad()
    return {"weights": values(stage)} | ({"losses": losses} if losses else {})


class Exchanged(torch.autograd.Function):
    """What other ranks send, of any length; gradients go the way back."""

    @staticmethod
    def forward(ctx: Any, whose: str, *parts: torch.Tensor) -> Any:
        ctx.whose = whose
        return tuple(WHOSE[whose].all_to_all([each.detach() for each in parts]))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        parts = [each.contiguous() for each in gradients]
        return None, *WHOSE[ctx.whose].all_to_all(parts)


def mixture_of_experts(whose: str) -> Found:
    """An expert on each rank, to which tokens are sent, uneven numbers of them."""
    of, rank = WHOSE[whose], plain.get_rank()
    gate = seeded(lambda: nn.Linear(4, RANKS))
    torch.manual_seed(20 + rank)
    expert = nn.Linear(4, 4).to(device())
    for step in range(STEPS):
        tokens = batch(9, 4, step=step)
        scores = gate(tokens).softmax(-1)
        chosen = scores.argmax(-1)
        parts = [tokens[chosen == each] for each in range(RANKS)]
        sent = Exchanged.apply(whose, *[each.requires_grad_() for each in parts])
        done = expert(torch.cat(sent)).tanh().split([len(each) for each in sent])
        back = Exchanged.apply(whose, *done)
        weight = scores.gather(-1, chosen[:, None])
        found = torch.cat([b * weight[chosen == i] for i, b in enumerate(back)])
        found.square().sum().backward()
        of.all_reduce_params([each.grad for each in gate.parameters()], op="mean")
        descend(chain(gate.parameters(), expert.parameters()), 0.05)
    return {"gate": values(gate), "expert": values(expert)}


def batch_norm_of_all_ranks(whose: str) -> Found:
    """Normalise by the mean and variance over all ranks, also in the backward pass."""
    of, model = WHOSE[whose], seeded(lambda: nn.Linear(3, 3))
    running = torch.zeros(3).to(device())
    for step in range(STEPS):
        data = model(batch(4, 3, step=step))
        sums = torch.cat([data.sum(0), data.square().sum(0)])
        sums = Summed.apply(sums, whose, None) / (4 * RANKS)
        mean, variance = sums[:3], sums[3:] - sums[:3].square()
        ((data - mean) / (variance + 1e-3).sqrt()).sigmoid().prod(1).sum().backward()
        running = 0.9 * running + 0.1 * mean.detach()
        of.all_reduce_params([each.grad for each in model.parameters()])
        descend(model.parameters(), 0.1)
    return {"weights": values(model), "running": numbers(running)}


def transformer_with_hooks(whose: str) -> Found:
    """Begin to reduce each gradient while the backward pass goes on, as bfloat16."""
    of, works = WHOSE[whose], list[Any]()
    model = seeded(lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True))
    names = {each: str(i) for i, each in enumerate(model.parameters())}

    def begin(weight: torch.Tensor) -> None:
        assert weight.grad is not None
        sent = weight.grad.bfloat16()
        works.append((weight, sent, of.all_reduce(sent, "mean", async_op=True)))

    for weight in names:
        weight.register_post_accumulate_grad_hook(begin)
    for step in range(STEPS):
        model(batch(2, 3, 4, step=step)).square()[..., 0].sum().backward()
        for weight, sent, work in works:
            work.wait()
            weight.grad = sent.float()
        descend(model.parameters(), 0.01)
        works.clear()
    return {"weights": values(model)}


def evaluation(whose: str) -> Found:
    """Average weights over time; gather predictions of uneven numbers, and metrics."""
    of, rank = WHOSE[whose], plain.get_rank()
    model, averaged = (seeded(lambda: nn.Linear(3, 1)) for _ in range(2))
    found = Found()
    for step in range(STEPS):
        model(batch(4, 3, step=step)).exp().mean().backward()
        of.all_reduce_params([each.grad for each in model.parameters()], op="mean")
        descend(model.parameters(), 0.1)
        with torch.no_grad():
            pairs = zip(model.parameters(), averaged.parameters(), strict=True)
            for each, slow in pairs:
                slow.lerp_(each, 0.25)
    with torch.no_grad():
        predictions = averaged(batch(2 + rank, 3, step=40))[:, 0]
    gathered = of.all_gather(predictions, uneven=True)
    metrics = {"count": torch.tensor(2.0 + rank), "loss": predictions.sum().cpu()}
    metrics = {name: each.to(device()) for name, each in metrics.items()}
    of.all_reduce_dict(metrics)
    largest = predictions.max()
    of.all_reduce(largest, "max")
    results = of.collect_results(predictions.tolist(), 13)
    found["gathered"] = [number for each in gathered for number in numbers(each)]
    found["metrics"] = [metrics["count"].item(), metrics["loss"].item(), largest.item()]
    found["results"] = results or []
    return found


def gossip(whose: str) -> Found:
    """Scatter the data of one rank; average with the neighbour, at the end with all."""
    of, rank = WHOSE[whose], plain.get_rank()
    parts = [batch(3, step=9, of=each) for each in range(RANKS)] if rank == 1 else None
    target, weight = of.scatter(parts, src=1), torch.zeros(3).to(device())
    for _ in range(STEPS):
        weight = weight - 0.3 * (weight - target)
        weight = (weight + of.shift(weight)) / 2
    own = numbers(weight)
    of.all_reduce(weight, "mean")
    of.broadcast(target, src=2)
    return {"own": own, "weights": numbers(weight), "target": numbers(target)}


PROGRAMS: dict[Callable[[str], Found], float] = {
    convolutions_with_ddp: 1e-5,
    words_with_averaged_gradients: 1e-5,
    sharded_optimiser: 1e-5,
    tensor_and_data_parallel: 1e-5,
    pipeline: 0,
    mixture_of_experts: 1e-5,
    batch_norm_of_all_ranks: 1e-5,
    transformer_with_hooks: 1e-3,  # it adds up in bfloat16
    evaluation: 1e-5,
    gossip: 1e-5,
}
"""Programs, and by how much values may differ on simulated chips, which add up in the
order of the ranks; gloo does in another one. On gloo every bit is the same."""


@pytest.fixture(scope="module", params=["gloo", "sccl"])
def four(request: pytest.FixtureRequest) -> Iterator[Pool]:
    yield (pool := named(f"{request.param}-{RANKS}"))
    pool.stop()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_program_gives_what_it_gives_with_plain_torch(
    four: Pool, program: Callable[[str], Found]
) -> None:
    expected = named(f"gloo-{RANKS}").returned(program, "torch", env=TRAINING)
    found = four.returned(program, "ours", env=TRAINING)

    assert all(all(each.values()) for each in expected[:1])
    if four.backend == "gloo":
        assert found == expected
    for ours, theirs in zip(found, expected, strict=True):
        assert ours == {
            name: pytest.approx(each, rel=PROGRAMS[program], abs=PROGRAMS[program])
            for name, each in theirs.items()
        }
