"""One name for one thing: modules and classes that share a name, and why they may."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import ranktable

HOME = Path(ranktable.__file__).parent

OF_VENDORS = {
    # Launchers: what each sets in the environment, and the files that it reads.
    "paddle": ("cluster/hostfiles", "runtime/launchers", "schema/formats"),
    "slurm": ("cluster/hostfiles", "runtime/launchers"),
    "torchrun": ("cluster/hostfiles", "runtime/launchers"),
    "kubernetes": ("runtime/launchers", "schema/formats"),
    # Vendors: their chips on a host, and what their job schedulers set.
    "ascend": ("cluster/discovery", "runtime/launchers"),
    "sophgo": ("cluster/discovery", "runtime/launchers"),
    # Communication libraries: what each can do, its tables, and who reads them.
    "hccl": ("runtime/backends", "schema/rules"),
    "sccl": ("runtime/backends", "schema/formats", "schema/readers"),
    # Formats, and the rules of each.
    "hccl_2_0": ("schema/formats", "schema/rules"),
    "hccl_groups": ("schema/formats", "schema/rules"),
}
"""Modules that are named after a launcher, a vendor or a format that they all serve."""


def test_modules_share_a_name_only_for_one_vendor_or_format() -> None:
    folders = defaultdict(list)
    for path in HOME.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            folder = path.parent.relative_to(HOME)
            folders[path.stem].append(folder.as_posix())

    shared = {name: tuple(sorted(at)) for name, at in folders.items() if len(at) > 1}
    assert shared == OF_VENDORS


def test_no_two_classes_share_a_name() -> None:
    homes = defaultdict(list)
    for path in HOME.rglob("*.py"):
        for item in ast.parse(path.read_text()).body:
            if isinstance(item, ast.ClassDef):
                homes[item.name.strip("_")].append(path.relative_to(HOME).as_posix())

    assert {name: at for name, at in homes.items() if len(at) > 1} == {}
