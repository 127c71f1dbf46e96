"""RT288 to RT290: what MindIE requires in addition to HCCL; for others, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.columns import repeated
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.rules.hccl_chips import unequal_node, unequal_nodes
from ranktable.schema.text import counted, quoted
from ranktable.schema.values import is_device_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.options import Options

READER = "mindie"
CONTAINER = "container_ip"
MIN_SERVERS, MAX_SERVERS = 2, 60
MAX_RANK = 511


def _is_for_mindie(columns: Columns, options: Options) -> bool:
    is_named = options.reader is not None and options.reader.name == READER
    return is_named or any(columns.optional.get(CONTAINER, ()))


def _without_container(columns: Columns, options: Options) -> Iterable[_Server]:
    """Yield each server without an address of its own, and the server that has it."""
    if not _is_for_mindie(columns, options):
        return
    written: Sequence[object] = columns.optional.get(CONTAINER, ())
    first_of = dict(repeated(map(str, written)))
    for node, address in enumerate(written or [None] * columns.num_nodes):
        is_address = isinstance(address, str) and is_device_address(address)
        if not is_address or node in first_of:
            yield _Server(node, address, first_of[node] if is_address else None)


def _no_container(columns: Columns, place: _Server) -> Finding:
    path = columns.node_path(place.node)
    said = f"node {place.node} has no {CONTAINER}, by which MindIE finds its own server"
    if place.address:
        path = (*path, CONTAINER)
        said = f"{CONTAINER} {quoted(str(place.address))} of node {place.node} is "
        said += "no address" if place.first is None else f"that of node {place.first}"
    return NO_CONTAINER_ADDRESS.finding(
        SourceSpan(path),
        said,
        hint="write the address of the pod that runs on the server",
    )


class _Server(NamedTuple):
    """A server, the address that it has, and the server that has it before."""

    node: int
    address: object
    first: int | None


def _unequal(columns: Columns, options: Options) -> Iterable[int]:
    return unequal_nodes(columns) if _is_for_mindie(columns, options) else ()


def _unequal_server(columns: Columns, node: int) -> Finding:
    needs = "MindIE needs the same number on every server"
    return unequal_node(MINDIE_UNEQUAL, columns, node, needs)


def _out_of_range(columns: Columns, options: Options) -> Iterable[int | None]:
    """Yield devices whose rank is out of range; None if the number of servers is.

    MindIE's limits of 32 devices and of chip 63 are beyond those of HCCL (RT208).
    """
    if not _is_for_mindie(columns, options):
        return
    if not MIN_SERVERS <= columns.num_nodes <= MAX_SERVERS:
        yield None
    for index, rank in enumerate(columns.ranks):
        if rank is not None and rank > MAX_RANK:
            yield index


def _range(columns: Columns, index: int | None) -> Finding:
    if index is not None:
        rank = columns.ranks[index]
        message = f"MindIE takes ranks up to {MAX_RANK}, not {rank}"
        return MINDIE_RANGE.finding(columns.rank_span(index), message)
    count = columns.num_nodes
    verb = "is" if count == 1 else "are"
    return MINDIE_RANGE.finding(
        SourceSpan((columns.format.nodes_key,)),
        f"there {verb} {counted(count, 'server')}; MindIE reads tables of "
        f"{MIN_SERVERS} to {MAX_SERVERS}",
        hint="start MindIE without a table on one server" if count == 1 else None,
    )


NO_CONTAINER_ADDRESS = Rule(
    code="RT288",
    name="no-container-ip",
    severity=Severity.NOTE,
    summary="a server has no container_ip of its own, which MindIE needs",
    fix="Write the address of the pod into every server.",
    find=_without_container,
    tell=_no_container,
)
MINDIE_UNEQUAL = Rule(
    code="RT289",
    name="mindie-unequal-servers",
    severity=Severity.NOTE,
    summary="servers have different numbers of devices, which MindIE refuses",
    fix="Use the same number of devices on every server.",
    find=_unequal,
    tell=_unequal_server,
)
MINDIE_RANGE = Rule(
    code="RT290",
    name="mindie-range",
    severity=Severity.NOTE,
    summary="a number that MindIE does not accept, such as one server or 61",
    fix="Start MindIE without a table on one server; split larger jobs.",
    find=_out_of_range,
    tell=_range,
)

RULES = (NO_CONTAINER_ADDRESS, MINDIE_UNEQUAL, MINDIE_RANGE)
