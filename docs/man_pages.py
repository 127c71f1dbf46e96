"""Writes a man page for each command, from the help that ``--help`` shows."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer.main

# Where a package is built, this one is not installed yet.
sys.path.insert(0, str(Path(__file__).parent.parent))

from ranktable import __version__
from ranktable.cli.app import COMMANDS, make_app

if TYPE_CHECKING:
    from collections.abc import Iterator

SUMMARY = "make, check and use rank tables"

EXAMPLE = "Example:"

BESIDE = {
    "gen": ("validate", "fit", "run"),
    "validate": ("explain", "show", "check"),
    "show": ("diff", "report"),
    "convert": ("show", "validate"),
    "mesh": ("plan", "report"),
    "plan": ("mesh", "diff", "report"),
    "diff": ("show", "report"),
    "fit": ("diff", "split", "run"),
    "check": ("env", "doctor", "probe"),
    "doctor": ("check", "explain"),
    "report": ("show", "diff", "plan"),
    "explain": ("validate", "check", "doctor"),
    "schema": ("validate",),
    "env": ("check", "run"),
    "init": ("validate", "gen"),
    "run": ("env", "check", "simulate"),
    "simulate": ("run",),
    "probe": ("merge", "check"),
    "merge": ("probe", "split"),
    "split": ("merge", "fit"),
    "wait": ("validate", "run"),
}
"""The commands that a reader of a page may look for."""


def man_pages() -> Iterator[tuple[str, str]]:
    """Yield the name of the file and the text of every man page."""
    for name in COMMANDS:
        yield f"ranktable-{name}.1", "\n".join(_command_page(name)) + "\n"
    yield "ranktable.1", "\n".join(_overview()) + "\n"


def _command_page(name: str) -> Iterator[str]:
    group = typer.main.get_command(make_app((name,)))
    command = group.commands[name]  # type: ignore[attr-defined]
    context = command.make_context(f"ranktable {name}", [], resilient_parsing=True)
    usage = command.collect_usage_pieces(context)
    yield from _head(f"ranktable-{name}", COMMANDS[name], f"ranktable {name}", usage)
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    examples = [each for each in paragraphs if each.startswith(EXAMPLE)]
    for paragraph in paragraphs[1:]:
        if paragraph in examples:
            continue
        yield ".PP"
        yield _roff(" ".join(paragraph.split()))
    yield ".SH OPTIONS"
    for param in command.get_params(context):
        if param.param_type_name == "argument":
            record = (param.metavar or param.name, getattr(param, "help", None) or "")
        else:
            record = param.get_help_record(context) or ("", "")
        yield from (".TP", rf"\fB{_roff(record[0])}\fR", _roff(record[1]))
    yield ".SH EXAMPLES"
    for example in examples:
        yield from (".nf", _roff(example.removeprefix(EXAMPLE).strip()), ".fi")
    beside = ("ranktable", *(f"ranktable-{one}" for one in BESIDE[name]))
    yield ".SH SEE ALSO"
    yield ", ".join(rf"\fB{_roff(one)}\fR(1)" for one in beside)


def _overview() -> Iterator[str]:
    yield from _head("ranktable", SUMMARY, "ranktable", ["COMMAND", "[ARGS]..."])
    yield ".SH COMMANDS"
    for name, does in COMMANDS.items():
        yield from (".TP", rf"\fBranktable\-{_roff(name)}\fR(1)", _roff(does))


def _head(name: str, does: str, command: str, usage: list[str]) -> Iterator[str]:
    does = does.rstrip(".")
    yield f'.TH {name.upper()} 1 "" "ranktable {__version__}" "User Commands"'
    yield from (".SH NAME", f"{_roff(name)} \\- {_roff(does)}")
    yield from (".SH SYNOPSIS", rf"\fB{_roff(command)}\fR {_roff(' '.join(usage))}")
    yield from (".SH DESCRIPTION", f"{_roff(does)}.")


def _roff(text: str) -> str:
    """Return a text as roff has it: nothing of it is a request."""
    plain = text.replace("\\[", "[")  # which typer escapes for rich
    escaped = plain.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def write_man_pages(folder: Path) -> list[Path]:
    """Write all man pages into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in man_pages():
        paths.append(folder / name)
        paths[-1].write_text(text, "utf-8")
    return paths


if __name__ == "__main__":
    write_man_pages(Path(sys.argv[1]))
