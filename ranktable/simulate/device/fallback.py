"""Every operator of the device, run on the CPU.

Torch calls ``run`` for an operator that has no kernel of its own. Device tensors among
the arguments are replaced by their aliases on the CPU, and the operator goes straight
to its CPU kernel, so that results are the CPU's bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ranktable.simulate.device.arguments import Arguments
from ranktable.simulate.device.outputs import run_with_outputs
from ranktable.simulate.device.plan import CPU_KEYS, plan_of, run_on_cpu

if TYPE_CHECKING:
    from torch._ops import OpOverload


def run(op: OpOverload, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any operator
    """Run an operator on the CPU and return its results on the device.

    Raises:
        RuntimeError: Its tensors are on more than one device, or on a missing chip.
    """
    plan = plan_of(op)
    if plan.is_view:
        # The CPU's view kernels touch only sizes and strides. Given the device's own
        # tensor they keep its storage, which is what in-place operators on views,
        # DDP's buckets and torch.save rely on.
        return op.redispatch(CPU_KEYS, *args, **kwargs)
    arguments = Arguments(plan)
    if plan.changes_first:
        arguments.prepare_writing(args[:1], args)
    elif plan.outputs:
        written = [kwargs[name] for name in plan.outputs]
        arguments.prepare_writing(written, (*args, *written))
    lowered = arguments.lower_all(args)
    named = arguments.lower_named(kwargs) if kwargs else kwargs
    if plan.outputs:
        result = run_with_outputs(op, plan, arguments, lowered, named)
    else:
        result = run_on_cpu(op, plan, lowered, named)
    return arguments.lift(result)
