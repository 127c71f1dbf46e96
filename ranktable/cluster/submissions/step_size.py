"""How many nodes, tasks and chips a step of a job has.

Source: SchedMD/slurm, doc/man/man1/srun.1. What srun inherits from the options of the
job was measured with Slurm 22.05.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.submissions import submission_rules as rules
from ranktable.cluster.submissions.slurm_job import Binding, SlurmJob
from ranktable.cluster.submissions.submission import Fact, Role

if TYPE_CHECKING:
    from ranktable.cluster.submissions.batch_job import BatchJob
    from ranktable.cluster.submissions.submission import Script
    from ranktable.schema.document import SourceSpan


def step_size(
    part: BatchJob, script: Script, step: SlurmJob, span: SourceSpan, *, is_whole: bool
) -> tuple[Role, Fact | None, Fact | None]:
    """Return the nodes and chips of a step, its tasks on each node, and all."""
    nodes = step.nodes() if "nodes" in step else part.nodes
    tasks, per_node = _step_tasks(part, script, step, nodes, span)
    if not is_whole:
        tasks = per_node = None
    if nodes is not None and tasks is not None and 0 < tasks.value < nodes.value:
        nodes, per_node = tasks, Fact(1, tasks.said, tasks.span)  # fewer nodes do
    _refuse_nodes(part, script, nodes, span)
    chips, binding = _step_chips(part, script, step, per_node, nodes, span)
    if per_node is None:
        _refuse_chips(part, script, step, tasks, span)
    role = Role(
        nodes=nodes,
        chips=chips,
        chips_per_task=binding.seen,
        tasks_per_chip=binding.shared,
        near=binding.near,
    )
    return role, per_node, tasks


def _step_tasks(
    part: BatchJob, script: Script, step: SlurmJob, nodes: Fact | None, span: SourceSpan
) -> tuple[Fact | None, Fact | None]:
    """Return the tasks of a step, and those of each of its nodes."""
    each = step.number("ntasks-per-node")
    both = {*part.job.options, *step.options}
    if "ntasks" in step:
        tasks = step.number("ntasks")
    elif "ntasks-per-node" in step:
        tasks = _step_of(part, script, each, nodes, span)
    elif "ntasks-per-gpu" in step or {"gpus", "gpus-per-task"} <= both:
        tasks = part.tasks if "ntasks" in part.job else None
    elif {"ntasks", "ntasks-per-node", "ntasks-per-gpu"} & both:
        tasks = part.tasks
        if "nodes" in step and tasks is not None:  # SLURM_NTASKS is an option too
            tasks = tasks._replace(said=f"SLURM_NTASKS of {tasks.said}")
    elif "gpus-per-socket" in both:
        tasks = None  # Slurm 22.05 gave the job a task for each socket
    else:
        tasks = nodes and Fact(nodes.value, nodes.said, nodes.span)
    each = each or part.job.tasks_per_node(part.nodes)
    if tasks is None or nodes is None:
        return tasks, None
    if nodes.value in (1, tasks.value):
        value = tasks.value // nodes.value
    elif each is not None and each.value * nodes.value == tasks.value:
        value = each.value
    else:
        return tasks, None  # the nodes may have different numbers of tasks
    return tasks, Fact(value, tasks.said, tasks.span)


def _step_of(
    part: BatchJob,
    script: Script,
    each: Fact | None,
    nodes: Fact | None,
    span: SourceSpan,
) -> Fact | None:
    """Return the tasks of a step that gives only those of a node."""
    if each is None or nodes is None:
        return None
    product = each.value * nodes.value
    if part.tasks is not None and part.tasks.value != product:
        # SLURM_NTASKS is an option of srun too.
        script.leave(
            span,
            f"Slurm may ignore {each.said}, because SLURM_NTASKS is "
            f"{part.tasks.value} ({part.tasks.said}); -n {product} beside it "
            "decides",
        )
        return None
    return Fact(product, each.said, each.span)


def _refuse_nodes(
    part: BatchJob, script: Script, nodes: Fact | None, span: SourceSpan
) -> None:
    """Report a step on more nodes than the job has; measured with Slurm 22.05."""
    if nodes is None or part.nodes is None or nodes.value <= part.nodes.value:
        return
    script.report(
        rules.REFUSED,
        nodes.span or span,
        f"{nodes.said} asks for more nodes than the job has ({part.nodes.said}), "
        "which srun refuses",
        hint="leave it out: a step has the nodes of its job",
    )


def _refuse_chips(
    part: BatchJob, script: Script, step: SlurmJob, tasks: Fact | None, span: SourceSpan
) -> None:
    """Report tasks with more chips together than the nodes of the job have."""
    each, has, nodes = step.listed("gpus-per-task"), part.chips, part.nodes
    if not (each and tasks and has and nodes):
        return
    asked, total = each.value * tasks.value, has.value * nodes.value
    if asked > total:
        script.report(
            rules.REFUSED,
            each.span or span,
            f"{each.said} for {tasks.value} tasks ({tasks.said}) asks for {asked} "
            f"chips, and the job has {total} ({has.said}), so srun refuses it",
            hint=f"start {total // each.value} tasks",
        )


def _step_chips(
    part: BatchJob,
    script: Script,
    step: SlurmJob,
    per_node: Fact | None,
    nodes: Fact | None,
    span: SourceSpan,
) -> tuple[Fact | None, Binding]:
    """Return the chips of a step on a node, and which of them a task sees."""
    both = SlurmJob({**part.job.options, **step.options})
    chips, binding = both.chips(per_node, nodes), both.binding(per_node)
    asked, has = step.chips(per_node, nodes), part.chips
    of_job = part.job.listed("gpus-per-node")
    if asked is None or has is None:
        return chips, binding
    if asked.value > has.value:
        script.report(
            rules.REFUSED,
            asked.span or span,
            f"{asked.said} asks for {asked.value} chips of a node, and the job has "
            f"{has.value} ({has.said}), so srun refuses it",
            hint="ask for the chips in an #SBATCH line",
        )
        return None, binding
    if of_job and "gpus-per-node" not in step and "gpus-per-task" not in step:
        if asked.value != of_job.value:
            script.leave(
                span,
                f"Slurm 22.05 takes {asked.said} for {of_job.said} of the job, and "
                "newer versions may refuse both together",
            )
        return (chips if asked.value == of_job.value else None), binding
    return chips, binding
