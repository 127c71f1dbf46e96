"""Host files of srun, one host a task: what ``SLURM_HOSTFILE`` names.

With ``srun --distribution=arbitrary`` a task runs on the host of its line, so that this
is the one way to tell Slurm about ranks in an order that is not its own.

Source: SchedMD/slurm, src/api/allocate.c, slurm_read_hostfile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.host_table import RankAssignment
from ranktable.cluster.hostfiles.hostfile import LauncherFormat, hosts_of_ranks
from ranktable.cluster.hostfiles.slurm_nodelist import expand_token
from ranktable.cluster.hostfiles.writer_checks import names_of
from ranktable.cluster.source_text import MAX_SLOTS, words_of
from ranktable.schema.messages import quoted

if TYPE_CHECKING:
    from ranktable.cluster.hostfiles.hostfile import Hostfile, WriterOptions
    from ranktable.cluster.source_text import SourceText, Token

TITLE = "an srun host file"
_EXAMPLE = "write one host a line; n1*4 stands for four lines"
_TIMES = re.compile(r"(.*)\*([0-9]{1,9})")
_KNOWN = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[A-Za-z0-9][^\s:=\[]*\*[0-9]+\s")


def read(source: SourceText) -> Hostfile | None:
    """Return the hosts of a host file, whose lines are the ranks."""
    assignment = RankAssignment(source)
    for line in source.lines():
        words = words_of(line.part(0, len(line.text.partition("#")[0])))
        for word in words[1:2]:
            message = (
                f"{quoted(word.text)} follows the host; Slurm takes it into the name"
            )
            source.report(rules.BAD_LINE, word, message, hint=_EXAMPLE)
        for item in words[0].parts(",") if words else ():
            _read_item(source, item, assignment)
    return assignment.hostfile()


def _read_item(source: SourceText, item: Token, assignment: RankAssignment) -> None:
    match = _TIMES.fullmatch(item.text)
    word = item if match is None else item.part(0, match.end(1))
    repeated = 1 if match is None else int(match[2])
    if repeated == 0:
        source.report(
            rules.BAD_COUNT, item, "a host is repeated 0 times", hint=_EXAMPLE
        )
    hosts = _hosts(source, word)
    if len(assignment.ranks) + len(hosts) * repeated > MAX_SLOTS:
        source.too_many(item, "processes")
        return
    for name in hosts * repeated:
        place = word._replace(text=name)
        assignment.add(name, place, len(assignment.ranks), place)


def _hosts(source: SourceText, word: Token) -> list[str]:
    if "[" in word.text:
        return expand_token(source, word)
    name = source.host(word)
    return [] if name is None else [name]


def write(hostfile: Hostfile, _options: WriterOptions) -> str:
    """Return the host of every rank, one a line."""
    names = names_of(hostfile, TITLE)
    return "".join(f"{names[node]}\n" for node in hosts_of_ranks(hostfile))


SRUN_HOSTFILE = LauncherFormat(
    name="srun-hostfile",
    title=TITLE,
    read=read,
    write=write,
    matches=_KNOWN.match,
)
