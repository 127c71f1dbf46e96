"""Compute while gradients travel.

    torchrun --standalone --nproc-per-node 2 examples/overlap.py

The gradients of a model come one layer after the other, the last layer first. Each is
handed over as soon as it is there, and travels while the next one is computed: gloo
has a thread for that, a device backend a stream. ``wait()`` lets the current stream
wait, so what follows sees the mean.
"""

from __future__ import annotations

import sys
import time

import torch

from ranktable import dist

LAYERS, WIDTH = 6, 512


def gradients(model: torch.nn.Sequential, data: torch.Tensor) -> None:
    """Compute the gradients, and their mean over all ranks meanwhile."""
    works = []

    def hand_over(parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            works.append(dist.all_reduce(parameter.grad, "mean", async_op=True))

    hooks = [
        parameter.register_post_accumulate_grad_hook(hand_over)  # type: ignore[no-untyped-call]
        for parameter in model.parameters()
    ]
    model(data).square().mean().backward()
    for work in works:
        work.wait()
    for hook in hooks:
        hook.remove()


def main() -> None:
    """Print how the ranks agree after a step."""
    with dist.init_dist() as job:
        torch.manual_seed(job.rank)
        layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
        model = torch.nn.Sequential(*layers).to(job.device)
        dist.all_reduce_params(model.parameters(), op="mean")
        begin = time.perf_counter()
        gradients(model, torch.randn(64, WIDTH).to(job.device))
        took_s = time.perf_counter() - begin
        found = [each.grad for each in model.parameters()]
        sums = [float(each.sum()) for each in found if each is not None]
        if len({tuple(each) for each in dist.all_gather_object(sums)}) > 1:
            sys.exit("the ranks have different gradients")
        if job.rank == 0:
            sys.stdout.write(
                f"{len(sums)} gradients are the same on {job.world_size} ranks, "
                f"{took_s * 1e3:.0f} ms\n"
            )


if __name__ == "__main__":
    main()
