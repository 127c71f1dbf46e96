"""The help of a command: as wide as the terminal, with the options in groups.

An option of one name means the same in every command, so its group is known by name.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand, TyperGroup

from ranktable.cli.output import style_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ranktable.report.terminal import Style

COMPLETION_OPTIONS: Final = ("--install-completion", "--show-completion")

_INPUT: Final = "What goes in"
_OUTPUT: Final = "What comes out"
_LAYOUT: Final = "Layout of the model"
_RARE: Final = "Rarely needed"

_PANELS: Final = {
    _OUTPUT: (
        *("--output", "--in-place", "--force", "--format", "--quiet", "--verbose"),
        *("--fix", "--diff", "--strict", "--select", "--ignore", "--max-errors"),
        *("--to", "--explain"),
        "--version",
    ),
    _LAYOUT: (
        *("--tp", "--cp", "--pp", "--dp", "--ep", "--etp", "--dp-replicate"),
        *("--order", "--ep-style", "--preset", "--keep"),
    ),
    _RARE: (
        *("--max-size", "--color", "--root", "--run-programs", "--help"),
        *COMPLETION_OPTIONS,
    ),
}
_PANEL_OF: Final = {name: panel for panel, names in _PANELS.items() for name in names}
_EXAMPLE: Final = "Example:"
_COLUMN: Final = 24
"""Most columns of an option before its description; a longer one has its own line."""


class GroupedCommand(TyperCommand):
    """A command whose help has its options in groups."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the name: ``[OPTIONS] FILE [NODES]...``."""
        pieces = ["[OPTIONS]"]
        for each in self.get_params(ctx):
            if each.param_type_name == "argument":
                name = str(each.metavar or each.name).strip("[]")
                shown = name if each.required else f"[{name}]"
                pieces.append(shown + "..." * (each.nargs == -1))
        return pieces

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the usage, the text, the options and the example."""
        style = _style(ctx)
        self.format_usage(ctx, formatter)
        example = _write_text(self.help, formatter)
        _write_panels(self.get_params(ctx), ctx, formatter, style)
        _write_example(example, formatter, style)


class GroupedCommands(TyperGroup):
    """The list of commands, in groups."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the usage, the groups of commands, and the options."""
        style = _style(ctx)
        self.format_usage(ctx, formatter)
        example = _write_text(self.help, formatter)
        found: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            rows = found.setdefault(command.rich_help_panel or "Commands", [])
            rows.append((name, " ".join((command.help or "").split("\n\n")[0].split())))
        for panel, rows in found.items():
            _write_rows(panel, rows, formatter, style)
        _write_panels(self.get_params(ctx), ctx, formatter, style)
        _write_example(example, formatter, style)


def _style(ctx: Any) -> Style:
    """Return the style of the output, which click does not change then."""
    style = style_of()
    ctx.color = style.is_coloured
    return style


def _write_text(text: str | None, formatter: Any) -> list[str]:
    """Write the paragraphs of a text, and return the lines of its example."""
    example: list[str] = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith(_EXAMPLE):
            example += paragraph.removeprefix(_EXAMPLE).strip().splitlines()
            continue
        formatter.write_paragraph()
        formatter.write_text(paragraph)
    return example


def _write_example(lines: list[str], formatter: Any, style: Style) -> None:
    """Write the commands of an example as they are, so that they can be copied."""
    if lines:
        with formatter.section(style.mark(_EXAMPLE[:-1], "bold")):
            formatter.write("".join(f"  {line.strip()}\n" for line in lines))


def _write_rows(
    panel: str, rows: list[tuple[str, str]], formatter: Any, style: Style
) -> None:
    with formatter.section(style.mark(panel, "bold")):
        marked = [(style.mark(name, "place"), does) for name, does in rows]
        formatter.write_dl(marked, col_max=_COLUMN)


def _write_panels(
    params: Iterable[Any], ctx: Any, formatter: Any, style: Style
) -> None:
    """Write the arguments and the options, the groups in their order."""
    found: dict[str, list[tuple[str, str]]] = {
        panel: [] for panel in (_INPUT, _LAYOUT, _OUTPUT, _RARE)
    }
    for each in params:
        row = each.get_help_record(ctx)
        if row is None:  # a hidden option
            continue
        if each.param_type_name == "argument":
            row = (each.metavar or each.name, each.help or "")
        panels = (_PANEL_OF[name] for name in each.opts if name in _PANEL_OF)
        found[next(panels, _INPUT)].append(row)
    if len(found[_LAYOUT]) == 1:  # the order of nodes, or the size of a ring
        found[_INPUT] += found.pop(_LAYOUT)
    for panel, rows in found.items():
        if rows:
            _write_rows(panel, rows, formatter, style)
