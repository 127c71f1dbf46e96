"""Slurm's topology.conf: ``SwitchName=s1 Nodes=n[1-8]``, ``BlockName=b1 Nodes=``.

The output of ``scontrol show topology`` is read too. It adds Level= and, for a switch
of switches, the nodes below it. Instead of BlockSizes= it has a line for every larger
block.

Source: SchedMD/slurm, topology.conf(5) and scontrol(1). Names of parameters are not
case-sensitive, and a backslash at the end of a line continues it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.slurm import expand_token
from ranktable.cluster.source_text import words_of
from ranktable.layout.topologies.blocks import block_hierarchy
from ranktable.layout.topologies.host_tree import HostTree, Names, refuse_both
from ranktable.schema.diagnostic import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.cluster.source_text import SourceText, Token
    from ranktable.layout.boundaries import Hierarchy

_EXAMPLE = "write, for example, SwitchName=s1 Nodes=n[1-8]"
_KEYS = {
    "switchname": ("switches", "nodes", "linkspeed", "level"),
    "blockname": ("nodes", "blockindex", "blocksize"),
    "aggregatedblock": ("nodes", "blockindex", "blocksize"),
    "blocksizes": (),
}
"""Parameters that begin a line, and those that may follow each."""


@dataclass(slots=True)
class _ConfReader:
    source: SourceText
    switches: HostTree
    blocks: HostTree
    names: Names
    sizes: list[int] = field(default_factory=list)
    sizes_at: Token | None = None
    shown: set[int] = field(default_factory=set)
    has_larger: bool = False

    @property
    def all_sizes(self) -> list[int]:
        """The sizes of blocks, from BlockSizes= or from the output of scontrol."""
        if self.sizes or not self.has_larger:
            return self.sizes
        return sorted(self.shown)

    def line(self, words: list[Token]) -> None:
        """Read one line."""
        found = self.parameters(words)
        if not found:
            return
        first = next(iter(found))
        if first == "blocksizes":
            self.block_sizes(found[first])
            return
        if "blocksize" in found:
            self.shown.update(self.sizes_in(found["blocksize"]))
        if first == "aggregatedblock":
            self.has_larger = True
            return
        is_switch = first == "switchname"
        tree = self.switches if is_switch else self.blocks
        name = found[first]
        if not self.source.host(name):
            return
        tree.add_group(name.text, name)
        below = [key for key in ("switches", "nodes") if key in found]
        if "level" in found and "switches" in found:
            below = ["switches"]  # scontrol lists the nodes below these switches too
        if is_switch:
            refuse_both(self.source, name, "switch", given=len(below))
        elif not below:
            self.source.report(
                rules.BAD_LINE, name, f"the block {quoted(name.text)} has no Nodes="
            )
        for key in below:
            names = expand_token(self.source, found[key])
            names = self.names.take(names, found[key])
            add = tree.add_hosts if key == "nodes" else tree.add_children
            add(name.text, names, found[key])

    def parameters(self, words: list[Token]) -> dict[str, Token]:
        """Return the parameters of a line; empty after reporting an error."""
        found: dict[str, Token] = {}
        for word in words:
            name, equals, _ = word.text.partition("=")
            key = name.lower()
            first = next(iter(found), None)
            known = _KEYS if first is None else _KEYS[first]
            if not equals or key not in known or key in found:
                twice = "occurs twice here" if key in found else "is not known here"
                message = f"{quoted(name)} {twice}"
                self.source.report(rules.BAD_LINE, word, message, hint=_EXAMPLE)
                return {}
            found[key] = word.part(len(name) + 1)
        return found

    def block_sizes(self, value: Token) -> None:
        if self.sizes_at is not None:
            self.source.report(rules.BAD_LINE, value, "BlockSizes occurs twice")
        self.sizes_at = value
        self.sizes += self.sizes_in(value)

    def sizes_in(self, value: Token) -> Iterator[int]:
        for part in value.parts(","):
            size = self.source.number(part, "a number of nodes")
            if size == 0:
                self.source.report(rules.BAD_COUNT, part, "a block has no nodes")
            if size is not None:
                yield size


def read_slurm_conf(source: SourceText) -> Hierarchy | None:
    """Return the levels of a topology.conf, None after reporting an error."""
    trees = HostTree(source, "switch"), HostTree(source, "block")
    reader = _ConfReader(source, *trees, Names(source))
    for words in _lines(source):
        reader.line(words)
        if reader.names.is_used_up:
            return None
    if reader.switches.groups and reader.blocks.groups:
        place = next(iter(reader.blocks.groups.values()))
        source.report(
            rules.BAD_LINE,
            place,
            "a topology.conf has either switches or blocks, and here are both",
        )
    if reader.blocks.groups:
        return block_hierarchy(reader.blocks, reader.all_sizes, reader.sizes_at)
    return reader.switches.hierarchy()


def _lines(source: SourceText) -> Iterator[list[Token]]:
    """Yield the words of every line that is not empty."""
    words: list[Token] = []
    for line in source.lines():
        text = line.text.partition("#")[0].rstrip(" \t\r")
        goes_on = text.endswith("\\")
        words += words_of(line.part(0, len(text) - goes_on))
        if words and not goes_on:
            yield words
            words = []
    if words:
        yield words
