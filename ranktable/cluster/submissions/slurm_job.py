"""The options of a job of Slurm, or of a step in it: nodes, tasks, chips and binding.

Source: SchedMD/slurm, doc/man/man1/srun.1 (``--gpu-bind``, ``--tres-bind``). What a
task sees was measured with Slurm 22.05.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, cycle, islice, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from ranktable.cluster.chip_words import CHIP_WORDS
from ranktable.cluster.submissions.shell import plain_number
from ranktable.cluster.submissions.shell_marks import UNKNOWN
from ranktable.cluster.submissions.submission import Fact, Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.cluster.submissions.submission import Setting

_CHIPS: Final = re.compile(
    rf"(?:gres[/:])?(?!neuron)(?:{CHIP_WORDS})(?:[0-9][0-9a-z]*)?(?::.*|=.*)?"
)
_PLAIN_GRES: Final = re.compile(r"gpu:[0-9]+")
_BINDING: Final = re.compile(r"(per_task|single|map|mask)(?:_gpu)?:([0-9a-fx,*]+)")
_MOST: Final = 256
"""Tasks of a node whose chips are compared."""
_REPEATED: Final = re.compile(r"(0x[0-9a-f]{1,8}|[0-9]{1,4})(?:\*([0-9]{1,4}))?")


class Binding(NamedTuple):
    """Which chips of its node a task sees.

    Attributes:
        seen: How many; None if a task sees those of its node, or it is not known.
        shared: How many tasks of a node see one same chip and no other.
        near: What shows a task the chips near its processors, if something does.
    """

    seen: Fact | None = None
    shared: int = 1
    near: Setting | None = None


class SlurmJob:
    """The options of a job, or of a step in it."""

    def __init__(self, options: Mapping[str, Setting]) -> None:
        """Take the options by their long names."""
        self.options = dict(options)
        of_task = options.get("tres-per-task")
        count = None if of_task is None else chip_count(of_task.text, "gres")
        if of_task is not None and count is not None:
            text = str(count)
            self.options.setdefault("gpus-per-task", of_task._replace(text=text))

    def __contains__(self, name: str) -> bool:
        """Whether an option is given."""
        return name in self.options

    def text(self, name: str) -> str:
        """Return the text of an option, nothing if it is not given."""
        return self.options[name].text if name in self.options else ""

    def number(self, name: str) -> Fact | None:
        """Return the number of an option, None if there is none."""
        given = self.options.get(name)
        value = None if given is None else plain_number(given.text)
        return None if value is None else Fact(value, given.said, given.span)  # type: ignore[union-attr]

    def nodes(self) -> Fact | None:
        """Return the number of nodes, None if it is a range or not known.

        Without a number Slurm 22.05 took one that has the tasks or chips of the job.
        """
        given = self.options.get("nodes")
        if given is not None:
            least, _, most = given.text.partition("-")
            value = plain_number(least) if most in ("", least) else None
            return None if not value else Fact(value, given.said, given.span)
        tasks, total = self.number("ntasks"), self.listed("gpus")
        if "gpus" in self.options and (total is None or total.value > 1):
            each = self.listed("gpus-per-node")
            if "ntasks-per-node" in self.options or not (total and each and each.value):
                return None
            said = f"{total.said} with {each.said}"
            return Fact(total.value // each.value, said, total.span)
        if "ntasks" in self.options and (tasks is None or tasks.value > 1):
            return None
        return Fact(1, "no --nodes")

    def node_range(self) -> Range | None:
        """Return the fewest and the most nodes with one task each, if given so."""
        given, each = self.options.get("nodes"), self.number("ntasks-per-node")
        least, _, most = given.text.partition("-") if given else ("", "", "")
        ends = plain_number(least), plain_number(most)
        others = {"ntasks", "ntasks-per-gpu", "gpus", "gpus-per-task"}
        if given is None or ends[0] is None or ends[1] is None:
            return None
        is_one = each.value == 1 if each else "ntasks-per-node" not in self
        is_sized = not is_one or others & self.options.keys()
        return None if is_sized else Range(ends[0], ends[1], given.said)

    def all_chips(self) -> Fact | None:
        """Return the chips of all nodes together, if they are given so only."""
        of_node = {"gpus-per-node", "gres", "tres-per-node", "gpus-per-task"}
        return None if of_node & self.options.keys() else self.listed("gpus")

    def products(self) -> Iterator[tuple[Fact, Fact, Fact]]:
        """Yield numbers of chips without a type that are products of two others."""
        total, of_task, of_node = map(
            self.number, ("gpus", "gpus-per-task", "gpus-per-node")
        )
        gres, nodes = self.options.get("gres"), self.nodes()
        if gres is not None and _PLAIN_GRES.fullmatch(gres.text):
            of_node = of_node or self.listed("gres")
        tasks, each = self.number("ntasks"), self.number("ntasks-per-node")
        is_fewer = nodes and tasks and tasks.value < nodes.value  # Slurm drops nodes
        if is_fewer or "nodes" not in self:
            nodes = None
        sums = (
            (total, tasks, of_task),
            (total, nodes, of_node),
            (of_node, each, of_task),
        )
        for whole, number, part in sums:
            if whole and number and part:
                yield whole, number, part

    def is_in_order(self) -> bool:
        """Whether no option gives the first tasks to another node than the first."""
        order = self.options.get("distribution")
        is_arbitrary = order is not None and "arbitrary" in order.text
        return not (is_arbitrary or "relative" in self.options)

    def chips(self, tasks_per_node: Fact | None, nodes: Fact | None) -> Fact | None:
        """Return the chips of a node, None if they are not known."""
        for name in ("gpus-per-node", "gres", "tres-per-node"):
            if (count := self.listed(name)) is not None:
                return count
        each = self.listed("gpus-per-task")
        if each is not None and tasks_per_node is not None:
            return Fact(each.value * tasks_per_node.value, each.said, each.span)
        return None if nodes is None or nodes.value != 1 else self.listed("gpus")

    def listed(self, name: str) -> Fact | None:
        """Return the chips in an option with a list of them, None if it has none."""
        given = self.options.get(name)
        kind = name if name.startswith("gpus") else "gres"
        count = None if given is None else chip_count(given.text, kind)
        return None if count is None else Fact(count, given.said, given.span)  # type: ignore[union-attr]

    def tasks_per_node(self, nodes: Fact | None) -> Fact | None:
        """Return the tasks of each node, if an option gives them or their chips."""
        each, chips = self.number("ntasks-per-gpu"), self.chips(None, nodes)
        if each is None or chips is None:
            return self.number("ntasks-per-node")
        said = f"{each.said}, {chips.said}"
        return Fact(each.value * chips.value, said, each.span)

    def binding(self, tasks: Fact | None) -> Binding:
        """Return which chips a task sees, of so many tasks of a node."""
        flags, accel = self.options.get("gres-flags"), self.options.get("accel-bind")
        if flags is not None and "allow-task-sharing" in flags.text:
            return Binding()
        each = self.listed("gpus-per-task")
        for name in ("tres-bind", "gpu-bind"):
            given = self.options.get(name)
            match = None if given is None else _BINDING.search(given.text)
            if given is not None and match is not None:
                seen, shared = _bound(match[1], match[2], tasks)
                fact = None if seen is None else Fact(seen, given.said, given.span)
                return Binding(fact, shared)
            if given is not None:
                is_near = "closest" in given.text and each is None
                each = None if "none" in given.text else each
                return Binding(each, near=given if is_near else None)
        of_chip = self.options.get("ntasks-per-gpu")
        if of_chip is not None:
            return Binding(Fact(1, of_chip.said, of_chip.span))
        is_near = accel is not None and "g" in accel.text and each is None
        return Binding(each, near=accel if is_near else None)


def _bound(kind: str, text: str, tasks: Fact | None) -> tuple[int | None, int]:
    """Return how many chips a task sees, and how many tasks see one same chip only."""
    number = 1 if tasks is None else min(tasks.value, _MOST)
    if kind in ("per_task", "single"):
        each = plain_number(text) or 1
        return (each, 1) if kind == "per_task" else (1, min(each, number))
    matches = [_REPEATED.fullmatch(item) for item in text.split(",")[:_MOST]]
    repeated = (repeat(m[1], int(m[2] or 1)) for m in matches if m)
    items = [*islice(chain.from_iterable(repeated), number)]
    if None in matches or not items:
        return None, 1
    is_map = kind == "map"  # of numbers; the others are masks
    sizes = {1 if is_map else int(item, 16).bit_count() for item in items}
    of_tasks = Counter(islice(cycle(items), number))  # Slurm begins the list again
    return max(sizes), max(of_tasks.values()) if sizes == {1} else 1


def chip_count(text: str, name: str) -> int | None:
    """Return the chips of a list such as ``gpu:a100:4``, None if it has none."""
    total = None
    for item in text.split(","):
        if name == "gres" and not _CHIPS.fullmatch(item):
            continue
        parts = item.split("(")[0].replace("=", ":").split(":")
        given = plain_number(parts[-1])
        # A card of this type is one device to torch, or two.
        if (
            parts[1:2] == ["pvc"]
            or UNKNOWN in item
            or "$" in item
            or (given is None and name != "gres")
        ):
            return None
        total = (total or 0) + (1 if given is None else given)
    return total
