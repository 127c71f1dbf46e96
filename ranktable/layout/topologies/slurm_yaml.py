"""Slurm's topology.yaml: a list of topologies, each a tree, blocks, or flat.

Source: SchedMD/slurm 25.05, topology.yaml(5). If there are several topologies, the
first with ``cluster_default: true`` is used, otherwise the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.host_lists import expand_hosts
from ranktable.cluster.hostfiles import hostfile_rules as rules
from ranktable.cluster.hostfiles.kubernetes_manifests import Fields, dotted
from ranktable.layout.boundaries import Hierarchy
from ranktable.layout.topologies.blocks import block_hierarchy
from ranktable.layout.topologies.host_tree import HostTree, Names, refuse_both
from ranktable.schema.diagnostic import quoted
from ranktable.schema.yaml_parser import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.cluster.source_text import SourceText
    from ranktable.schema.document import Path

_KINDS = ("tree", "block", "flat")
_HEAD = ("topology", "cluster_default", *_KINDS)


def read_slurm_yaml(source: SourceText) -> Hierarchy | None:
    """Return the levels of a topology.yaml, None after reporting an error."""
    documents, findings = parse_yaml(source.text, source.found.limit)
    source.found.extend(findings)
    if not source.is_sound:
        return None
    if len(documents) != 1 or not isinstance(documents[0].data, list):
        span = documents[-1].span_of() if documents else None
        source.report(
            rules.WRONG_FIELD, span, "a topology.yaml is one list of topologies"
        )
        return None
    fields = Fields(source, documents[0])
    entries = documents[0].data
    kinds = [_kind(fields, at) for at in range(len(entries))]
    source.refuse_nothing(entries)
    if any(kind is None for kind in kinds) or not entries:
        return None
    defaults = [
        at for at in range(len(entries)) if fields.get(at, "cluster_default") is True
    ]
    chosen = defaults[0] if defaults else 0
    if kinds[chosen] == "tree":
        return _tree(fields, (chosen, "tree"))
    if kinds[chosen] == "block":
        return _blocks(fields, (chosen, "block"))
    return Hierarchy(levels=())


def _kind(fields: Fields, at: int) -> str | None:
    """Return the kind of a topology, None after reporting that it is unknown."""
    if not isinstance(fields.get(at), dict):
        fields.report("a topology is a mapping of names to values", at)
        return None
    _refuse_unknown(fields, (at,), _HEAD)
    fields.text(at, "topology")
    default = fields.get(at, "cluster_default")
    if default is not None and not isinstance(default, bool):
        fields.report(f"cluster_default is {quoted(default)}, not true or false", at)
    found = [kind for kind in _KINDS if fields.get(at, kind) is not None]
    if len(found) != 1:
        fields.report("a topology has exactly one of tree, block and flat", at)
        return None
    if found[0] == "flat":
        why = "it is true or absent"
        fields.fixed(True, at, "flat", why=why)
    return found[0]


def _refuse_unknown(fields: Fields, path: Path, known: tuple[str, ...]) -> None:
    members = fields.get(*path)
    for key in members if isinstance(members, dict) else ():
        if key not in known:
            fields.source.report(
                rules.WRONG_FIELD,
                fields.span_of(*path, key, of_key=True),
                f"{quoted(key)} is not known here; there are {', '.join(known)}",
            )


def _items(fields: Fields, path: Path) -> Iterable[Path]:
    """Yield the path of every item of a list; report other values."""
    found = fields.get(*path)
    if not isinstance(found, list) or not found:
        fields.report(f"{dotted(path[1:])} is not a list of mappings", *path)
        return
    for place, item in enumerate(found):
        if isinstance(item, dict):
            yield (*path, place)
        else:
            fields.report("this is not a mapping of names to values", *path, place)


def _tree(fields: Fields, path: Path) -> Hierarchy | None:
    _refuse_unknown(fields, path, ("switches",))
    tree = HostTree(fields.source, "switch")
    left = Names(fields.source)
    for item in _items(fields, (*path, "switches")):
        _refuse_unknown(fields, item, ("switch", "children", "nodes"))
        name = fields.text(*item, "switch")
        given = [k for k in ("children", "nodes") if fields.get(*item, k) is not None]
        refuse_both(fields.source, fields.span_of(*item), "switch", given=len(given))
        if name is not None:
            tree.add_group(name, fields.span_of(*item, "switch"))
            for key in given:
                add = tree.add_hosts if key == "nodes" else tree.add_children
                add(
                    name, _names(fields, (*item, key), left), fields.span_of(*item, key)
                )
    return tree.hierarchy()


def _blocks(fields: Fields, path: Path) -> Hierarchy | None:
    _refuse_unknown(fields, path, ("block_sizes", "blocks"))
    tree = HostTree(fields.source, "block")
    left = Names(fields.source)
    for item in _items(fields, (*path, "blocks")):
        _refuse_unknown(fields, item, ("block", "nodes"))
        name = fields.text(*item, "block")
        hosts = _names(fields, (*item, "nodes"), left)
        if name is not None:
            tree.add_group(name, fields.span_of(*item, "block"))
            tree.add_hosts(name, hosts, fields.span_of(*item, "nodes"))
    place = (*path, "block_sizes")
    sizes = fields.get(*place)
    if sizes is None:
        return block_hierarchy(tree, [], None)
    if not isinstance(sizes, list):
        fields.report("block_sizes is not a list of numbers", *place)
        return None
    found = [fields.integer(*place, at, least=1) for at in range(len(sizes))]
    whole = [size for size in found if size is not None]
    return block_hierarchy(tree, whole, fields.span_of(*place))


def _names(fields: Fields, path: Path, left: Names) -> list[str]:
    """Return the names of a list in Slurm's notation."""
    text = fields.text(*path)
    if left.is_used_up:
        return []
    try:
        return left.take(expand_hosts(text or ""), fields.span_of(*path))
    except ArgumentError as error:
        fields.source.report(
            rules.BAD_HOST, fields.span_of(*path), error.reason, hint=error.hint
        )
        return []
