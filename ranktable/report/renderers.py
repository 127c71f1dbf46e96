"""Every form that ``ranktable validate --format`` knows, the first for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.report.concise import render_concise
from ranktable.report.full import render_full
from ranktable.report.github import render_github
from ranktable.report.json_form import render_json, render_jsonl
from ranktable.report.sarif import render_sarif

if TYPE_CHECKING:
    from ranktable.report.renderer import Renderer

RENDERERS: tuple[tuple[str, Renderer], ...] = (
    ("full", render_full),
    ("concise", render_concise),
    ("json", render_json),
    ("jsonl", render_jsonl),
    ("sarif", render_sarif),
    ("github", render_github),
)
