"""Findings in files of other commands, and the chips that each of them names.

``doctor``, ``check`` and ``validate`` print them with ``--format json``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ranktable.report.findings_data import as_data
from ranktable.schema.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.report.picture import Cluster
    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Diagnostic

MAX_FINDINGS = 500
"""Most findings that a page lists."""

_MAX_EVIDENCE = 6
_WHOLE_TABLE = {"RT204", "RT505"}
"""Codes about a whole table, which point at one of its chips or nodes as an example."""

_RANK = re.compile(r'\branks? "?([0-9]{1,9})')
_SEVERITIES = {each.value for each in Severity}


class FindingsError(ValueError):
    """A file does not hold findings of ranktable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFinding:
    """A finding and its chips.

    Attributes:
        code: Its code.
        severity: error, warning or note.
        message: What is wrong.
        hint: What to do, empty if that is not known.
        place: Where it was found: a file and a line, or a host.
        evidence: Lines of logs.
        cells: Its chips, by their index in the picture.
    """

    code: str
    severity: str
    message: str
    hint: str = ""
    place: str = ""
    evidence: tuple[str, ...] = ()
    cells: tuple[int, ...] = ()


class Pins:
    """Finds the chips that a finding names: by rank, host, or place in the table."""

    def __init__(
        self, cluster: Cluster, columns: Columns | None, gone: Iterable[int] = ()
    ) -> None:
        """Index the chips; the columns are those of the table's file.

        Args:
            cluster: The chips.
            columns: The table as it was read.
            gone: Chips of an earlier table: nothing is found about their ranks.
        """
        # A table with errors may have a rank twice: both chips are meant.
        self._by_rank: defaultdict[int, list[int]] = defaultdict(list)
        for cell in sorted({*range(len(cluster.ranks))}.difference(gone)):
            if cluster.ranks[cell] >= 0:
                self._by_rank[cluster.ranks[cell]].append(cell)
        self._hosts: defaultdict[str, list[int]] = defaultdict(list)
        starts = cluster.starts
        for node, host in enumerate(cluster.hosts):
            self._hosts[host].extend(range(starts[node], starts[node + 1]))
        self._columns = columns
        self._paths: dict[str, tuple[int, ...]] | None = None

    def of_ranks(self, ranks: Iterable[object]) -> tuple[int, ...]:
        """Return the chips of some ranks."""
        known = [self._by_rank.get(r, []) for r in ranks if isinstance(r, int)]
        return tuple(cell for cells in known for cell in cells)

    def of_host(self, host: object) -> tuple[int, ...]:
        """Return the chips of a host."""
        return tuple(self._hosts.get(str(host), ()))

    def of_pointers(self, pointers: Iterable[object]) -> tuple[int, ...]:
        """Return the chips, or all chips of a node, at places in the table's file."""
        found: dict[int, None] = {}
        for pointer in pointers:
            parts = pointer.split("/")[1:] if isinstance(pointer, str) else []
            for length in range(len(parts), 0, -1):
                here = self._places().get("/".join(parts[:length]))
                if here is not None:
                    found.update(dict.fromkeys(here))
                    break
        return tuple(found)

    def _places(self) -> dict[str, tuple[int, ...]]:
        """Return the chips at every place of the file, by its pointer."""
        if self._paths is None:
            self._paths = {}
            if self._columns is not None:
                self._add_places(self._columns, self._paths)
        return self._paths

    def _add_places(self, columns: Columns, paths: dict[str, tuple[int, ...]]) -> None:
        for node, start, end in columns.nodes():
            cells = tuple(self._cell(columns, at) for at in range(start, end))
            paths[_joined(columns.node_path(node))] = cells
            for index, cell in zip(range(start, end), cells, strict=True):
                paths[_joined(columns.device_path(index))] = (cell,)

    def _cell(self, columns: Columns, index: int) -> int:
        """Return the place in the picture of a device of the file."""
        rank = columns.ranks[index]
        cells = [] if rank is None else self._by_rank.get(rank, [])
        return cells[0] if cells and index not in cells else index


def _joined(path: Iterable[object]) -> str:
    return "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)


def of_diagnostics(
    diagnostics: Iterable[Diagnostic], pins: Pins
) -> list[PinnedFinding]:
    """Return the findings of the table itself."""
    return [_finding(as_data(one), pins) for one in diagnostics]


def read_findings(data: bytes, pins: Pins) -> list[PinnedFinding]:
    """Return the findings in a file that ``--format json`` has written.

    Raises:
        FindingsError: It is something else; the message says what.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FindingsError(f"it is not JSON: {error}") from None
    if isinstance(document, dict):
        try:
            if isinstance(document.get("causes"), list):
                return [_cause(one, pins) for one in document["causes"]]
            if isinstance(document.get("findings"), list):
                return [_finding(one, pins) for one in document["findings"]]
            if isinstance(document.get("files"), list):
                found = [each["diagnostics"] for each in document["files"]]
                return [_finding(one, pins) for each in found for one in each]
        except (KeyError, TypeError, AttributeError) as error:
            raise FindingsError(f"a finding in it is malformed: {error!r}") from None
    raise FindingsError(
        "it has no causes, findings or files; write it with doctor, check or validate "
        "and --format json"
    )


def _cause(cause: dict[str, Any], pins: Pins) -> PinnedFinding:
    lines = [
        f"{line['file']}:{line['line']}  {line['text']}"
        for line in (cause.get("evidence") or ())[:_MAX_EVIDENCE]
    ]
    texts = (cause["message"], cause.get("waiting"))
    host = cause.get("host")
    return PinnedFinding(
        code=str(cause["code"]),
        severity=_severity(cause),
        message="; ".join(str(text) for text in texts if text),
        hint=str(cause.get("hint") or ""),
        place=str(host or ""),
        evidence=tuple(lines),
        cells=pins.of_ranks(cause.get("ranks") or ()) or pins.of_host(host),
    )


def _finding(one: dict[str, Any], pins: Pins) -> PinnedFinding:
    where = one.get("location") or {}
    places = [where, *(one.get("related") or ())]
    message = str(one["message"])
    cells: tuple[int, ...] = ()
    if str(one["code"]) not in _WHOLE_TABLE:
        cells = pins.of_pointers([place.get("pointer") for place in places])
        if not cells:  # a finding about a machine names its ranks
            cells = pins.of_ranks(map(int, _RANK.findall(message)))
    steps = (where.get(name) for name in ("file", "line", "column"))
    return PinnedFinding(
        code=str(one["code"]),
        severity=_severity(one),
        message=message,
        hint=str(one.get("hint") or ""),
        place=":".join(str(step) for step in steps if step),
        cells=cells,
    )


def _severity(members: dict[str, Any]) -> str:
    said = members.get("severity")
    return said if said in _SEVERITIES else Severity.ERROR.value
