"""From nodes of several sources to one sound table, or to what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ranktable.cluster.merging.order import in_order, in_order_of_hosts
from ranktable.cluster.merging.ranks import check_ranks, numbered
from ranktable.cluster.merging.wishes import Order
from ranktable.cluster.sources import Place, Remarks, reports_of
from ranktable.schema.document_writer import to_document
from ranktable.schema.model import RankTable
from ranktable.schema.options import Options
from ranktable.schema.quota import Quota
from ranktable.schema.writing import encode, judge_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.cluster.merging.member import Member
    from ranktable.cluster.merging.wishes import Wishes
    from ranktable.cluster.sources import Source
    from ranktable.schema.check_report import Report
    from ranktable.schema.document import SourceSpan
    from ranktable.schema.finding import Finding
    from ranktable.schema.format import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What came of it.

    Attributes:
        table: The table, None when there are errors.
        data: The bytes of its file, None when there are errors.
        reports: Every file that something is said of, in the order of the files.
    """

    table: RankTable | None = None
    data: bytes | None = field(default=None, repr=False)
    reports: tuple[Report, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Nodes that go together, before they are put in order.

    Attributes:
        sources: The files.
        members: The nodes, in the order of the files.
        format: Format of the table.
        top: The table without its nodes.
    """

    sources: Sequence[Source]
    members: Sequence[Member]
    format: Format
    top: RankTable


def finish(draft: Draft, wishes: Wishes, remarks: Remarks) -> Merged:
    """Return the table of a draft, or why there is none.

    Raises:
        ArgumentError: The nodes cannot be put in the order that is wished for.
    """
    members = list(draft.members)
    if not remarks.has_errors and wishes.hosts is not None:
        members = in_order_of_hosts(members, wishes.hosts, remarks)
    elif not remarks.has_errors:
        members = in_order(members, wishes.order or Order.GIVEN)
    if wishes.renumber:
        members = numbered(members)
    elif not remarks.has_errors:
        check_ranks(members, draft.format, remarks)
    if remarks.has_errors:
        return Merged(reports=reports_of(draft.sources, remarks))
    return _judged(replace(draft, members=members), wishes, remarks)


def _judged(draft: Draft, wishes: Wishes, remarks: Remarks) -> Merged:
    """Return the table, if the rules for a table find no error in it either."""
    nodes = tuple(member.node for member in draft.members)
    top = draft.top
    table = RankTable(
        nodes=nodes,
        version=top.version,
        format=top.format,
        extra=top.extra,
        layout=top.layout,
    )
    document = to_document(table, draft.format)
    quota = Quota(wishes.limit)
    options = Options(topology=wishes.topology)
    for finding in judge_document(draft.format, document, options, quota):
        _take(finding, draft, remarks)
    remarks.take_omitted(quota)
    reports = reports_of(draft.sources, remarks)
    if remarks.has_errors:
        return Merged(reports=reports)
    return Merged(table=table, data=encode(document), reports=reports)


def _take(finding: Finding, draft: Draft, remarks: Remarks) -> None:
    """Keep a finding about the merged table where its node was read."""
    place = Place(0) if finding.span is None else _home(finding.span, draft)
    related = tuple(_home(spot, draft) for spot in finding.related)
    remarks.take(replace(finding, span=place.spot, related=()), place, related)


def _home(spot: SourceSpan, draft: Draft) -> Place:
    """Return the place of a spot of the merged document in the file it came from."""
    key, *steps = spot.path or ("",)
    if key != draft.format.nodes_key or not steps:
        return Place(0)
    member = draft.members[int(steps[0])]
    place = member.at(*steps[1:], label=spot.label)
    if place.spot is not None and place.spot.offsets is None:
        return replace(place, spot=replace(place.spot, part=spot.part))
    return place
