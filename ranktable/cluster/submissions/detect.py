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


def is_sbatch(text: str) -> bool:
    """Whether a text is a batch script of Slurm."""
    head = HEAD.match(text)
    assert head is not None
    return text.startswith("#!") and DIRECTIVE.search(head[0]) is not None


def is_manifest(text: str) -> bool:
    """Whether a text is that of a manifest with a job."""
    return _JOB.search(text) is not None and "apiVersion" in text
