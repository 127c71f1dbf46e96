"""The number of files of ranktable that a run passes, which a developer has to read."""

from __future__ import annotations

from pathlib import Path

import pytest

import ranktable
from tests.commands import run_python

HOME = Path(ranktable.__file__).parent

COUNT = """
import runpy, sys

home, args = sys.argv[1], sys.argv[2:]
passed, importing = {}, 0

def profile(frame, event, _):
    global importing
    code = frame.f_code
    if not code.co_filename.startswith(home):
        return
    if code.co_name == "<module>":
        importing += {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not importing and not code.co_name.startswith("<"):
        passed[code.co_filename] = True

sys.argv = args[-1:] if args[0] == "-c" else args
sys.setprofile(profile)
try:
    if args[0] == "-c":
        exec(args[1])
    elif args[0] == "ranktable":
        from ranktable.cli import main
        main()
    else:
        from ranktable.cli.vendor_generator import main
        main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    sys.setprofile(None)
    print(*passed, sep="\\n", file=sys.stderr)
"""
"""Run a program, and list on standard error the files whose functions it has called.

Functions that are called while a module is imported do not count.
"""

CHIPS = "[[0,2,6,7,3,1,5,4]]"
BOX = ["--device-id", "[[0..7]]", "--ring", "sophgo-8"]
BOXES = ["--device-id", "[[0..3],[0..3]]", "--hosts", "n[1-2]"]

MODEL = ["--tp", "4", "--model", "32x4096", "--seq", "4096", "--micro", "16"]

JOURNEYS = [
    ("validate", ["ranktable", "validate", "t.json"], 13),
    ("gen", ["ranktable", "gen", "--device-id", CHIPS, "-o", "new.json"], 12),
    ("gen of a ring", ["ranktable", "gen", *BOX, "-o", "new.json"], 17),
    ("gen of hosts", ["ranktable", "gen", *BOXES, "-o", "new.json"], 13),
    ("vendor's generator", ["tpu_gen_sccl_rank_table", "--device_id", CHIPS], 12),
    ("convert", ["ranktable", "convert", "hostfile", "--to", "openmpi-rankfile"], 13),
    ("plan", ["ranktable", "plan", "layout.json"], 22),
    ("plan of a model", ["ranktable", "plan", "hosts.json", *MODEL], 22),
    ("env", ["ranktable", "env"], 6),
    ("read", ["-c", "import ranktable; ranktable.read_rank_table('hosts.json')"], 6),
]


@pytest.mark.parametrize(
    ("arguments", "most"),
    [pytest.param(arguments, most, id=name) for name, arguments, most in JOURNEYS],
)
def test_a_run_passes_few_files(
    arguments: list[str], most: int, tmp_path: Path
) -> None:
    nodes = [
        ranktable.Node(
            host=f"n{node}",
            devices=tuple(
                ranktable.Device(rank=4 * node + at, device_id=chip)
                for at, chip in enumerate((0, 2, 3, 1))
            ),
        )
        for node in range(2)
    ]
    ranktable.dump(ranktable.RankTable(nodes=nodes), tmp_path / "hosts.json")
    table = ranktable.load(tmp_path / "hosts.json")
    remembers = table.with_changes(extra={"layout": "tp=4 dp=2"})
    ranktable.dump(remembers, tmp_path / "layout.json")
    one = (0, 2, 6, 7, 3, 1, 5, 4)
    devices = tuple(
        ranktable.Device(rank=rank, device_id=chip) for rank, chip in enumerate(one)
    )
    whole = ranktable.RankTable(nodes=[ranktable.Node(devices=devices)])
    ranktable.dump(whole, tmp_path / "t.json")
    (tmp_path / "hostfile").write_text("node1 slots=8\n")

    done = run_python("-c", COUNT, str(HOME), *arguments, cwd=tmp_path)

    assert done.status == 0, done.err
    passed = [line for line in done.err.splitlines() if line.startswith(str(HOME))]
    assert 0 < len(passed) <= most, passed
