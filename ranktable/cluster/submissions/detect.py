"""Detect batch scripts and manifests of jobs by their beginning, with few imports."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

SCRIPT_NAMES: Final = (".sbatch", ".slurm")

DIRECTIVE: Final = re.compile(r"(?m)^#(sbatch(?=[ \t])|SBATCH)[ \t]*(-.*)$")
"""A line with options for sbatch; in lower case it is a comment by mistake."""

HEAD: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?(?:\n|\Z))*")
"""The lines above the first command."""

_JOB: Final = re.compile(
    r"""\bkind["']?\s*:\s*["']?(?:PyTorchJob|TrainJob|MPIJob|JobSet|LeaderWorkerSet"""
    r"""|(?:Cluster)?TrainingRuntime|Job|RayCluster|RayJob)\b"""
)
_SET: Final = re.compile(r"""\bkind["']?\s*:\s*["']?StatefulSet\b""")
_SERVICES: Final = re.compile(
    r"(?m)^services[ \t]*:(?:[ \t]*(?:#[^\n]*)?\r?\n)+[ \t]+[\w.\"'-]+[ \t]*:"
)
"""A compose file: services are an object there, and a list elsewhere."""
_AGENT: Final = re.compile(
    r"torchrun|torch\.distributed\.(?:run|launch)|accelerate|\bvllm\b|\bsglang\b"
)


_SHELL: Final = re.compile(r"#![^\n]*\b(?:|ba|da|a|k|mk|z|c|tc|fi)sh\b")


def is_sbatch(text: str) -> bool:
    """Whether a text is a batch script of Slurm."""
    head = HEAD.match(text)
    assert head is not None
    if not text.startswith("#!"):
        return False
    return DIRECTIVE.search(head[0]) is not None or bool(late_directives(text))


def is_of_shell(text: str) -> bool:
    """Whether the first line of a script names a shell, or no program at all."""
    return not text.startswith("#!") or _SHELL.match(text) is not None


def late_directives(text: str) -> list[re.Match[str]]:
    """Return the options of a script below its first command, where sbatch reads none.

    A script that only writes another one has them in quotation marks, or behind <<.
    """
    head = HEAD.match(text)
    assert head is not None
    found = list(DIRECTIVE.finditer(text, head.end()))
    if not found or not is_of_shell(text):
        return []
    # Few files have such lines, and the parser of shells is large.
    from ranktable.cluster.submissions.shell import TooDeepError, commands

    comments: list[int] = []
    with suppress(TooDeepError):
        for _ in commands(text, head.end(), comments):
            pass
    remarks = set(comments)
    return [match for match in found if match.start() in remarks]


def is_manifest(text: str) -> bool:
    """Whether a text is that of a manifest with a job."""
    if "apiVersion" not in text:
        return bool(_SERVICES.search(text) and _AGENT.search(text))
    return bool(_JOB.search(text) or (_SET.search(text) and _AGENT.search(text)))
