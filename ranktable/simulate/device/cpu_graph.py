"""Operators whose recipe looks at the device, with the autograd that the CPU has.

Some recipes (``lstm``, attention) run above autograd and choose other operators on
another device. Here the whole operator runs on CPU aliases and records a graph of its
own, through which the backward pass goes, so that both are the CPU's bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree

from ranktable.simulate.device.arguments import Arguments
from ranktable.simulate.device.forwarding import operator_named
from ranktable.simulate.device.plan import plan_of
from ranktable.simulate.device.retag import on_cpu, on_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload

OPERATORS = (
    "gru.data",
    "gru.input",
    "gru_cell",
    "lstm.data",
    "lstm.input",
    "lstm_cell",
    "rnn_relu.data",
    "rnn_relu.input",
    "rnn_relu_cell",
    "rnn_tanh.data",
    "rnn_tanh.input",
    "rnn_tanh_cell",
    "scaled_dot_product_attention",
)


@dataclass(frozen=True, slots=True)
class _Call:
    """An operator with its arguments on the CPU, and those that are differentiated."""

    op: OpOverload
    positional: list[Any]
    named: dict[str, Any]
    aliases: list[torch.Tensor]
    chip: int

    def run(self) -> list[torch.Tensor]:
        results = self.op(*self.positional, **self.named)
        return [results] if isinstance(results, torch.Tensor) else list(results)


class _OnCpu(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch makes its class
        call: _Call,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            for alias in call.aliases:
                alias.requires_grad_()
            outputs = call.run()
        ctx.save_for_backward(*tensors)  # so that a change in between is noticed
        ctx.set_materialize_grads(value=False)  # None for an output that is not used
        ctx.call, ctx.outputs = call, outputs
        return tuple(on_device(output.detach(), call.chip) for output in outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any,  # noqa: ANN401 - as above
        *grads: torch.Tensor | None,
    ) -> tuple[torch.Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018 - reading them raises if they were changed
        used = [
            (output, on_cpu(grad))
            for output, grad in zip(ctx.outputs, grads, strict=True)
            if grad is not None
        ]
        found = torch.autograd.grad(
            [output for output, _ in used],
            ctx.call.aliases,
            [grad for _, grad in used],
            retain_graph=True,  # the graph ends with the node that holds it
            allow_unused=True,
        )
        chip = ctx.call.chip
        return None, *(
            grad if grad is None else on_device(grad, chip) for grad in found
        )


def on_cpu_graph(name: str) -> Callable[..., Any]:
    """Return a kernel that runs one operator on the CPU, with its graph."""

    def kernel(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
        op = operator_named(name)
        arguments = Arguments(plan_of(op))
        positional = arguments.lower_all(args)
        named = arguments.lower_named(kwargs)
        leaves = _pytree.tree_leaves((positional, named))
        # Once each, also where a tensor is given twice: its gradient is that of all.
        of_grad = {id(leaf): leaf for leaf in leaves if _needs_grad(arguments, leaf)}
        aliases = list(of_grad.values())
        call = _Call(op, positional, named, aliases, arguments.chip)
        if not aliases or not torch.is_grad_enabled():
            results = [on_device(result, call.chip) for result in call.run()]
        else:
            originals = [arguments.originals[id(alias)] for alias in aliases]
            results = list(_OnCpu.apply(call, *originals))  # type: ignore[no-untyped-call]
        return results[0] if len(op._schema.returns) == 1 else tuple(results)  # noqa: SLF001 - an operator has no public schema

    return kernel


def _needs_grad(arguments: Arguments, leaf: object) -> bool:
    original = arguments.originals.get(id(leaf))
    return original is not None and original.requires_grad
