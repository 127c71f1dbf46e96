"""Start-up: what a process pays before it does anything."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.measure import command, in_turn, script
from benchmarks.results import beside, in_ms, seconds
from benchmarks.tables import write_table
from benchmarks.validating import RIVAL, schema_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.budgets import Result, Scale
    from benchmarks.measure import Bench

_READ = "import sys, ranktable; ranktable.read_rank_table(sys.argv[1])"
_LOOP = (
    "import sys; from benchmarks.calls import vendor_chip_map; "
    "from benchmarks.tables import LAYOUTS; "
    "vendor_chip_map(sys.argv[1], LAYOUTS['manual'], 0)"
)


def measure_starting(bench: Bench, scale: Scale) -> Iterator[Result]:
    """Yield the results of starting."""
    path = bench.folder / "tiny.json"
    write_table(path, scale.tiny)
    named, host = bench.folder / "named.json", bench.folder / "host"
    write_table(named, scale.tiny, layout="hosts")
    for name, text in (("hosts", "10.0.0.1 n000000\n"), ("hostname", "n000000\n")):
        (host / "etc").mkdir(parents=True, exist_ok=True)
        (host / "etc" / name).write_text(text, "ascii")
    rival = [script(RIVAL), "--schemafile", str(schema_file(bench)), str(path)]
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "read": [sys.executable, "-c", _READ, str(path)],
        "loop": [sys.executable, "-c", _LOOP, str(path)],
        "help": command("--help"),
        "rival help": [script(RIVAL), "--help"],
        "validate": command("validate", str(path)),
        "rival validate": rival,
        "check": command("check", str(named), "--root", str(host)),
    }
    jobs = {key: partial(bench.command, words) for key, words in commands.items()}
    in_turn(jobs, 1)  # fills the bytecode cache
    costs = in_turn(jobs, scale.starts)
    bare = costs["bare"]
    over = costs["read"].cpu_s - bare.cpu_s
    loop = costs["loop"].cpu_s - bare.cpu_s
    rivals = f"json.load + loop {seconds(loop)}; bare {seconds(bare.cpu_s)}"
    yield in_ms("start", over, rivals)
    here = costs["check"].cpu_s - bare.cpu_s
    yield in_ms("check here", here, f"bare {seconds(bare.cpu_s)}")
    for key, name in (("help", "help"), ("validate tiny", "validate")):
        yield beside(key, costs[name], costs[f"rival {name}"], RIVAL)
