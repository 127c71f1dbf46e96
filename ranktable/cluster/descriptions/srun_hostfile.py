"""Host files of srun, one host a task: what ``SLURM_HOSTFILE`` names.

With ``srun --distribution=arbitrary`` a task runs on the host of its line, so that this
is the one way to tell Slurm about ranks in an order that is not its own.

Source: SchedMD/slurm, src/api/allocate.c, slurm_read_hostfile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.descriptions.description import MAX_SLOTS
from ranktable.cluster.descriptions.expressing import hosts_of_ranks, names_of
from ranktable.cluster.descriptions.form import Form
from ranktable.cluster.descriptions.placing import Placing
from ranktable.cluster.descriptions.slurm_nodelist import expanded
from ranktable.cluster.descriptions.source import words_of
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.descriptions.description import Description
    from ranktable.cluster.descriptions.form import Settings
    from ranktable.cluster.descriptions.source import Source, Word

TITLE = "an srun host file"
_EXAMPLE = "write one host a line; n1*4 stands for four lines"
_TIMES = re.compile(r"(.*)\*([0-9]{1,9})")
_KNOWN = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[A-Za-z0-9][^\s:=\[]*\*[0-9]+\s")


def read(source: Source) -> Description | None:
    """Return the hosts of a host file, whose lines are the ranks."""
    placing = Placing(source)
    for line in source.lines():
        words = words_of(line.part(0, len(line.text.partition("#")[0])))
        for word in words[1:2]:
            message = (
                f"{quoted(word.text)} follows the host; Slurm takes it into the name"
            )
            source.say(rules.BAD_LINE, word, message, hint=_EXAMPLE)
        for item in words[0].parts(",") if words else ():
            _read_item(source, item, placing)
    return placing.description()


def _read_item(source: Source, item: Word, placing: Placing) -> None:
    match = _TIMES.fullmatch(item.text)
    word = item if match is None else item.part(0, match.end(1))
    repeated = 1 if match is None else int(match[2])
    if repeated == 0:
        source.say(rules.BAD_COUNT, item, "a host is repeated 0 times", hint=_EXAMPLE)
    hosts = _hosts(source, word)
    if len(placing.ranks) + len(hosts) * repeated > MAX_SLOTS:
        source.too_many(item, "processes")
        return
    for name in hosts * repeated:
        place = word._replace(text=name)
        placing.add(name, place, len(placing.ranks), place)


def _hosts(source: Source, word: Word) -> list[str]:
    if "[" in word.text:
        return expanded(source, word)
    name = source.host(word)
    return [] if name is None else [name]


def write(description: Description, _settings: Settings) -> str:
    """Return the host of every rank, one a line."""
    names = names_of(description, TITLE)
    return "".join(f"{names[node]}\n" for node in hosts_of_ranks(description))


SRUN_HOSTFILE = Form(
    name="srun-hostfile",
    title=TITLE,
    read=read,
    write=write,
    is_known_by=lambda text: _KNOWN.match(text) is not None,
)
