"""How a document of a format becomes columns, and what is wrong with its shape."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ranktable.schema.columns import Columns
from ranktable.schema.document import Path, SourceSpan
from ranktable.schema.finding import Edit, Finding
from ranktable.schema.formats.format import (
    FREE,
    PLACEMENT_KEY,
    SPARES_KEY,
    SUPER_POD_KEY,
)
from ranktable.schema.messages import quoted
from ranktable.schema.numbers import odd_number, plain_number
from ranktable.schema.quota import Quota
from ranktable.schema.rules import shape as rules
from ranktable.schema.syntax import MAX_DEPTH, BadNumber, is_too_deep, too_deep

if TYPE_CHECKING:
    from ranktable.schema.formats.format import Format


class DocumentReader:
    """Reads one document into columns; every defect of its shape is a finding."""

    def __init__(
        self,
        format_: Format,
        document: dict[str, object],
        quota: Quota | None = None,
    ) -> None:
        """Prepare to read; ``read`` does it."""
        self.format = format_
        self.columns = Columns(format_, document, quota=quota or Quota())
        self.found: list[Finding] = []
        self._noted: set[tuple[str, ...]] = set()
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def read(self) -> tuple[Columns, list[Finding]]:
        """Return the columns and the defects of shape, in document order."""
        self._top()
        nodes = self._list((self.format.nodes_key,), self.columns.document, "nodes")
        for node, members in enumerate(nodes):
            self._node(node, members)
        return self.columns, self.found

    def _top(self) -> None:
        document, format_ = self.columns.document, self.format
        for key in format_.required_top_keys:
            if key not in document:
                self.found.append(
                    _missing(SourceSpan(()), key, "the table", _version(key))
                )
        for key, type_ in format_.top_keys.items():
            if key in document and type(document[key]) is not type_:
                self._wrong_type((key,), document[key], type_)
        version = document.get("version")
        if isinstance(version, str) and version not in format_.versions:
            self.found.append(
                rules.UNKNOWN_VERSION.finding(
                    SourceSpan(("version",)),
                    f"version is {quoted(version)}; only "
                    f"{', '.join(map(quoted, format_.versions))} exists",
                )
            )
        placement = document.get(PLACEMENT_KEY)
        if isinstance(placement, str) and placement != FREE:
            self.found.append(
                rules.WRONG_TYPE.finding(
                    SourceSpan((PLACEMENT_KEY,)),
                    f"{PLACEMENT_KEY} is {quoted(placement)}, not {quoted(FREE)}",
                )
            )
        known = (*format_.top_keys, format_.nodes_key)
        self._unknown((), tuple(document), known, document)

    def _wrong_type(self, path: Path, value: object, type_: type) -> None:
        if isinstance(value, BadNumber):
            return  # reported while parsing
        wanted = {str: "a string", int: "an integer"}[type_]
        edit = None
        if type_ is int and plain_number(value) is not None:
            edit = Edit("replace", str(plain_number(value)))
        elif path == ("version",) and type(value) in (int, float) and value == 1:
            edit = Edit("replace", '"1.0"')
        self.found.append(
            rules.WRONG_TYPE.finding(
                SourceSpan(path),
                f"{path[-1]} is {quoted(value)}, not {wanted}",
                hint=f"write {edit.text}" if edit else None,
                edit=edit,
            )
        )

    def _list(self, path: Path, holder: dict[str, object], what: str) -> list[object]:
        key = path[-1]
        if key not in holder:
            owner = f"node {path[1]}" if len(path) > 1 else "the table"
            self.found.append(_missing(SourceSpan(path[:-1]), str(key), owner))
            return []
        value = holder[str(key)]
        if not isinstance(value, list):
            if not isinstance(value, BadNumber):
                self.found.append(
                    rules.WRONG_TYPE.finding(
                        SourceSpan(path), f"{key} is {quoted(value)}, not a list"
                    )
                )
            return []
        if not value:
            self.found.append(
                rules.EMPTY_LIST.finding(
                    SourceSpan(path), f"{key} is empty", hint=f"list the {what}"
                )
            )
        return value

    def _node(self, node: int, members: object) -> None:
        columns, format_ = self.columns, self.format
        path = (format_.nodes_key, node)
        devices: list[object] = []
        host: str | None = None
        if isinstance(members, dict):
            host = self._host(path, members)
            known = (format_.devices_key, format_.host_key, *format_.node_keys)
            self._unknown(path, tuple(members), known, members)
            devices = self._list((*path, format_.devices_key), members, "devices")
        elif not isinstance(members, BadNumber):
            self.found.append(
                rules.WRONG_TYPE.finding(
                    SourceSpan(path), f"node {node} is {quoted(members)}, not an object"
                )
            )
        columns.hosts.append(host)
        self._devices((*path, format_.devices_key), devices)
        columns.starts.append(len(columns.ranks))

    def _host(self, path: Path, members: dict[str, object]) -> str | None:
        key = self.format.host_key
        if key not in members:
            if self.format.host_required:
                self.found.append(_missing(SourceSpan(path), key, f"node {path[1]}"))
            return None
        host = members[key]
        if isinstance(host, str) and host.strip():
            return host
        if not isinstance(host, BadNumber):
            self.found.append(
                rules.WRONG_TYPE.finding(
                    SourceSpan((*path, key)),
                    f"{key} is {quoted(host)}, not a host name",
                )
            )
        return None

    def _devices(self, path: Path, devices: list[object]) -> None:
        columns, plans = self.columns, self._plans
        add_rank, add_chip = columns.ranks.append, columns.device_ids.append
        add_local, add_address = columns.local_ranks.append, columns.addresses.append
        for place, device in enumerate(devices):
            if type(device) is not dict:
                self._no_device((*path, place), device)
                continue
            keys = tuple(device)
            plan = plans.get(keys)
            if plan is None:
                plan = plans[keys] = _Plan(self.format, keys)
                self._note_reader_keys((*path, place), plan)
            chip = local = None
            if plan.has_chip:
                chip = plain_number(device["device_id"])
            rank = self._rank(plan, device)
            if plan.has_local_rank:
                local = plain_number(device["local_rank"])
            if (
                plan.is_odd
                or chip is None
                or rank is None
                or (local is None and plan.has_local_rank)
            ):
                chip, rank, local = self._odd_device((*path, place), device, plan)
            add_chip(chip)
            add_rank(rank)
            add_local(local)
            add_address(self._address((*path, place), device, plan))

    def _note_reader_keys(self, path: Path, plan: _Plan) -> None:
        """Note, once in a table for each key, that a reader would miss it."""
        wanted = self.format.reader_keys
        lacking = tuple(key for key in wanted if key not in plan.keys)
        if lacking and plan.rank_keys and lacking not in self._noted:
            self._noted.add(lacking)
            self.found.append(
                rules.ONE_READER_ONLY.finding(
                    SourceSpan(path),
                    f"device {path[-1]} of node {path[1]} has {plan.rank_keys[0]} but "
                    f"no {' and no '.join(lacking)}, which a reader of the vendor "
                    "needs",
                    hint="ranktable gen writes both",
                )
            )

    def _rank(self, plan: _Plan, device: dict[str, object]) -> int | None:
        """Return the rank when every key that gives it agrees."""
        if not plan.rank_keys:
            return None
        rank = plain_number(device[plan.rank_keys[0]])
        for key in plan.rank_keys[1:]:
            if plain_number(device[key]) != rank:
                return None
        return rank

    def _address(
        self, path: Path, device: dict[str, object], plan: _Plan
    ) -> str | None:
        address = None
        for key in plan.address_keys:
            value = device[key]
            if type(value) is not str:
                if not isinstance(value, BadNumber):
                    self.found.append(
                        rules.WRONG_TYPE.finding(
                            SourceSpan((*path, key)),
                            f"{key} is {quoted(value)}, not text",
                        )
                    )
            elif value or not self.format.blank_address:
                if address is not None:  # the emulator's, which comes last, wins
                    spot = SourceSpan((*path, plan.address_keys[0]))
                    self.columns.more_addresses.append((spot, address))
                address = value
        return address

    def _no_device(self, path: Path, device: object) -> None:
        if not (
            isinstance(device, BadNumber)
            or self.columns.quota.is_spent(rules.WRONG_TYPE)
        ):
            self.found.append(
                rules.WRONG_TYPE.finding(
                    SourceSpan(path),
                    f"device {path[-1]} of node {path[1]} is {quoted(device)}, "
                    "not an object",
                )
            )
        columns = self.columns
        columns.ranks.append(None)
        columns.device_ids.append(None)
        columns.local_ranks.append(None)
        columns.addresses.append(None)

    def _odd_device(
        self, path: Path, device: dict[str, object], plan: _Plan
    ) -> tuple[int | None, int | None, int | None]:
        """Report everything unusual about one device; return chip, rank, local."""
        owner = f"device {path[-1]} of node {path[1]}"
        self._unknown(path, plan.keys, self.format.device_keys, device)
        chip = local = None
        if plan.has_chip:
            chip = self._number((*path, "device_id"), device)
        else:
            self._lacks(path, "device_id", owner)
        ranks = [self._number((*path, key), device) for key in plan.rank_keys]
        if not ranks:
            self._lacks(path, "rank", owner)
        elif len(set(ranks) - {None}) > 1:
            self.columns.conflicts.append(len(self.columns.ranks))
        if plan.has_local_rank:
            local = self._number((*path, "local_rank"), device)
        rank = next((rank for rank in ranks if rank is not None), None)
        return chip, rank, local

    def _lacks(self, path: Path, key: str, owner: str) -> None:
        if not self.columns.quota.is_spent(rules.MISSING_KEY):
            self.found.append(_missing(SourceSpan(path), key, owner))

    def _number(self, path: Path, device: dict[str, object]) -> int | None:
        value = device[str(path[-1])]
        number = plain_number(value)
        if number is not None or isinstance(value, BadNumber):
            return number
        odd = odd_number(value)
        rule = rules.ODD_NUMBER if odd.is_number else rules.WRONG_TYPE
        if self.columns.quota.is_spent(rule):
            return odd.reading
        edit = None
        if odd.reading is not None:
            text = str(odd.reading)
            edit = Edit("replace", f'"{text}"' if isinstance(value, str) else text)
        self.found.append(
            rule.finding(
                SourceSpan(path),
                f"{path[-1]} is {odd.reason}",
                hint=f"write {edit.text}" if edit else None,
                edit=edit,
            )
        )
        return odd.reading

    def _unknown(
        self,
        path: Path,
        keys: tuple[str, ...],
        known: tuple[str, ...],
        members: dict[str, object],
    ) -> None:
        for key in keys:
            if key in known:
                continue
            spot = SourceSpan((*path, key), "key")
            value = members[key]
            deep = isinstance(value, (dict, list)) and is_too_deep(
                value, MAX_DEPTH - len(spot.path)
            )
            if deep:
                self.found.append(too_deep(spot))
            is_read = key == {0: SPARES_KEY, 2: SUPER_POD_KEY}.get(len(path))
            if is_read or self.columns.quota.is_spent(rules.UNKNOWN_KEY):
                continue
            near = _nearest(key, known)
            self.found.append(
                rules.UNKNOWN_KEY.finding(
                    spot,
                    f"no reader knows the key {quoted(key)}",
                    hint=f"did you mean {quoted(near)}?" if near else None,
                )
            )


class _Plan:
    """What the keys of a device say before its values are looked at."""

    __slots__ = (
        "address_keys",
        "has_chip",
        "has_local_rank",
        "is_odd",
        "keys",
        "rank_keys",
    )

    def __init__(self, format_: Format, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.rank_keys = tuple(key for key in format_.rank_keys if key in keys)
        self.address_keys = tuple(key for key in format_.address_keys if key in keys)
        self.has_chip = "device_id" in keys
        self.has_local_rank = "local_rank" in keys
        self.is_odd = not set(keys) <= set(format_.device_keys)


def _missing(
    spot: SourceSpan, key: str, owner: str, edit: Edit | None = None
) -> Finding:
    return rules.MISSING_KEY.finding(
        spot,
        f"{owner} has no {key}",
        hint=f"add {edit.text.rstrip(',')}" if edit else None,
        edit=edit,
    )


def _version(key: str) -> Edit | None:
    """Return the edit that adds the version: only one exists."""
    return Edit("insert", '"version":"1.0",') if key == "version" else None


@lru_cache(maxsize=256)  # a misspelt key is misspelt in every device
def _nearest(key: str, known: tuple[str, ...]) -> str | None:
    import difflib  # noqa: PLC0415 - only a misspelt key needs it

    return next(iter(difflib.get_close_matches(key, known, n=1, cutoff=0.75)), None)
