"""Detect batch scripts and manifests of jobs by their beginning, with few imports."""

from __future__ import annotations

import re
from typing import Final

SCRIPT_NAMES: Final = (".sbatch", ".slurm")

DIRECTIVE: Final = re.compile(r"(?m)^#(sbatch|SBATCH)[ \t]+(-.*)$")
"""A line with options for sbatch; in lower case it is a comment by mistake."""

HEAD: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?(?:\n|\Z))*")
"""The lines above the first command."""

_JOB: Final = re.compile(
    r"""\bkind["']?\s*:\s*["']?(?:PyTorchJob|TrainJob|MPIJob|JobSet|LeaderWorkerSet"""
    r"""|(?:Cluster)?TrainingRuntime|Job)\b"""
)


_SHELL: Final = re.compile(r"#![^\n]*\b(?:|ba|da|k|z|c|tc)sh\b")
_REMARK: Final = re.compile(r"(?m)(?:^|[ \t])#.*")


def is_sbatch(text: str) -> bool:
    """Whether a text is a batch script of Slurm."""
    head = HEAD.match(text)
    assert head is not None
    if not text.startswith("#!"):
        return False
    return DIRECTIVE.search(head[0]) is not None or _is_too_late(text)


def is_of_shell(text: str) -> bool:
    """Whether the first line of a script names a shell, or no program at all."""
    return not text.startswith("#!") or _SHELL.match(text) is not None


def _is_too_late(text: str) -> bool:
    """Whether a script has its options below a command, where sbatch ignores them.

    A script that only writes another one has them in quotation marks, or behind <<.
    """
    match = DIRECTIVE.search(text)
    if match is None or not is_of_shell(text):
        return False
    before = _REMARK.sub("", text[: match.start()])
    is_open = any(before.count(quote) % 2 for quote in "'\"")
    return "<<" not in before and not is_open


def is_manifest(text: str) -> bool:
    """Whether a text is that of a manifest with a job."""
    return _JOB.search(text) is not None and "apiVersion" in text
